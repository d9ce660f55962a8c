// The beginning of an epoch, and files without a name.
#include "mdc/core/core.h"

#include "mdc/testing/core_harness.h"

namespace reel::mdc {
namespace {

class CoreGraceTest : public testing::Test {
 protected:
  CoreHarness harness_;
  Client a_{harness_, 1}, b_{harness_, 2}, c_{harness_, 3};
};

TEST_F(CoreGraceTest, NoSessionIsServedUntilAllHaveReclaimed) {
  a_.Register();
  b_.Register();
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE)), 0);
  harness_.Restart();
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  const std::uint64_t early = b_.Send(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE));
  const std::uint64_t read = b_.Send(Client::GetAttrOf(1));
  harness_.Run();
  EXPECT_FALSE(b_.Answered(early));
  EXPECT_FALSE(b_.Answered(read));

  ASSERT_EQ(a_.Resume(), 0);
  v1::Reclaim reclaim;
  reclaim.add_tokens()->set_inode(inode);
  reclaim.mutable_tokens(0)->set_mode(v1::TOKEN_EXCLUSIVE);
  ASSERT_EQ(a_.Reclaim(reclaim), 0);
  EXPECT_TRUE(b_.Answered(read));
  EXPECT_FALSE(b_.Answered(early));  // A holds it still
  EXPECT_EQ(a_.recalls_.size(), 1u);
}

TEST_F(CoreGraceTest, GraceEndsWithTheLeaseOfAMissingSession) {
  a_.Register();
  b_.Register();
  harness_.Restart();
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  const std::uint64_t read = b_.Send(Client::GetAttrOf(1));
  harness_.Pass(9'900, {&b_});
  EXPECT_FALSE(b_.Answered(read));
  harness_.Pass(300, {&b_});
  EXPECT_TRUE(b_.Answered(read));
  EXPECT_EQ(a_.Resume(), ESTALE);
}

TEST_F(CoreGraceTest, ReclaimComesBeforeAllElse) {
  a_.Register();
  harness_.Restart();
  ASSERT_EQ(a_.Resume(), 0);
  EXPECT_EQ(a_.Do(Client::GetAttrOf(1)), EPROTO);
  EXPECT_TRUE(a_.ended_);
}

TEST_F(CoreGraceTest, AConflictingReclaimEvictsItsSession) {
  a_.Register();
  b_.Register();
  const std::uint64_t inode = a_.Create("file");
  harness_.Restart();
  v1::Reclaim reclaim;
  reclaim.add_tokens()->set_inode(inode);
  reclaim.mutable_tokens(0)->set_mode(v1::TOKEN_EXCLUSIVE);
  ASSERT_EQ(a_.Resume(), 0);
  ASSERT_EQ(a_.Reclaim(reclaim), 0);
  ASSERT_EQ(b_.Resume(), 0);
  EXPECT_EQ(b_.Reclaim(reclaim), -1);
  EXPECT_TRUE(b_.evicted_);
  harness_.Pass(10'000, {&a_});  // it may not have heard of that
  EXPECT_EQ(a_.Do(Client::GetAttrOf(1)), 0);
}

// Nobody waits for it: it needs no message of its own.
TEST_F(CoreGraceTest, TheAnswerToACloseTravelsWithAnother) {
  a_.Register();
  b_.Register();
  const std::uint64_t inode = a_.Create("closed", /*open=*/true);
  const std::uint64_t first = a_.Send(Client::CloseOf(inode));
  harness_.Run();
  EXPECT_FALSE(a_.Answered(first));
  ASSERT_EQ(b_.Do(Client::LookupOf("closed")), 0);
  EXPECT_FALSE(a_.Answered(first));  // not with another's
  a_.log_.clear();
  const std::uint64_t look = a_.Send(Client::LookupOf("closed"));
  harness_.Run();
  EXPECT_EQ(a_.log_, (std::vector<std::string>{absl::StrCat("reply ", first),
                                               absl::StrCat("reply ", look)}));
  const std::uint64_t second = a_.Send(Client::CloseOf(inode));
  harness_.Run();
  EXPECT_FALSE(a_.Answered(second));
  harness_.Tick();
  EXPECT_TRUE(a_.Answered(second));
  std::uint64_t last = 0;
  for (int i = 0; i < 64; ++i) last = a_.Send(Client::CloseOf(inode));
  harness_.Run();
  EXPECT_TRUE(a_.Answered(last));
}

TEST_F(CoreGraceTest, AnUnlinkedFileLivesUntilItsLastClose) {
  a_.Register();
  b_.Register();
  const std::uint64_t free_before = harness_.FreeBlocks();
  const std::uint64_t inode = a_.Create("file", /*open=*/true);
  ASSERT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE, true, 0, 1 << 20), true), 0);
  const std::uint64_t unlink = b_.SendIn(1, Client::UnlinkOf("file"));
  harness_.Run();
  if (!b_.Answered(unlink)) {  // it may wait for the holder of the token
    ASSERT_EQ(a_.Do(Client::ReturnOf(inode, v1::TOKEN_SHARED), true), 0);
  }
  ASSERT_TRUE(b_.Answered(unlink));
  EXPECT_EQ(b_.Answer(unlink).error(), 0);
  harness_.Pass(500, {&a_, &b_});
  EXPECT_EQ(a_.Do(Client::GetAttrOf(inode)), 0);
  EXPECT_LT(harness_.FreeBlocks(), free_before);

  a_.recalls_.clear();
  ASSERT_EQ(a_.Do(Client::CloseOf(inode)), 0);
  harness_.Pass(200, {&a_, &b_});
  // Its token may have writes under way: the blocks are not free before it is back.
  ASSERT_EQ(a_.recalls_.size(), 1u);
  EXPECT_LT(harness_.FreeBlocks(), free_before);
  ASSERT_EQ(a_.Do(Client::ReturnOf(inode), true), 0);
  harness_.Pass(200, {&a_, &b_});
  EXPECT_EQ(harness_.FreeBlocks(), free_before);
  EXPECT_EQ(a_.Do(Client::GetAttrOf(inode)), ESTALE);
  EXPECT_EQ(harness_.Counter("orphans.reaped"), 1u) << "whatever has queued its removal";
}

