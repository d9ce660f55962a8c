#include "mdc/sessions/lock_queries.h"

#include <gtest/gtest.h>

#include "mdc/testing/cast.h"

namespace reel::mdc {
namespace {

constexpr std::uint64_t kNowMs = 5'000;

class LockQueriesTest : public ::testing::Test {
 protected:
  std::vector<InodeNumber> Ask(std::optional<InodeNumber> inode = std::nullopt,
                               std::uint64_t now_ms = kNowMs) {
    return queries_.Begin(inode, now_ms, [this](bool yes) { ++(yes ? answered_ : refused_); });
  }
  void Return(InodeNumber inode, SessionId session) {
    ASSERT_TRUE(tokens_.Break(inode, session));
    queries_.Advance(kNowMs);
  }

  LockTokens tokens_;
  LockQueries queries_{tokens_};
  int answered_ = 0, refused_ = 0;
};

using Inodes = std::vector<InodeNumber>;

TEST_F(LockQueriesTest, AQueryWaitsForTheTokensOfItsInode) {
  tokens_.Grant(kFile, kA);
  tokens_.Grant(kOtherFile, kB);
  EXPECT_EQ(Ask(kFile), Inodes{kFile});
  Return(kOtherFile, kB);
  EXPECT_EQ(answered_, 0);
  Return(kFile, kA);
  EXPECT_EQ(answered_, 1);
  queries_.Advance(kNowMs + LockQueries::kMostMs);
  EXPECT_EQ(answered_, 1);
  EXPECT_EQ(refused_, 0);
}

TEST_F(LockQueriesTest, AQueryAboutAllWaitsForEachToken) {
  tokens_.Grant(kFile, kA);
  tokens_.Grant(kOtherFile, kB);
  EXPECT_EQ(Ask(), (Inodes{kFile, kOtherFile}));
  Return(kFile, kA);
  EXPECT_EQ(answered_, 0);
  Return(kOtherFile, kB);
  EXPECT_EQ(answered_, 1);
}

TEST_F(LockQueriesTest, WithoutTokensTheAnswerComesAtOnce) {
  tokens_.Grant(kOtherFile, kA);
  EXPECT_TRUE(Ask(kFile).empty());
  queries_.Advance(kNowMs);
  EXPECT_EQ(answered_, 1);
}

TEST_F(LockQueriesTest, ALaterTokenHoldsNoQueryUp) {
  tokens_.Grant(kFile, kA);
  Ask(kFile);
  ASSERT_TRUE(tokens_.Break(kFile, kA));
  tokens_.Grant(kFile, kB);
  queries_.Advance(kNowMs);
  EXPECT_EQ(answered_, 1);
}

TEST_F(LockQueriesTest, ASessionThatHangsHoldsAQueryUpForASecond) {
  tokens_.Grant(kFile, kA);
  Ask();
  Ask(std::nullopt, kNowMs + 1);
  queries_.Advance(kNowMs + LockQueries::kMostMs - 1);
  EXPECT_EQ(answered_, 0);
  queries_.Advance(kNowMs + LockQueries::kMostMs);
  EXPECT_EQ(answered_, 1);
  queries_.Advance(kNowMs + LockQueries::kMostMs + 1);
  EXPECT_EQ(answered_, 2);
}

TEST_F(LockQueriesTest, AnAnswerMayAskAgain) {
  tokens_.Grant(kFile, kA);
  Inodes awaited;
  queries_.Begin(kFile, kNowMs, [&](bool) {
    tokens_.Grant(kOtherFile, kB);
    awaited = Ask(kOtherFile);
    queries_.Advance(kNowMs);
  });
  Return(kFile, kA);
  EXPECT_EQ(awaited, Inodes{kOtherFile});
  EXPECT_EQ(answered_, 0);
  Return(kOtherFile, kB);
  EXPECT_EQ(answered_, 1);
}

TEST_F(LockQueriesTest, QueriesEndWhenTheControllerStops) {
  tokens_.Grant(kFile, kA);
  Ask();
  Ask(kFile);
  queries_.Close();
  EXPECT_EQ(refused_, 2);
  EXPECT_TRUE(Ask().empty());
  EXPECT_EQ(refused_, 3);
  queries_.Advance(kNowMs + LockQueries::kMostMs);
  EXPECT_EQ(answered_, 0);
}

}  // namespace
}  // namespace reel::mdc
