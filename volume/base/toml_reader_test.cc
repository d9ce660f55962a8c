#include "volume/base/toml_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reel {
namespace {

using ::testing::HasSubstr;

TEST(TomlReader, ReadsNumbersChoicesAndTables) {
  const auto root = ParseToml("count = 7\nlevel = 'warn'\n[[pool]]\na = 1\n[[pool]]\n", "f");
  ASSERT_TRUE(root.ok()) << root.status();
  TomlTable table(*root, "f");
  constexpr std::string_view kLevels[] = {"info", "warn"};
  EXPECT_EQ(table.Number("count", 1, 7), 7);
  EXPECT_EQ(table.Number("absent", 1, 7), std::nullopt);
  EXPECT_EQ(table.Choice("level", kLevels), "warn");
  EXPECT_EQ(table.Tables("pool", 2).size(), 2u);
  EXPECT_TRUE(table.Finish().ok());
}

TEST(TomlReader, TheFirstErrorSticksWithItsLine) {
  const auto error = [](const char* text) {
    const auto root = ParseToml(text, "f");
    if (!root.ok()) return std::string(root.status().message());
    TomlTable table(*root, "f");
    constexpr std::string_view kLevels[] = {"info", "warn"};
    table.Number("count", 1, 7);
    table.Choice("level", kLevels);
    table.Tables("pool", 2);
    return std::string(table.Finish().message());
  };
  EXPECT_EQ(error("\ncount = 8\nlevel = 3\n"), "f:2: count must be a number from 1 to 7");
  EXPECT_EQ(error("count = 1.5\n"), "f:1: count must be a number from 1 to 7");
  EXPECT_EQ(error("level = 'loud'\n"), "f:1: level must be one of \"info\", \"warn\"");
  EXPECT_EQ(error("pool = [1]\n"), "f:1: pool must be a list of tables");
  EXPECT_EQ(error("pool = 'x'\n"), "f:1: pool must be a list of tables");
  EXPECT_EQ(error("[[pool]]\n[[pool]]\n[[pool]]\n"),
            "f:1: pool has 3 entries; at most 2 are possible");
  EXPECT_EQ(error("count = 1\nsize = 2\n"), "f:2: unknown key \"size\"");
}

// toml++ 3.3 by itself aborts on the first of these, and reads beyond its tables on the second.
TEST(TomlReader, SurvivesInputThatCrashesTheLibrary) {
  EXPECT_THAT(std::string(ParseToml("[/x", "f").status().message()), HasSubstr("f:1: "));
  EXPECT_THAT(std::string(ParseToml("\xc3\xa4 = 1", "f").status().message()),
              HasSubstr("not ASCII"));
  EXPECT_TRUE(ParseToml("# \xc3\xa4\na = 1\n", "f").ok());
}

}  // namespace
}  // namespace reel
