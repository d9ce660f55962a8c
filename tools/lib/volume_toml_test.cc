#include "tools/lib/volume_toml.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reel::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kExample[] = R"(name = "reel1"
block_size = "16KiB"
stripe_breadth = "512K"
strategy = "fill"
luns = ["/dev/mapper/*"]

[[pool]]
name = "meta"
flags = ["metadata"]
luns = ["m0"]

[[pool]]
name = "data"
flags = ["data", "exclusive"]
affinities = ["video", "audio"]
stripe_breadth = 1048576
luns = ["d0", "./d1.img"]
)";

TEST(VolumeToml, ReadsADescription) {
  const auto volume = ParseVolumeToml(kExample, "v.toml");
  ASSERT_TRUE(volume.ok()) << volume.status();
  EXPECT_EQ(volume->name, "reel1");
  EXPECT_EQ(volume->block_bytes, 16 * kKiB);
  EXPECT_EQ(volume->strategy, AllocationStrategy::kFill);
  EXPECT_THAT(volume->lun_patterns, ElementsAre("/dev/mapper/*"));
  ASSERT_EQ(volume->pools.size(), 2u);
  EXPECT_EQ(volume->pools[0].flags, Pool::kMetadata);
  EXPECT_EQ(volume->pools[0].breadth_bytes, 512 * kKiB);
  const PoolDescription& data = volume->pools[1];
  EXPECT_EQ(data.flags, Pool::kData | Pool::kExclusive);
  EXPECT_THAT(data.affinities, ElementsAre("video", "audio"));
  EXPECT_EQ(data.breadth_bytes, kMiB);
  EXPECT_EQ(data.luns[1].text, "./d1.img");
  EXPECT_EQ(data.luns[1].where, "v.toml:17: ");
  EXPECT_TRUE(data.luns[1].is_path());
  EXPECT_FALSE(data.luns[0].is_path());
}

TEST(VolumeToml, DefaultsFollowTheBlockSize) {
  const std::string pool = "[[pool]]\nname='p'\nflags=['metadata','data']\nluns=['a']\n";
  EXPECT_EQ(ParseVolumeToml("name='x'\n" + pool, "v")->pools[0].breadth_bytes,
            kDefaultBreadthBytes);
  EXPECT_EQ(ParseVolumeToml("name='x'\nblock_size='1M'\n" + pool, "v")->pools[0].breadth_bytes,
            kMiB);
}

// Each change of the example, and the line and words of its error.
TEST(VolumeToml, ErrorsNameTheLine) {
  struct Case {
    const char *from, *to, *error;
  };
  for (const Case& c : {
           Case{"\"reel1\"", "\"a b\"", "v.toml:1: name: 'a b'"},
           Case{"\"reel1\"", "5", "v.toml:1: name must be a string"},
           Case{"name = \"reel1\"\n", "", "v.toml:1: name: ''"},
           Case{"\"16KiB\"", "\"12KiB\"",
                "v.toml:2: block_size is 12 KiB; it must be a power of two"},
           Case{"\"16KiB\"", "\"2MiB\"", "v.toml:2: block_size is 2 MiB"},
           Case{"\"16KiB\"", "\"16kB\"", "v.toml:2: block_size: \"16kB\" is not a size"},
           Case{"\"16KiB\"", "-1", "v.toml:2: block_size must be a size"},
           Case{"\"512K\"", "\"24K\"", "v.toml:3: stripe_breadth is 24 KiB; it must be a multiple"},
           Case{"\"fill\"", "\"full\"", "v.toml:4: unknown strategy \"full\""},
           Case{"[\"/dev/mapper/*\"]", "\"/dev/mapper/*\"",
                "v.toml:5: luns must be a list of strings"},
           Case{"[\"m0\"]", "[7]", "v.toml:10: luns must be a list of strings"},
           Case{"[\"m0\"]", "[]", "v.toml:7: pool \"meta\" has no luns"},
           Case{"[\"m0\"]", "[\"d0\"]", "v.toml:17: LUN \"d0\" is given twice"},
           Case{"[\"metadata\"]", "[\"meta\"]", "v.toml:9: unknown flag \"meta\""},
           Case{"[\"metadata\"]", "[\"exclusive\"]", "v.toml:7: the pool needs flags"},
           Case{"affinities = [\"video\", \"audio\"]\n", "",
                "v.toml:12: pool \"data\" is exclusive"},
           Case{"\"audio\"", "\"video\"", "v.toml:15: affinity \"video\" appears twice"},
           Case{"1048576", "0", "v.toml:12: stripe_breadth is 0 B"},
           Case{"name = \"data\"", "name = \"meta\"", "v.toml:12: a pool \"meta\" exists already"},
           Case{"strategy", "stratgy", "v.toml:4: unknown key \"stratgy\""},
           Case{"affinities", "afinities", "v.toml:15: unknown key \"afinities\""},
           Case{"strategy = ", "strategy ", "v.toml:4: "},
       }) {
    std::string text = kExample;
    text.replace(text.find(c.from), std::string(c.from).size(), c.to);
    const auto volume = ParseVolumeToml(text, "v.toml");
    ASSERT_FALSE(volume.ok()) << c.error;
    EXPECT_THAT(std::string(volume.status().message()), StartsWith(c.error));
    EXPECT_EQ(volume.status().message().find('\n'), std::string::npos) << volume.status();
  }
}

TEST(VolumeToml, OnlyCommentsAreNotAscii) {
  const std::string pool = "[[pool]]\nname='p'\nflags=['metadata','data']\nluns=[";
  const auto parse = [](const std::string& text) { return ParseVolumeToml(text, "v"); };
  EXPECT_TRUE(parse("name='x' # Größe\n" + pool + "'a']\n").ok());
  EXPECT_EQ(parse("name='x'\n" + pool + "\"./\\u00fc#\"]\n")->pools[0].luns[0].text, "./ü#");
  EXPECT_THAT(std::string(parse("name='x'\n" + pool + "'./ü']\n").status().message()),
              StartsWith("v:5: a character that is not ASCII"));
  EXPECT_THAT(std::string(parse(std::string("name='x'\n\0", 10)).status().message()),
              StartsWith("v:2: control character 0x0"));
}

// Texts that toml++ itself does not survive.
TEST(VolumeToml, WrongTextsAreErrors) {
  for (const char* text : {"[/x", "[ !", "name =2\"reel\xef\xbb\xaf", "é", "[\xef\xb3\xbf]"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParseVolumeToml(text, "v").status())) << text;
  }
}

TEST(VolumeToml, NeedsPools) {
  EXPECT_THAT(ParseVolumeToml("name='x'", "v").status().message(), HasSubstr("[[pool]] is needed"));
  EXPECT_THAT(ParseVolumeToml("name='x'\npool=[1]", "v").status().message(),
              HasSubstr("v:2: at least one [[pool]]"));
}

TEST(VolumeToml, AMissingFileIsNamed) {
  EXPECT_THAT(ReadVolumeToml("/nowhere/v.toml").status().message(),
              HasSubstr("cannot open /nowhere/v.toml: No such file"));
}

}  // namespace
}  // namespace reel::tools
