// A metadata store with little room left: what is refused, what waits, and what always goes on.
#include <linux/falloc.h>

#include "gmock/gmock.h"
#include "mdc/base/fence_times.h"
#include "mdc/testing/core_harness.h"

namespace reel::mdc {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class CoreFullTest : public testing::Test {
 protected:
  CoreFullTest() {
    harness_.Restart();
    a_.Register();
    b_.Register();
    file_ = a_.Create("file", /*open=*/true);
    EXPECT_EQ(
        a_.Do(Client::LayoutOf(file_, v1::TOKEN_EXCLUSIVE, /*allocate=*/true, 0, 8 * kBlock), true),
        0);
  }

  static constexpr std::uint64_t kBlock = 4096;
  v1::Request Commit(std::uint64_t block) const {
    v1::Request request;
    v1::LayoutCommit& commit = *request.mutable_layout_commit();
    commit.set_inode(file_);
    commit.set_size_bytes((block + 1) * kBlock);
    v1::BlockRange& range = *commit.add_written();
    range.set_file_block(block);
    range.set_length_blocks(1);
    return request;
  }
  void BecomesFull(bool commits_wait) {
    harness_.core_->OnStoreSpace(Core::StoreSpace::kFull, commits_wait);
    harness_.Run();
  }

  std::vector<std::string> Alarms() {
    v1::ShowReply show;
    harness_.core_->Describe(show);
    EXPECT_EQ(show.alarms_size(), show.alarm_kinds_size()) << "each has a kind";
    return {show.alarms().begin(), show.alarms().end()};
  }
  static v1::Request RenameOf(const std::string& from, const std::string& to) {
    v1::Request request;
    request.mutable_rename()->set_parent(1);
    request.mutable_rename()->set_name(from);
    request.mutable_rename()->set_new_parent(1);
    request.mutable_rename()->set_new_name(to);
    return request;
  }
  v1::Request HoleOf(std::uint64_t block, std::uint64_t length_blocks) const {
    v1::Request request;
    request.mutable_allocate()->set_inode(file_);
    request.mutable_allocate()->set_mode(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
    request.mutable_allocate()->set_offset_bytes(block * kBlock);
    request.mutable_allocate()->set_length_bytes(length_blocks * kBlock);
    return request;
  }

  CoreHarness harness_;
  Client a_{harness_, 1}, b_{harness_, 2};
  std::uint64_t file_ = 0;
};

// As CoreRepliesTest has it; who finds no space ends the late opens of other files.
TEST_F(CoreFullTest, WhoNeedsSpaceDoesNotTakeWhatARepeatedCreateWillOpen) {
  harness_.hold_syncs_ = true;
  (void)a_.SendIn(1, Client::CreateOf("made", /*open=*/true));
  harness_.Run();
  harness_.Restart();
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  BecomesFull(/*commits_wait=*/false);
  const std::uint64_t growth = b_.SendIn(1, Client::CreateOf("more"));
  const std::uint64_t removal = b_.SendIn(2, Client::UnlinkOf("made"));
  ASSERT_EQ(a_.Resume(), 0);
  ASSERT_EQ(a_.Reclaim(), 0);  // the last one
  harness_.Pass(100, {&a_, &b_});
  EXPECT_TRUE(b_.Answered(growth) && b_.Answered(removal));
  --a_.sequences_[1];
  const std::uint64_t inode = a_.Create("made", /*open=*/true);
  harness_.Pass(1000, {&a_, &b_});
  EXPECT_EQ(a_.Do(Client::GetAttrOf(inode)), 0);  // still open
}

TEST_F(CoreFullTest, GrowthIsRefusedAndGrantsAreCommitted) {
  BecomesFull(/*commits_wait=*/false);
  EXPECT_EQ(a_.Do(Client::CreateOf("more"), true), ENOSPC);
  EXPECT_EQ(a_.Do(Client::LayoutOf(file_, v1::TOKEN_EXCLUSIVE, true, 8 * kBlock), true), ENOSPC);
  EXPECT_EQ(a_.Do(Commit(3), true), 0);
  EXPECT_EQ(a_.Do(Client::UnlinkOf("file"), true), 0);
}

TEST_F(CoreFullTest, AHoleIsPunchedIntoAFileOfAFullStore) {
  BecomesFull(/*commits_wait=*/false);
  v1::Request request;
  request.mutable_allocate()->set_inode(file_);
  request.mutable_allocate()->set_length_bytes(kBlock);
  EXPECT_EQ(a_.Do(request, true), ENOSPC);
  request.mutable_allocate()->set_mode(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
  EXPECT_EQ(a_.Do(request, true), 0);
}

TEST_F(CoreFullTest, WrittenBlocksCanBeWrittenInAFullStore) {
  ASSERT_EQ(a_.Do(Commit(2), true), 0);
  BecomesFull(/*commits_wait=*/true);
  const auto again = [&](std::uint64_t block, std::uint64_t length_blocks) {
    return a_.Do(Client::LayoutOf(file_, v1::TOKEN_EXCLUSIVE, /*allocate=*/true, block * kBlock,
                                  length_blocks * kBlock),
                 true);
  };
  EXPECT_EQ(again(2, 1), 0);
  EXPECT_EQ(a_.last_.layout().mode(), v1::TOKEN_EXCLUSIVE);
  EXPECT_EQ(again(2, 2), 0) << "of the first block; the second is asked for next";
  EXPECT_EQ(again(3, 1), ENOSPC) << "granted, but not written";
  EXPECT_EQ(again(100, 1), ENOSPC);
  EXPECT_THAT(a_.last_.message(), HasSubstr("the metadata store is nearly full: remove files"));
}

TEST_F(CoreFullTest, DfShowsNoRoom) {
  v1::Request request;
  request.mutable_stat_fs();
  ASSERT_EQ(a_.Do(request), 0);
  EXPECT_GT(a_.last_.stat_fs().free_blocks(), 0);
  BecomesFull(/*commits_wait=*/false);
  ASSERT_EQ(a_.Do(request), 0);
  EXPECT_EQ(a_.last_.stat_fs().free_blocks(), 0);
}

TEST_F(CoreFullTest, NamesAreLengthenedWhileThereIsAReserve) {
  BecomesFull(/*commits_wait=*/false);
  EXPECT_EQ(a_.Do(RenameOf("file", "longer"), true), 0);
  BecomesFull(/*commits_wait=*/true);
  EXPECT_EQ(a_.Do(RenameOf("longer", "the longest"), true), ENOSPC);
  EXPECT_EQ(a_.Do(RenameOf("longer", "length"), true), 0);
}

TEST_F(CoreFullTest, ALongerNameReplacesOne) {
  ASSERT_EQ(a_.Do(Client::CreateOf("something longer"), true), 0);
  BecomesFull(/*commits_wait=*/true);
  EXPECT_EQ(a_.Do(RenameOf("file", "something longer"), true), 0);
}

TEST_F(CoreFullTest, HolesCutNoExtentInTwoWithoutAReserve) {
  BecomesFull(/*commits_wait=*/true);
  EXPECT_EQ(a_.Do(HoleOf(3, 1), true), ENOSPC);
  EXPECT_EQ(a_.Do(HoleOf(5, 10'000), true), 0) << "to its end";
  EXPECT_EQ(a_.Do(HoleOf(0, 2), true), 0);
  EXPECT_EQ(a_.Do(HoleOf(0, 10'000), true), 0);
}

TEST_F(CoreFullTest, TheAlarmNamesTheWaitingCommitsAndSinceWhen) {
  EXPECT_THAT(Alarms(), IsEmpty());
  BecomesFull(/*commits_wait=*/false);
  harness_.Pass(3'000, {&a_, &b_});
  EXPECT_THAT(Alarms(),
              ElementsAre(AllOf(HasSubstr("the metadata store has been nearly full for 3 s"),
                                HasSubstr("remove files"), Not(HasSubstr("commits")))));
  BecomesFull(/*commits_wait=*/true);
  a_.SendIn(1, Commit(3));
  a_.SendIn(2, Client::ReturnOf(file_));
  harness_.Pass(5'000, {&a_, &b_});
  BecomesFull(/*commits_wait=*/true);
  EXPECT_THAT(Alarms(),
              ElementsAre(AllOf(HasSubstr("nearly full for 8 s"),
                                HasSubstr("1 commit of 1 session,"), HasSubstr("for 5 s by now"))));
  harness_.core_->OnStoreSpace(Core::StoreSpace::kAmple, false);
  harness_.Run();
  EXPECT_THAT(Alarms(), IsEmpty());
}

TEST_F(CoreFullTest, ClientsLearnOfCommitsThatHaveLongWaited) {
  const auto reported = [&] {
    v1::Request renew;
    renew.mutable_renew();
    EXPECT_EQ(b_.Do(renew), 0);
    return b_.last_.commits_wait();
  };
  BecomesFull(/*commits_wait=*/true);
  harness_.Pass(6'000, {&a_, &b_});
  EXPECT_FALSE(reported()) << "none does";
  a_.SendIn(1, Commit(3));
  harness_.Run();
  EXPECT_FALSE(reported()) << "a compaction may be under way";
  harness_.Pass(6'000, {&a_, &b_});
  EXPECT_TRUE(reported());
  BecomesFull(/*commits_wait=*/false);
  EXPECT_FALSE(reported());
}

TEST_F(CoreFullTest, CommitsWaitForTheStoreAndDeletionsPassThem) {
  ASSERT_EQ(a_.Do(Client::CreateOf("other"), true), 0);
  BecomesFull(/*commits_wait=*/true);
  const std::uint64_t commit = a_.SendIn(1, Commit(3));
  const std::uint64_t returned = a_.SendIn(2, Client::ReturnOf(file_));
  const std::uint64_t unlinked = a_.SendIn(3, Client::UnlinkOf("other"));
  harness_.Run();
  EXPECT_FALSE(a_.Answered(commit));
  EXPECT_FALSE(a_.Answered(returned)) << "it would pass the commit";
  ASSERT_TRUE(a_.Answered(unlinked));
  EXPECT_EQ(a_.Answer(unlinked).error(), 0);
  BecomesFull(/*commits_wait=*/true);
  EXPECT_FALSE(a_.Answered(commit));
  BecomesFull(/*commits_wait=*/false);
  ASSERT_TRUE(a_.Answered(commit));
  EXPECT_EQ(a_.Answer(commit).error(), 0);
  ASSERT_TRUE(a_.Answered(returned));
  EXPECT_EQ(a_.Answer(returned).error(), 0);
}

TEST_F(CoreFullTest, ARemovalWaitsForNoRoom) {
  BecomesFull(/*commits_wait=*/true);
  const std::uint64_t commit = a_.SendIn(1, Commit(3));
  harness_.Run();
  EXPECT_FALSE(a_.Answered(commit));
  EXPECT_EQ(b_.Do(Client::UnlinkOf("file"), true), 0);
  BecomesFull(/*commits_wait=*/true);
  EXPECT_TRUE(a_.Answered(commit));
  EXPECT_EQ(a_.Do(Client::ReturnOf(file_), true), 0);
}

TEST_F(CoreFullTest, NoSessionIsEvictedWhileItsReturnWaitsForTheStore) {
  const std::uint64_t wanted = b_.Send(Client::LayoutOf(file_, v1::TOKEN_SHARED));
  harness_.Run();
  ASSERT_THAT(a_.recalls_, SizeIs(1));
  BecomesFull(/*commits_wait=*/true);
  a_.SendIn(1, Commit(3));
  const std::uint64_t returned = a_.SendIn(2, Client::ReturnOf(file_));
  harness_.Pass(RecallMostMs(10'000) + 10'000, {&a_, &b_});
  EXPECT_FALSE(a_.evicted_);
  EXPECT_FALSE(b_.Answered(wanted));
  BecomesFull(/*commits_wait=*/false);
  ASSERT_TRUE(a_.Answered(returned));
  EXPECT_EQ(a_.Answer(returned).error(), 0);
  ASSERT_TRUE(b_.Answered(wanted));
  EXPECT_EQ(b_.Answer(wanted).error(), 0);
}

TEST_F(CoreFullTest, ASessionThatDiesMeanwhileIsEvicted) {
  BecomesFull(/*commits_wait=*/true);
  a_.SendIn(1, Commit(3));
  harness_.Pass(60'000, {&b_});
  BecomesFull(/*commits_wait=*/false);
  EXPECT_TRUE(harness_.core_->health().ok());
  EXPECT_EQ(b_.Do(Client::UnlinkOf("file"), true), 0);
}

}  // namespace
}  // namespace reel::mdc
