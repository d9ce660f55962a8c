#include "mdc/sessions/lock_waits.h"

#include <gtest/gtest.h>

#include <memory>

#include "mdc/testing/cast.h"

namespace reel::mdc {
namespace {

class LockWaitsTest : public ::testing::Test {
 protected:
  // A request for an exclusive lock, which has that number among its session's waits.
  static PendingRef Op(SessionId session, std::uint64_t wait, InodeNumber inode = kFile) {
    auto op = std::make_shared<Pending>();
    op->session = session;
    v1::SetLock& set = *op->request.mutable_set_lock();
    set.set_wait(wait);
    set.mutable_lock()->set_inode(inode.value());
    set.mutable_lock()->set_kind(v1::LOCK_RANGES);
    set.mutable_lock()->set_type(v1::LOCK_EXCLUSIVE);
    set.mutable_lock()->set_last(9);
    return op;
  }
  PendingRef ForLock(SessionId session, std::uint64_t wait, InodeNumber inode = kFile) {
    PendingRef op = Op(session, wait, inode);
    waits_.AddForLock(op);
    return op;
  }
  PendingRef ForToken(SessionId session, std::uint64_t wait, InodeNumber inode = kFile) {
    PendingRef op = Op(session, wait, inode);
    waits_.AddForToken(inode, op);
    return op;
  }
  // Whose turn it is for locks of the inode; all of them wait on.
  std::vector<PendingRef> Waiting(InodeNumber inode = kFile) {
    std::vector<PendingRef> tried;
    waits_.TryLocks(inode, [&](const PendingRef& op) {
      tried.push_back(op);
      return true;
    });
    return tried;
  }

  LockTable locks_;
  LockWaits waits_{locks_};
};

using Ops = std::vector<PendingRef>;

TEST_F(LockWaitsTest, AWaitIsKnownToTheLockTable) {
  const PendingRef op = ForLock(kA, 1);
  ASSERT_EQ(locks_.Waiting().size(), 1u);
  EXPECT_EQ(locks_.Waiting()[0].inode, kFile);
  EXPECT_EQ(locks_.Waiting()[0].owner.session, kA);
  EXPECT_EQ(locks_.WaitsFor(kFile), std::vector<std::uint64_t>{op->lock_wait});
}

TEST_F(LockWaitsTest, OperationsAreTriedInTheOrderInWhichTheyCame) {
  const PendingRef first = ForLock(kB, 1);
  const PendingRef second = ForLock(kA, 1);
  const PendingRef third = ForLock(kC, 1);
  ForLock(kC, 2, kOtherFile);
  EXPECT_EQ(Waiting(), (Ops{first, second, third}));
}

TEST_F(LockWaitsTest, AWaitingLockHoldsUpNoOther) {
  const PendingRef first = ForLock(kA, 1);
  const PendingRef second = ForLock(kB, 1);
  waits_.TryLocks(kFile, [&](const PendingRef& op) { return op == first; });
  EXPECT_EQ(Waiting(), Ops{first});
  EXPECT_EQ(locks_.WaitsFor(kFile), std::vector<std::uint64_t>{first->lock_wait});
}

TEST_F(LockWaitsTest, AnAttemptMayEndTheWaitsOfOthers) {
  const PendingRef first = ForLock(kA, 1);
  ForLock(kB, 1);
  Ops tried;
  waits_.TryLocks(kFile, [&](const PendingRef& op) {
    tried.push_back(op);
    waits_.Drop(kB);
    return false;
  });
  EXPECT_EQ(tried, Ops{first});
  EXPECT_TRUE(locks_.Waiting().empty());
}

TEST_F(LockWaitsTest, TokenWaitersAreTakenOnceAndInOrder) {
  const PendingRef first = ForToken(kB, 1);
  const PendingRef second = ForToken(kA, 1);
  const PendingRef other = ForToken(kC, 1, kOtherFile);
  EXPECT_TRUE(locks_.Waiting().empty());
  EXPECT_EQ(waits_.TakeForToken(kFile), (Ops{first, second}));
  EXPECT_TRUE(waits_.TakeForToken(kFile).empty());
  EXPECT_EQ(waits_.TakeForToken(kOtherFile), Ops{other});
}

TEST_F(LockWaitsTest, EachInodeIsDueOnceAndTheLowestComesFirst) {
  EXPECT_FALSE(waits_.AnyDue());
  EXPECT_FALSE(waits_.TakeDue());
  waits_.Wake(kOtherFile);
  waits_.Wake(kFile);
  waits_.Wake(kOtherFile);
  EXPECT_TRUE(waits_.AnyDue());
  EXPECT_EQ(waits_.TakeDue(), kFile);
  EXPECT_EQ(waits_.TakeDue(), kOtherFile);
  EXPECT_FALSE(waits_.AnyDue());
}

TEST_F(LockWaitsTest, AWaitIsFoundByItsSessionAndNumber) {
  const PendingRef lock = ForLock(kA, 1);
  const PendingRef neighbour = ForLock(kB, 1);
  const PendingRef token = ForToken(kA, 2);
  EXPECT_EQ(waits_.Take(kA, 3), nullptr);
  EXPECT_EQ(waits_.Take(kB, 2), nullptr);
  EXPECT_EQ(waits_.Take(kA, 1), lock);
  EXPECT_EQ(waits_.Take(kA, 1), nullptr);
  EXPECT_EQ(locks_.WaitsFor(kFile), std::vector<std::uint64_t>{neighbour->lock_wait});
  EXPECT_EQ(waits_.Take(kA, 2), token);
  EXPECT_TRUE(waits_.TakeForToken(kFile).empty());
}

TEST_F(LockWaitsTest, NothingWaitsOfASessionThatIsDropped) {
  ForLock(kA, 1);
  ForLock(kA, 2, kOtherFile);
  ForToken(kA, 3);
  const PendingRef lock = ForLock(kB, 1);
  const PendingRef token = ForToken(kB, 2);
  waits_.Drop(kA);
  EXPECT_EQ(Waiting(), Ops{lock});
  EXPECT_TRUE(Waiting(kOtherFile).empty());
  EXPECT_EQ(locks_.Waiting().size(), 1u);
  EXPECT_EQ(waits_.TakeForToken(kFile), Ops{token});
}

}  // namespace
}  // namespace reel::mdc
