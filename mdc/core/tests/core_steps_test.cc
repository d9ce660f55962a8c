// Operations that take several steps, in the core: others go on between two of them, and a crash
// leaves nothing half done.
#include <gtest/gtest.h>
#include <linux/falloc.h>

#include "mdc/base/progress.h"
#include "mdc/ops/orphans.h"
#include "mdc/testing/core_harness.h"

namespace reel::mdc {
namespace {

constexpr std::uint64_t kCount = 5 * kReapExtents;

class StepsCoreTest : public testing::Test {
 protected:
  // A file with a block at every second place.
  std::uint64_t MakeScattered(Client& client) {
    const std::uint64_t file = client.Create("scattered", true);
    for (std::uint64_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(client.Do(Client::LayoutOf(file, v1::TOKEN_EXCLUSIVE, true, 2 * i * kBlock)), 0);
    }
    return file;
  }
  static v1::Request PunchOf(std::uint64_t file) {
    v1::Request request;
    request.mutable_allocate()->set_inode(file);
    request.mutable_allocate()->set_mode(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
    request.mutable_allocate()->set_length_bytes(4 * kCount * kBlock);
    return request;
  }
  static v1::Request TruncateOf(std::uint64_t file) {
    v1::Request request;
    request.mutable_set_attr()->set_inode(file);
    request.mutable_set_attr()->set_fields(v1::SetAttr::SIZE);
    return request;
  }
  static v1::Request CommitOfFirstBlock(std::uint64_t file) {
    v1::Request request;
    request.mutable_layout_commit()->set_inode(file);
    request.mutable_layout_commit()->add_written()->set_length_blocks(1);
    return request;
  }
  static v1::Reclaim HeldOf(std::uint64_t file) {
    v1::Reclaim reclaim;
    reclaim.add_opens(file);
    reclaim.add_tokens()->set_inode(file);
    reclaim.mutable_tokens(0)->set_mode(v1::TOKEN_EXCLUSIVE);
    return reclaim;
  }

  CoreHarness harness_;
  Client a_{harness_, 1}, b_{harness_, 2};
};

TEST_F(StepsCoreTest, OthersGoOnBetweenTheStepsOfAPunch) {
  a_.Register();
  b_.Register();
  const std::uint64_t free = harness_.FreeBlocks();
  const std::uint64_t file = MakeScattered(a_);
  harness_.hold_syncs_ = true;  // the next step follows a sync
  const std::uint64_t punch = a_.SendIn(1, PunchOf(file));
  harness_.Run();
  EXPECT_EQ(b_.Do(Client::LookupOf("nothing")), ENOENT);
  EXPECT_EQ(a_.Do(Client::LookupOf("nothing")), ENOENT);
  EXPECT_FALSE(a_.Answered(punch));
  harness_.hold_syncs_ = false;
  harness_.Run();
  ASSERT_TRUE(a_.Answered(punch));
  EXPECT_EQ(a_.Answer(punch).error(), 0);
  EXPECT_EQ(harness_.FreeBlocks(), free);
}

// It stands in no lane then, and in no queue.
TEST_F(StepsCoreTest, AHeldBackStepEndsWithItsSession) {
  a_.Register();
  b_.Register();
  const std::uint64_t file = MakeScattered(a_);
  harness_.hold_syncs_ = true;
  v1::Request allocate;
  allocate.mutable_allocate()->set_inode(file);
  allocate.mutable_allocate()->set_length_bytes(2 * kCount * kBlock);
  a_.SendIn(1, allocate);
  harness_.Run();
  harness_.core_->OnStoreSpace(Core::StoreSpace::kGrowing, false);
  harness_.hold_syncs_ = false;
  harness_.Run();
  harness_.Pass(300'000, {&b_});
  EXPECT_TRUE(a_.evicted_);
  harness_.core_->OnStoreSpace(Core::StoreSpace::kAmple, false);
  harness_.Run();
  EXPECT_EQ(b_.Do(Client::LayoutOf(file, v1::TOKEN_EXCLUSIVE, true, 0)), 0);
}

TEST_F(StepsCoreTest, APunchThatACrashBrokeOffIsFinishedByItsRepetition) {
  a_.Register();
  const std::uint64_t free = harness_.FreeBlocks();
  const std::uint64_t file = MakeScattered(a_);
  harness_.hold_syncs_ = true;
  a_.SendIn(1, PunchOf(file));
  harness_.Run();
  harness_.Restart();
  EXPECT_LT(harness_.FreeBlocks(), free);
  ASSERT_EQ(a_.Resume(), 0);
  ASSERT_EQ(a_.Reclaim(HeldOf(file)), 0);
  v1::Request again = PunchOf(file);
  again.set_slot(1);
  again.set_slot_sequence(a_.sequences_[1]);
  EXPECT_EQ(a_.Do(again), 0);
  EXPECT_EQ(harness_.FreeBlocks(), free);
  EXPECT_EQ(a_.Do(again), 0);  // from its stored reply
}

TEST_F(StepsCoreTest, AReconnectedClientRepeatsAnOperationInSteps) {
  a_.Register();
  const std::uint64_t free = harness_.FreeBlocks();
  const std::uint64_t file = MakeScattered(a_);
  harness_.hold_syncs_ = true;
  a_.SendIn(1, PunchOf(file));
  harness_.Run();
  a_.Disconnect();
  harness_.hold_syncs_ = false;
  ASSERT_EQ(a_.Resume(), 0);
  v1::Request again = PunchOf(file);
  again.set_slot(1);
  again.set_slot_sequence(a_.sequences_[1]);
  EXPECT_EQ(a_.Do(again), 0);
  EXPECT_EQ(harness_.FreeBlocks(), free);
}

TEST_F(StepsCoreTest, TheRestOfATruncationGoesWhileTheFileIsOpen) {
  a_.Register();
  const std::uint64_t free = harness_.FreeBlocks();
  const std::uint64_t file = MakeScattered(a_);
  ASSERT_EQ(a_.Do(TruncateOf(file), true), 0);
  for (std::uint64_t i = 0; i < kCount / kReapExtents; ++i) harness_.Tick();
  EXPECT_EQ(harness_.FreeBlocks(), free);
  EXPECT_EQ(harness_.Counter("orphans.now"), 0u);
}

TEST_F(StepsCoreTest, AWriteAfterATruncationWaitsForItsRestAndOthersDoNot) {
  a_.Register();
  b_.Register();
  const std::uint64_t file = MakeScattered(a_);
  const std::uint64_t free = harness_.FreeBlocks() + kCount;
  harness_.hold_syncs_ = true;
  const std::uint64_t truncate = a_.SendIn(1, TruncateOf(file));
  const std::uint64_t get = a_.Send(Client::LayoutOf(file, v1::TOKEN_EXCLUSIVE, true));
  harness_.Run();
  EXPECT_EQ(b_.Do(Client::LookupOf("nothing")), ENOENT);
  EXPECT_FALSE(a_.Answered(get));
  harness_.hold_syncs_ = false;
  harness_.Run();  // no tick: somebody waits
  EXPECT_TRUE(a_.Answered(truncate));
  ASSERT_TRUE(a_.Answered(get));
  EXPECT_EQ(a_.Answer(get).error(), 0);
  EXPECT_EQ(harness_.FreeBlocks(), free - 1);
}

// The file's last name goes, and its writer has yet to commit: the truncation does not wait for the
// token, whose return waits for the truncation.
TEST_F(StepsCoreTest, ACommitWaitsForTheRestOfATruncationAlsoWithoutAName) {
  a_.Register();
  b_.Register();
  const std::uint64_t file = MakeScattered(a_);
  const std::uint64_t free = harness_.FreeBlocks() + kCount;
  harness_.hold_syncs_ = true;
  v1::Request to_one = TruncateOf(file);
  to_one.mutable_set_attr()->set_size_bytes(kBlock);
  a_.SendIn(1, to_one);
  b_.SendIn(1, Client::UnlinkOf("scattered"));
  a_.SendIn(2, CommitOfFirstBlock(file));
  const std::uint64_t returned = a_.SendIn(3, Client::ReturnOf(file));
  harness_.Run();
  EXPECT_FALSE(a_.Answered(returned));
  harness_.hold_syncs_ = false;
  harness_.Run();
  ASSERT_TRUE(a_.Answered(returned));
  EXPECT_EQ(a_.Answer(returned).error(), 0);
  EXPECT_EQ(a_.Do(Client::CloseOf(file)), 0);
  harness_.Pass(2000, {&a_, &b_});
  EXPECT_EQ(harness_.FreeBlocks(), free);
}

// Another session waits for the token, and its holder commits before it gives that back.
TEST_F(StepsCoreTest, ACommitThatWaitsForATruncationPassesTokenWaiters) {
  a_.Register();
  b_.Register();
  const std::uint64_t file = MakeScattered(a_);
  harness_.hold_syncs_ = true;
  v1::Request to_one = TruncateOf(file);
  to_one.mutable_set_attr()->set_size_bytes(kBlock);
  a_.SendIn(1, to_one);
  const std::uint64_t get = b_.Send(Client::LayoutOf(file, v1::TOKEN_EXCLUSIVE));
  a_.SendIn(2, CommitOfFirstBlock(file));
  const std::uint64_t returned = a_.SendIn(3, Client::ReturnOf(file));
  harness_.Run();
  EXPECT_FALSE(a_.Answered(returned));
  harness_.hold_syncs_ = false;
  harness_.Run();
  ASSERT_TRUE(a_.Answered(returned));
  EXPECT_EQ(a_.Answer(returned).error(), 0);
  EXPECT_TRUE(b_.Answered(get));
}

TEST_F(StepsCoreTest, ALargeFileIsRemovedInShortTurns) {
  a_.Register();
  const std::uint64_t file = MakeScattered(a_);
  ASSERT_EQ(a_.Do(Client::ReturnOf(file), true), 0);
  ASSERT_EQ(a_.Do(Client::CloseOf(file)), 0);
  harness_.hold_syncs_ = true;
  const std::uint64_t before = harness_.FreeBlocks();
  a_.SendIn(1, Client::UnlinkOf("scattered"));
  harness_.Run();
  for (std::uint64_t turn = 1; turn <= 3; ++turn) {
    harness_.Tick();
    EXPECT_LE(harness_.FreeBlocks() - before, (turn + 1) * kReapExtents);
  }
}

// Who was refused it, after a lost session, may still take it for open.
TEST_F(StepsCoreTest, AHalfRemovedInodeStaysRemovedInTheNextEpoch) {
  a_.Register();
  const std::uint64_t free = harness_.FreeBlocks();
  const std::uint64_t file = MakeScattered(a_);
  ASSERT_EQ(a_.Do(Client::ReturnOf(file), true), 0);
  ASSERT_EQ(a_.Do(Client::CloseOf(file)), 0);
  harness_.hold_syncs_ = true;
  a_.SendIn(1, Client::UnlinkOf("scattered"));
  harness_.Run();
  EXPECT_LT(harness_.FreeBlocks(), free);
  harness_.Restart();
  ASSERT_LT(harness_.FreeBlocks(), free);
  harness_.hold_syncs_ = false;
  ASSERT_EQ(a_.Resume(), 0);
  ASSERT_EQ(a_.Reclaim(HeldOf(file)), 0);
  EXPECT_EQ(a_.Do(Client::LayoutOf(file, v1::TOKEN_SHARED)), ESTALE);
  ASSERT_EQ(a_.Do(Client::ReturnOf(file), true), 0);
  for (std::uint64_t i = 0; i <= kCount / kReapExtents; ++i) harness_.Tick();
  EXPECT_EQ(harness_.FreeBlocks(), free);
}

}  // namespace
}  // namespace reel::mdc
