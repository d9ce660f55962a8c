// Who gets a token when, and what becomes of those of a session that ends.
#include "mdc/core/core.h"

#include "mdc/testing/core_harness.h"

namespace reel::mdc {
namespace {

class CoreTokensTest : public testing::Test {
 protected:
  CoreHarness harness_;
  Client a_{harness_, 1}, b_{harness_, 2}, c_{harness_, 3};
};

TEST_F(CoreTokensTest, AnExclusiveTokenIsRecalledForAReader) {
  a_.Register();
  b_.Register();
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE)), 0);
  EXPECT_EQ(a_.last_.layout().mode(), v1::TOKEN_EXCLUSIVE);
  const std::uint64_t waiting = b_.Send(Client::LayoutOf(inode, v1::TOKEN_SHARED));
  harness_.Run();
  EXPECT_FALSE(b_.Answered(waiting));
  ASSERT_EQ(a_.recalls_.size(), 1u);
  EXPECT_EQ(a_.recalls_[0].mode(), v1::TOKEN_SHARED);
  // What it holds it may go on using until it answers.
  EXPECT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE, true), true), 0);
  EXPECT_EQ(a_.Do(Client::ReturnOf(inode, v1::TOKEN_SHARED), true), 0);
  ASSERT_TRUE(b_.Answered(waiting));
  EXPECT_EQ(b_.Answer(waiting).layout().mode(), v1::TOKEN_SHARED);
}

TEST_F(CoreTokensTest, WaitersAreServedInTurn) {
  for (Client* client : {&a_, &b_, &c_}) client->Register();
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_SHARED)), 0);
  const std::uint64_t writer = b_.Send(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE));
  // Would go well with the token of A, but stands behind the writer.
  const std::uint64_t reader = c_.Send(Client::LayoutOf(inode, v1::TOKEN_SHARED));
  harness_.Run();
  EXPECT_FALSE(c_.Answered(reader));
  ASSERT_EQ(a_.Do(Client::ReturnOf(inode), true), 0);
  EXPECT_TRUE(b_.Answered(writer));
  EXPECT_FALSE(c_.Answered(reader));
  ASSERT_EQ(b_.recalls_.size(), 1u);
  ASSERT_EQ(b_.Do(Client::ReturnOf(inode, v1::TOKEN_SHARED), true), 0);
  EXPECT_TRUE(c_.Answered(reader));
}

TEST_F(CoreTokensTest, TwoReadersThatBothWantToWriteGetTheirTurns) {
  a_.Register();
  b_.Register();
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_SHARED)), 0);
  ASSERT_EQ(b_.Do(Client::LayoutOf(inode, v1::TOKEN_SHARED)), 0);
  const std::uint64_t first = a_.Send(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE));
  const std::uint64_t second = b_.Send(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE));
  harness_.Run();
  ASSERT_EQ(b_.recalls_.size(), 1u);
  ASSERT_EQ(b_.Do(Client::ReturnOf(inode), true), 0);
  EXPECT_TRUE(a_.Answered(first));
  EXPECT_FALSE(b_.Answered(second));
  ASSERT_EQ(a_.recalls_.size(), 1u);
  ASSERT_EQ(a_.Do(Client::ReturnOf(inode), true), 0);
  EXPECT_TRUE(b_.Answered(second));
}

TEST_F(CoreTokensTest, AReturnAndANewRequestKeepTheirOrder) {
  a_.Register();
  b_.Register();
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE)), 0);
  a_.SendIn(1, Client::ReturnOf(inode));
  const std::uint64_t again = a_.Send(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE));
  harness_.Run();
  EXPECT_EQ(a_.Answer(again).layout().mode(), v1::TOKEN_EXCLUSIVE);
  b_.Send(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE));
  harness_.Run();
  EXPECT_EQ(a_.recalls_.size(), 1u);  // the controller knows that A holds it
}

TEST_F(CoreTokensTest, ARecallThatWasLostWithItsStreamIsSentAgain) {
  a_.Register();
  b_.Register();
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE)), 0);
  a_.Disconnect();
  const std::uint64_t waiting = b_.Send(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE));
  harness_.Run();
  ASSERT_EQ(a_.Resume(), 0);
  harness_.Pass(100, {&a_, &b_});
  ASSERT_EQ(a_.recalls_.size(), 1u);
  ASSERT_EQ(a_.Do(Client::ReturnOf(inode), true), 0);
  EXPECT_TRUE(b_.Answered(waiting));
}

TEST_F(CoreTokensTest, ASilentSessionIsEvictedAndItsTokensGoToOthers) {
  a_.Register();
  b_.Register();
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE)), 0);
  const std::uint64_t waiting = b_.Send(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE));
  harness_.Pass(9'000, {&b_});
  EXPECT_FALSE(b_.Answered(waiting));
  harness_.Pass(2'000, {&b_});
  EXPECT_TRUE(b_.Answered(waiting));
  EXPECT_TRUE(a_.evicted_);
  EXPECT_TRUE(a_.ended_);
  EXPECT_EQ(a_.Resume(), ESTALE);
  EXPECT_EQ(a_.Hello(), 0);  // as a new session
}

TEST_F(CoreTokensTest, NothingIsGivenAwayBeforeTheEvictionIsDurable) {
  a_.Register();
  b_.Register();
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE)), 0);
  const std::uint64_t waiting = b_.Send(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE));
  harness_.Run();
  harness_.hold_syncs_ = true;
  harness_.Pass(11'000, {&b_});
  harness_.core_->OnDurable(Sequence(1));  // of something older
  harness_.Run();
  EXPECT_FALSE(b_.Answered(waiting));
  EXPECT_FALSE(a_.evicted_);
  harness_.hold_syncs_ = false;
  harness_.Run();
  EXPECT_TRUE(b_.Answered(waiting));
  EXPECT_TRUE(a_.evicted_);
}

TEST_F(CoreTokensTest, AnEvictionHalfDoneIsCompletedByTheNextController) {
  a_.Register();
  b_.Register();
  harness_.hold_syncs_ = true;
  harness_.Pass(11'000, {&b_});
  harness_.Restart();
  EXPECT_EQ(a_.Resume(), ESTALE);
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  harness_.Pass(10'000, {&b_});  // nobody knows when its lease had ended
  EXPECT_EQ(harness_.Sessions(), 1u);
  EXPECT_EQ(b_.Do(Client::GetAttrOf(1)), 0);  // nobody else holds up grace
}

TEST_F(CoreTokensTest, AStoppedControllerEvictsNoSession) {
  a_.Register();
  harness_.Pass(200, {&a_});
  harness_.clock_.now_ms += 60'000;  // as by SIGSTOP: no tick in between
  harness_.core_->OnTick();
  harness_.Run();
  EXPECT_FALSE(a_.evicted_);
  EXPECT_EQ(a_.Do(Client::GetAttrOf(1)), 0);
}

}  // namespace
}  // namespace reel::mdc
