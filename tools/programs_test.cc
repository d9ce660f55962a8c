// mkfs.reelfs and fsck.reelfs as they are run: each test a short session at the shell.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>

#include "nlohmann/json.hpp"
#include "volume/label.h"
#include "volume/lun.h"

namespace reel::tools {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

struct Outcome {
  int exit_code = -1;
  std::string output;
};

Outcome Shell(const std::string& command) {
  Outcome outcome;
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::array<char, 4096> chunk;
  for (std::size_t got; (got = fread(chunk.data(), 1, chunk.size(), pipe)) > 0;) {
    outcome.output.append(chunk.data(), got);
  }
  const int status = pclose(pipe);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

class ProgramsTest : public ::testing::Test {
 protected:
  ProgramsTest() {
    std::string name = std::filesystem::temp_directory_path() / "reel-programs-XXXXXX";
    directory_ = mkdtemp(name.data());
  }
  ~ProgramsTest() override { std::filesystem::remove_all(directory_); }

  std::string MakeImage(const std::string& name, std::uint64_t mib = 64) {
    const std::string path = directory_ + "/" + name;
    std::ofstream(path).close();
    std::filesystem::resize_file(path, mib << 20);
    return path;
  }
  std::string WriteFile(const std::string& name, const std::string& text) {
    const std::string path = directory_ + "/" + name;
    std::ofstream(path) << text;
    return path;
  }
  Outcome Mkfs(const std::string& arguments) {
    return Shell(std::string(MKFS_PATH " ") + arguments);
  }
  Outcome Fsck(const std::string& arguments) {
    return Shell(std::string(FSCK_PATH " ") + arguments + " --luns '" + directory_ + "/*.img'");
  }
  void Overwrite(const std::string& path, std::uint64_t offset, const std::string& bytes) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file << bytes;
  }

  std::string directory_;
};

TEST_F(ProgramsTest, OneLunIsAVolume) {
  const std::string a = MakeImage("a.img");
  const Outcome made = Mkfs("reel1 " + a);
  EXPECT_EQ(made.exit_code, 0) << made.output;
  EXPECT_THAT(made.output, HasSubstr("The volume is ready."));
  const Outcome checked = Fsck("reel1");
  EXPECT_EQ(checked.exit_code, 0) << checked.output;
  EXPECT_THAT(checked.output, HasSubstr("reel1: clean, 0 files, 1536/4032 blocks"));
}

TEST_F(ProgramsTest, ADescriptionBecomesAVolume) {
  MakeImage("m0.img");
  MakeImage("d0.img", 128);
  MakeImage("d1.img", 130);
  const std::string config = WriteFile(
      "v.toml", "name = \"reel1\"\nluns = [\"" + directory_ +
                    "/*.img\"]\n[[pool]]\nname = \"meta\"\n" +
                    "flags = [\"metadata\"]\nluns = [\"" + directory_ + "/m0.img\"]\n[[pool]]\n" +
                    "name = \"data\"\nflags = [\"data\"]\nstripe_breadth = \"1M\"\nluns = [\"" +
                    directory_ + "/d0.img\", \"" + directory_ + "/d1.img\"]\n");
  const Outcome made = Mkfs("--json --config " + config);
  ASSERT_EQ(made.exit_code, 0) << made.output;
  const auto json = nlohmann::json::parse(made.output);
  EXPECT_EQ(json["seat"], "m0.img");
  EXPECT_EQ(json["pools"][1]["lost_bytes"], 2u << 20);
  EXPECT_EQ(json["data_bytes"], 2 * (127u << 20));
  const Outcome checked = Fsck("reel1 --json");
  EXPECT_EQ(checked.exit_code, 0) << checked.output;
  EXPECT_TRUE(nlohmann::json::parse(checked.output)["clean"]);
}

TEST_F(ProgramsTest, AVolumeIsNotOverwrittenUnlessNamed) {
  const std::string a = MakeImage("a.img");
  ASSERT_EQ(Mkfs("reel1 " + a).exit_code, 0);
  const Outcome refused = Mkfs("reel2 " + a);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.output, HasSubstr("holds LUN \"a.img\" of the volume"));
  EXPECT_EQ(Mkfs("reel2 " + a + " --force " + directory_ + "/other").exit_code, 1);
  EXPECT_EQ(Fsck("reel1").exit_code, 0);
  const Outcome forced = Mkfs("reel2 " + a + " --force " + a);
  EXPECT_EQ(forced.exit_code, 0) << forced.output;
  EXPECT_EQ(Fsck("reel1").exit_code, 8);
  EXPECT_EQ(Fsck("reel2").exit_code, 0);
}

