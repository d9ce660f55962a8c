// What waits for room in the metadata store, without a core.
#include "mdc/core/space/store_room.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"

namespace reel::mdc {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Space = StoreRoom::Space;
using Wait = StoreRoom::Wait;

constexpr SessionId kA(1), kB(2);
constexpr InodeNumber kFile(20), kOther(21);

PendingRef OperationOf(SessionId session, v1::Request request) {
  auto op = std::make_shared<Pending>();
  op->request = std::move(request);
  op->session = session;
  return op;
}

PendingRef CreateOf(SessionId session) {
  v1::Request request;
  request.mutable_create()->set_name("new");
  return OperationOf(session, request);
}

PendingRef LongerNameOf(SessionId session) {
  v1::Request request;
  request.mutable_rename()->set_name("short");
  request.mutable_rename()->set_new_name("longer");
  return OperationOf(session, request);
}

PendingRef UnlinkOf(SessionId session) {
  v1::Request request;
  request.mutable_unlink()->set_name("old");
  return OperationOf(session, request);
}

PendingRef CommitOf(SessionId session, InodeNumber inode) {
  v1::Request request;
  request.mutable_layout_commit()->set_inode(inode.value());
  return OperationOf(session, request);
}

PendingRef ReturnOf(SessionId session, InodeNumber inode) {
  v1::Request request;
  request.mutable_layout_return()->set_inode(inode.value());
  return OperationOf(session, request);
}

class StoreRoomTest : public testing::Test {
 protected:
  void Becomes(Space space, bool commits_wait) { room_.Set(space, commits_wait, now_ms_); }
  Wait WaitOf(const PendingRef& op) const { return room_.WaitOf(*op, removed_); }
  // Holds the operation, which has to wait.
  PendingRef Held(PendingRef op) {
    const Wait wait = WaitOf(op);
    EXPECT_NE(wait, Wait::kNone);
    room_.Hold(op, wait, now_ms_);
    return op;
  }
  std::vector<PendingRef> DueCommits() { return room_.TakeDueCommits(removed_); }