TEST_F(CoreGraceTest, OrphansOfADeadClientGoWithItsSession) {
  a_.Register();
  b_.Register();
  const std::uint64_t inode = a_.Create("file", /*open=*/true);
  ASSERT_EQ(b_.Do(Client::UnlinkOf("file"), true), 0);
  harness_.Restart();
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  harness_.Pass(11'000, {&b_});
  EXPECT_EQ(b_.Do(Client::GetAttrOf(inode)), ESTALE);
  EXPECT_EQ(harness_.Counter("orphans.now"), 0u);
}

TEST_F(CoreGraceTest, AnUnlinkedFileWithoutOpensCannotBeOpened) {
  a_.Register();
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Do(Client::OpenOf(inode)), 0);
  ASSERT_EQ(a_.Do(Client::UnlinkOf("file"), true), 0);
  ASSERT_EQ(a_.Do(Client::OpenOf(inode)), 0);  // a second open beside the first
  ASSERT_EQ(a_.Do(Client::CloseOf(inode)), 0);
  ASSERT_EQ(a_.Do(Client::CloseOf(inode)), 0);
  EXPECT_EQ(a_.Do(Client::OpenOf(inode)), ESTALE);
}

TEST_F(CoreGraceTest, AVolumeWithoutSessionsIsClean) {
  a_.Register();
  a_.Create("file");
  v1::Request goodbye;
  goodbye.mutable_goodbye();
  ASSERT_EQ(a_.Do(goodbye), 0);
  EXPECT_EQ(harness_.Sessions(), 0u);
  ASSERT_TRUE(harness_.core_->PrepareStop().ok());
  harness_.Restart();
  b_.Register();  // served at once: nobody to wait for
  EXPECT_EQ(b_.Do(Client::GetAttrOf(1)), 0);
}

}  // namespace
}  // namespace reel::mdc