TEST_F(ProgramsTest, ForeignContentIsNotOverwritten) {
  const std::string a = MakeImage("a.img");
  // A DOS partition table with one Linux partition.
  Overwrite(a, 446,
            std::string("\x00\x20\x21\x00\x83\xff\xff\x00\x00\x08\x00\x00\x00\xe8\x01\x00", 16));
  Overwrite(a, 510, "\x55\xaa");
  const Outcome refused = Mkfs("reel1 " + a);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.output, HasSubstr("dos partition table; to overwrite it, give --force"));
}

TEST_F(ProgramsTest, NothingChangesOnErrorOrDryRun) {
  const std::string a = MakeImage("a.img"), b = MakeImage("b.img", 8);
  const std::string config =
      WriteFile("v.toml",
                "name = \"reel1\"\n[[pool]]\nname = \"p\"\nflags = [\"metadata\", \"data\"]\n"
                "luns = [\"" +
                    a + "\", \"" + b + "\"]\n");
  const Outcome small = Mkfs("-c " + config);
  EXPECT_EQ(small.exit_code, 1);
  EXPECT_THAT(small.output, HasSubstr("v.toml:2: LUN " + b + " is too small: 8 MiB"));
  const Outcome dry = Mkfs("--dry-run reel1 " + a);
  EXPECT_EQ(dry.exit_code, 0);
  EXPECT_THAT(dry.output, HasSubstr("Nothing was changed"));
  const auto lun = OpenLun(a, LunAccess::kReadOnly);
  EXPECT_TRUE(absl::IsNotFound(ReadLabel(**lun).status()));
}

TEST_F(ProgramsTest, WrongUseIsTold) {
  const std::string a = MakeImage("a.img");
  EXPECT_EQ(Mkfs("").exit_code, 2);
  EXPECT_EQ(Mkfs("reel1").exit_code, 2);
  EXPECT_EQ(Mkfs("--frobnicate").exit_code, 2);
  EXPECT_EQ(Mkfs("'bad name' " + a).exit_code, 2);
  EXPECT_THAT(Mkfs("reel1 " + a + " " + a).output, HasSubstr("is given twice"));
  EXPECT_THAT(Mkfs("reel1 nolabel --luns '" + directory_ + "/*'").output,
              HasSubstr("no LUN is named \"nolabel\""));
  EXPECT_THAT(Mkfs("reel1 /nowhere/x").output, HasSubstr("/nowhere/x"));
  EXPECT_EQ(Fsck("").exit_code, 16);
  EXPECT_EQ(Fsck("-y reel1").exit_code, 16);
  EXPECT_EQ(Fsck("reel1").exit_code, 8);
}

TEST_F(ProgramsTest, ALunInUseIsLeftAlone) {
  const std::string a = MakeImage("a.img");
  ASSERT_EQ(Mkfs("reel1 " + a).exit_code, 0);
  const int fd = open(a.c_str(), O_RDONLY);
  ASSERT_EQ(flock(fd, LOCK_EX), 0);
  EXPECT_EQ(Fsck("-n reel1").exit_code, 8);
  const Outcome refused = Mkfs("reel2 " + a + " --force " + a);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.output, HasSubstr("in use"));
  close(fd);
  EXPECT_EQ(Fsck("-n reel1").exit_code, 0);
}

TEST_F(ProgramsTest, DamageIsReported) {
  const std::string a = MakeImage("a.img");
  ASSERT_EQ(Mkfs("reel1 " + a).exit_code, 0);
  Overwrite(a, kLabelCopyOffset + 100, "x");
  const Outcome label = Fsck("reel1");
  EXPECT_EQ(label.exit_code, 4);
  EXPECT_THAT(label.output, HasSubstr("copy of the label"));
  EXPECT_THAT(label.output, HasSubstr("1 problem found, nothing was changed"));
  Overwrite(a, kReservedBytes + 20, "xxxx");  // a superblock of the metadata store
  const Outcome store = Fsck("reel1");
  EXPECT_EQ(store.exit_code, 4);
  EXPECT_THAT(store.output, HasSubstr("superblock"));
  EXPECT_THAT(store.output, Not(HasSubstr("clean")));
}

}  // namespace
}  // namespace reel::tools
