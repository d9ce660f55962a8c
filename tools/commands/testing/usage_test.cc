#include "tools/commands/usage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tools/commands/command_table.h"

namespace reel::tools {
namespace {

using ::testing::ElementsAre;

TEST(UsageTest, NothingButTheCommand) {
  EXPECT_TRUE(MatchesUsage("", {}));
  EXPECT_FALSE(MatchesUsage("", {"more"}));
}

TEST(UsageTest, PlacesTakeOneWordEach) {
  EXPECT_TRUE(MatchesUsage("SESSION", {"17"}));
  EXPECT_FALSE(MatchesUsage("SESSION", {}));
  EXPECT_FALSE(MatchesUsage("SESSION", {""}));
  EXPECT_FALSE(MatchesUsage("SESSION", {"17", "18"}));
}

TEST(UsageTest, BracketsMayBeAbsent) {
  const std::string_view usage = "[POOL] [long]";
  for (const Words& words : {Words{}, {"data"}, {"long"}, {"data", "long"}}) {
    EXPECT_TRUE(MatchesUsage(usage, words));
  }
  EXPECT_FALSE(MatchesUsage(usage, {"data", "longer"}));
}

TEST(UsageTest, WaysToCallAreApart) {
  const std::string_view usage = "[break INODE [SESSION]]";
  EXPECT_TRUE(MatchesUsage(usage, {}));
  EXPECT_TRUE(MatchesUsage(usage, {"break", "7"}));
  EXPECT_TRUE(MatchesUsage(usage, {"break", "7", "12"}));
  EXPECT_FALSE(MatchesUsage(usage, {"break"}));
  EXPECT_FALSE(MatchesUsage(usage, {"brake", "7"}));
  EXPECT_TRUE(MatchesUsage("check | show DIR", {"show", "/etc"}));
  EXPECT_FALSE(MatchesUsage("check | show DIR", {"check", "/etc"}));
}

TEST(UsageTest, TheLastPlaceMayBeRepeated) {
  EXPECT_FALSE(MatchesUsage("set NAME PATH...", {"set", "audio"}));
  EXPECT_TRUE(MatchesUsage("set NAME PATH...", {"set", "audio", "a"}));
  EXPECT_TRUE(MatchesUsage("set NAME PATH...", {"set", "audio", "a", "b", "c"}));
}

TEST(UsageTest, WhatComesNext) {
  const auto next = NextWords("[on|off | set NAME PATH...]", {});
  ASSERT_EQ(next.size(), 2u);
  EXPECT_THAT(next[0].literals, ElementsAre("on", "off"));
  EXPECT_THAT(next[1].literals, ElementsAre("set"));
  EXPECT_EQ(NextWords("set NAME PATH...", {"set", "a"})[0].kind, WordKind::kPath);
  EXPECT_EQ(NextWords("set NAME PATH...", {"set", "a", "b"})[0].kind, WordKind::kPath);
  EXPECT_TRUE(NextWords("[on|off]", {"on"}).empty());
}

TEST(UsageTest, ExamplesAreCallsOfTheirCommands) {
  for (const AdminCommand& command : AllCommands()) {
    for (const std::string_view example : command.examples) {
      auto words = SplitWords(example);
      ASSERT_TRUE(words.ok()) << example;
      std::erase_if(*words, [](const std::string& word) { return word.starts_with("--"); });
      ASSERT_EQ(words->at(0), command.name) << example;
      EXPECT_TRUE(MatchesUsage(command.usage, {words->begin() + 1, words->end()})) << example;
    }
  }
}

}  // namespace
}  // namespace reel::tools