  StoreRoom room_;
  StoreRoom::Removed removed_;
  std::uint64_t now_ms_ = 1'000;
};

TEST_F(StoreRoomTest, NothingWaitsWhileThereIsRoom) {
  EXPECT_TRUE(room_.ample());
  for (const PendingRef& op :
       {CreateOf(kA), LongerNameOf(kA), UnlinkOf(kA), CommitOf(kA, kFile), ReturnOf(kA, kFile)}) {
    EXPECT_EQ(WaitOf(op), Wait::kNone) << op->request.DebugString();
  }
}

TEST_F(StoreRoomTest, NothingWaitsWhereRoomIsShortForFilesBytesAlone) {
  EXPECT_FALSE(room_.tight());
  Becomes(Space::kTight, /*commits_wait=*/false);
  EXPECT_TRUE(room_.tight());
  EXPECT_TRUE(room_.ample());
  EXPECT_EQ(WaitOf(CreateOf(kA)), Wait::kNone);
  Becomes(Space::kGrowing, /*commits_wait=*/false);
  EXPECT_TRUE(room_.tight());
}

TEST_F(StoreRoomTest, GrowthWaitsUntilTheStoreHasGrown) {
  Becomes(Space::kGrowing, /*commits_wait=*/false);
  EXPECT_FALSE(room_.ample());
  EXPECT_EQ(WaitOf(LongerNameOf(kA)), Wait::kNone) << "there is a reserve";
  EXPECT_EQ(WaitOf(UnlinkOf(kA)), Wait::kNone);
  const PendingRef create = Held(CreateOf(kA));
  EXPECT_TRUE(create->fetching);
  Becomes(Space::kGrowing, /*commits_wait=*/true);
  const PendingRef longer = Held(LongerNameOf(kA));
  EXPECT_EQ(WaitOf(UnlinkOf(kA)), Wait::kNone);
  EXPECT_THAT(room_.TakeDueGrowth(), IsEmpty());
  EXPECT_THAT(DueCommits(), IsEmpty());
  EXPECT_FALSE(room_.HoldsCommitOf(kA));
  Becomes(Space::kAmple, /*commits_wait=*/false);
  EXPECT_THAT(room_.TakeDueGrowth(), ElementsAre(create, longer));
  EXPECT_THAT(room_.TakeDueGrowth(), IsEmpty());
}

TEST_F(StoreRoomTest, AStoreThatDoesNotGrowHoldsNothingBack) {
  Becomes(Space::kGrowing, /*commits_wait=*/false);
  const PendingRef create = Held(CreateOf(kA));
  Becomes(Space::kFull, /*commits_wait=*/true);
  EXPECT_TRUE(room_.full());
  EXPECT_TRUE(room_.spent());
  EXPECT_EQ(WaitOf(create), Wait::kNone) << "it is refused";
  EXPECT_EQ(WaitOf(LongerNameOf(kA)), Wait::kNone);
  EXPECT_THAT(room_.TakeDueGrowth(), ElementsAre(create));
}

TEST_F(StoreRoomTest, CommitsWaitForRoomToWorkIn) {
  Becomes(Space::kFull, /*commits_wait=*/false);
  EXPECT_EQ(WaitOf(CommitOf(kA, kFile)), Wait::kNone);
  Becomes(Space::kFull, /*commits_wait=*/true);
  const PendingRef commit = CommitOf(kA, kFile);
  commit->blocked_on = kOther;
  Held(commit);
  EXPECT_TRUE(commit->fetching);
  EXPECT_EQ(commit->blocked_on, InodeNumber(0)) << "no token stands in its way";
  const PendingRef other = Held(CommitOf(kB, kFile));
  EXPECT_THAT(DueCommits(), IsEmpty());
  Becomes(Space::kFull, /*commits_wait=*/false);
  EXPECT_THAT(DueCommits(), ElementsAre(commit, other));
  EXPECT_THAT(DueCommits(), IsEmpty());
}

TEST_F(StoreRoomTest, AReturnPassesNoCommitOfItsSession) {
  Becomes(Space::kFull, /*commits_wait=*/true);
  EXPECT_EQ(WaitOf(ReturnOf(kA, kFile)), Wait::kNone) << "it commits nothing";
  const PendingRef commit = Held(CommitOf(kA, kFile));
  EXPECT_EQ(WaitOf(ReturnOf(kA, kFile)), Wait::kToCommit);
  EXPECT_EQ(WaitOf(ReturnOf(kA, kOther)), Wait::kNone);
  EXPECT_EQ(WaitOf(ReturnOf(kB, kFile)), Wait::kNone);
  EXPECT_TRUE(room_.HoldsCommitOf(kA));
  EXPECT_TRUE(room_.HoldsCommitOf(kA, kFile));
  EXPECT_FALSE(room_.HoldsCommitOf(kA, kOther));
  EXPECT_FALSE(room_.HoldsCommitOf(kB));
}

TEST_F(StoreRoomTest, ARemovalWaitsForNoRoom) {
  Becomes(Space::kFull, /*commits_wait=*/true);
  const PendingRef commit = Held(CommitOf(kA, kFile));
  const PendingRef other = Held(CommitOf(kA, kOther));
  removed_.insert(kFile);
  EXPECT_EQ(WaitOf(commit), Wait::kNone);
  EXPECT_EQ(WaitOf(ReturnOf(kA, kFile)), Wait::kNone);
  EXPECT_THAT(DueCommits(), ElementsAre(commit));
  EXPECT_TRUE(room_.HoldsCommitOf(kA, kOther));
  const PendingRef step = OperationOf(SessionId(0), {});
  step->reap = kFile;
  EXPECT_EQ(WaitOf(step), Wait::kNone);
}

TEST_F(StoreRoomTest, CommitsOfASessionThatIsGoneAreCancelled) {
  Becomes(Space::kFull, /*commits_wait=*/true);
  const PendingRef gone = Held(CommitOf(kA, kFile));
  now_ms_ += 6'000;
  const PendingRef stays = Held(CommitOf(kB, kFile));
  EXPECT_TRUE(room_.HoldsLong(now_ms_));
  room_.CancelOf(kA);
  EXPECT_TRUE(gone->cancelled);
  EXPECT_FALSE(stays->cancelled);
  EXPECT_FALSE(room_.HoldsCommitOf(kA));
  EXPECT_FALSE(room_.HoldsLong(now_ms_));
  EXPECT_THAT(room_.Alarm(now_ms_), HasSubstr("1 commit of 1 session, "));
  Becomes(Space::kAmple, /*commits_wait=*/false);
  EXPECT_THAT(DueCommits(), ElementsAre(gone, stays));
}

TEST_F(StoreRoomTest, ACommitThatWaitsAgainHasWaitedSinceTheFirstTime) {
  Becomes(Space::kFull, /*commits_wait=*/true);
  EXPECT_FALSE(room_.HoldsLong(now_ms_ + 9'000)) << "none does";
  const PendingRef commit = Held(CommitOf(kA, kFile));
  now_ms_ += 4'000;
  Becomes(Space::kFull, /*commits_wait=*/false);
  ASSERT_THAT(DueCommits(), ElementsAre(commit));
  Becomes(Space::kFull, /*commits_wait=*/true);
  Held(commit);
  EXPECT_FALSE(room_.HoldsLong(now_ms_ + 999));
  EXPECT_TRUE(room_.HoldsLong(now_ms_ + 1'000));
}

TEST_F(StoreRoomTest, TheAlarmNamesWhenTheStoreFilledAndWhatWaits) {
  EXPECT_EQ(room_.Alarm(now_ms_), "");
  Becomes(Space::kGrowing, /*commits_wait=*/true);
  EXPECT_EQ(room_.Alarm(now_ms_), "");
  Becomes(Space::kFull, /*commits_wait=*/true);
  now_ms_ += 3'000;
  Becomes(Space::kFull, /*commits_wait=*/true);  // not since then
  EXPECT_THAT(room_.Alarm(now_ms_), AllOf(HasSubstr("nearly full for 3 s"),
                                          HasSubstr("remove files"), Not(HasSubstr("commit"))));
  Held(CommitOf(kA, kFile));
  Held(ReturnOf(kA, kFile));
  Held(CommitOf(kA, kOther));
  Held(CommitOf(kB, kFile));
  now_ms_ += 2'000;
  EXPECT_THAT(room_.Alarm(now_ms_),
              AllOf(HasSubstr("nearly full for 5 s"), HasSubstr("3 commits of 2 sessions, "),
                    HasSubstr("for 2 s by now")));
  Becomes(Space::kAmple, /*commits_wait=*/false);
  EXPECT_EQ(room_.Alarm(now_ms_), "");
}

}  // namespace
}  // namespace reel::mdc
