#include "client/ahead/directory_opens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "absl/strings/str_cat.h"

namespace reel::client {
namespace {

using Fetch = DirectoryOpens::Fetch;

// A directory of files f0, f1, …, whose inodes are 100, 101, …, and its controller.
class DirectoryOpensTest : public testing::Test {
 protected:
  std::optional<Fetch> Open(std::uint64_t file) {
    now_ms_ += 1;
    const bool cold = held_.insert({directory_, file}).second;
    if (cold) ++cold_;
    const std::string name = absl::StrCat("f", file);
    const auto fetch = opens_.Open({.directory = directory_,
                                    .name = name,
                                    .inode = 100 + file,
                                    .cold = cold,
                                    .now_ms = now_ms_});
    opens_.Close(directory_, reads_);
    return fetch;
  }
  // The next files, in the order in which they were made.
  void Answer(const Fetch& fetch) {
    DirectoryOpens::Fetched fetched;
    std::uint64_t file = std::stoull(fetch.behind.substr(1)) + 1;
    for (std::uint32_t i = 0; i < fetch.files && file < files_; ++i, ++file) {
      held_.insert({fetch.directory, file});
      fetched.inodes.push_back(100 + file);
      fetched.last = absl::StrCat("f", file);
    }
    fetched.end = file >= files_;
    opens_.Answer(fetch.directory, fetched);
  }
  // Whether anything was asked for.
  bool OpenAndAnswer(std::uint64_t file) {
    const auto fetch = Open(file);
    if (fetch) Answer(*fetch);
    return fetch.has_value();
  }

  DirectoryOpens opens_;
  std::uint64_t directory_ = 7;
  std::uint64_t files_ = 1000;
  std::uint64_t now_ms_ = 1'000'000;
  bool reads_ = true;
  std::set<std::pair<std::uint64_t, std::uint64_t>> held_;  // by directory and file
  int cold_ = 0;
};

TEST_F(DirectoryOpensTest, ThreeColdOpensFetchWhatIsListedBehindTheLast) {
  EXPECT_FALSE(Open(0));
  EXPECT_FALSE(Open(1));
  const auto fetch = Open(2);
  ASSERT_TRUE(fetch);
  EXPECT_EQ(fetch->directory, 7u);
  EXPECT_EQ(fetch->behind, "f2");
  EXPECT_EQ(fetch->files, DirectoryOpens::kFirstFiles);
  EXPECT_TRUE(fetch->bytes);
  EXPECT_FALSE(Open(3)) << "one is under way";
}

TEST_F(DirectoryOpensTest, NobodyReadsWhatIsOnlyOpened) {
  reads_ = false;
  Open(0);
  Open(1);
  EXPECT_FALSE(Open(2)->bytes);
}

TEST_F(DirectoryOpensTest, WhoeverGoesThroughADirectoryWaitsForThreeOpensOnly) {
  int fetches = 0;
  for (std::uint64_t file = 0; file < files_; ++file) fetches += OpenAndAnswer(file) ? 1 : 0;
  EXPECT_EQ(cold_, 3);
  EXPECT_LE(fetches, 16);
}

TEST_F(DirectoryOpensTest, TheNextFetchIsLargerAndBeginsBehindTheLast) {
  for (const std::uint64_t file : {0, 1, 2}) OpenAndAnswer(file);  // 3 to 18
  for (std::uint64_t file = 3; file < 6; ++file) EXPECT_FALSE(Open(file)) << file;
  const auto fetch = Open(6);
  ASSERT_TRUE(fetch);
  EXPECT_EQ(fetch->behind, "f18");
  EXPECT_EQ(fetch->files, 2 * DirectoryOpens::kFirstFiles);
}

TEST_F(DirectoryOpensTest, AnotherOrderWithinWhatWasFetchedDoes) {
  for (const std::uint64_t file : {0, 1, 2}) OpenAndAnswer(file);
  for (std::uint64_t file = 18; file > 15; --file) EXPECT_FALSE(Open(file)) << file;
  EXPECT_TRUE(Open(15));
  EXPECT_EQ(cold_, 3);
}

TEST_F(DirectoryOpensTest, AWalkGoesOnWithTheFirstFileOfTheNextDirectory) {
  files_ = 10;
  for (const std::uint64_t file : {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}) OpenAndAnswer(file);
  directory_ = 8;
  EXPECT_TRUE(Open(0));
  directory_ = 9;
  now_ms_ += DirectoryOpens::kWalkMs;
  EXPECT_FALSE(Open(0)) << "that was long ago";
}

TEST_F(DirectoryOpensTest, WhatNobodyOpensMakesItWaitLonger) {
  files_ = 100'000;
  std::uint64_t opened = 0;
  std::vector<std::uint64_t> asked_after;
  for (int i = 0; i < 1'000; ++i) {
    ++opened;
    if (OpenAndAnswer((i * 7'919) % files_)) asked_after.push_back(std::exchange(opened, 0));
  }
  ASSERT_GE(asked_after.size(), 5u);
  EXPECT_THAT(std::vector(asked_after.begin(), asked_after.begin() + 5),
              testing::ElementsAre(3, 3, 12, 48, 192));
  EXPECT_LE(asked_after.size(), 9u);
}

TEST_F(DirectoryOpensTest, FilesThatCannotBeFetchedDoNotCountAgainstTheOthers) {
  for (const std::uint64_t file : {0, 1, 2}) OpenAndAnswer(file);
  for (std::uint64_t file = 3; file < 6; ++file) {
    held_.erase({directory_, file});  // another host writes it
    EXPECT_FALSE(Open(file)) << file;
  }
  EXPECT_TRUE(Open(7)) << "a quarter of them was opened";
}

TEST_F(DirectoryOpensTest, AfterAFetchThatBroughtNothingTheNextOneComesLater) {
  Open(0);
  Open(1);
  ASSERT_TRUE(Open(2));
  opens_.Answer(directory_, {});
  EXPECT_FALSE(opens_.waits());
  for (std::uint64_t file = 3; file < 14; ++file) EXPECT_FALSE(Open(file)) << file;
  EXPECT_TRUE(Open(14));
}

TEST_F(DirectoryOpensTest, AWalkAsksOnceForWhatDoesNotCome) {
  files_ = 10;
  for (std::uint64_t file = 0; file < files_; ++file) OpenAndAnswer(file);
  directory_ = 8;
  ASSERT_TRUE(Open(0));
  opens_.Answer(directory_, {});
  for (std::uint64_t file = 1; file < 10; ++file) EXPECT_FALSE(Open(file)) << file;
}

TEST_F(DirectoryOpensTest, APauseForgetsTheDirectory) {
  for (const std::uint64_t file : {0, 1, 2}) OpenAndAnswer(file);
  EXPECT_TRUE(opens_.waits());
  now_ms_ += DirectoryOpens::kPauseMs + 1;
  directory_ = 8;
  Open(0);
  EXPECT_FALSE(opens_.Knows(7));
  EXPECT_FALSE(opens_.waits());
}

TEST_F(DirectoryOpensTest, NoMoreIsKeptThanOfSoManyDirectories) {
  for (directory_ = 1; directory_ <= DirectoryOpens::kMaxDirectories + 1; ++directory_) Open(0);
  EXPECT_FALSE(opens_.Knows(1));
  EXPECT_TRUE(opens_.Knows(2));
  opens_.Answer(1, {});  // which was under way, perhaps
}

}  // namespace
}  // namespace reel::client
