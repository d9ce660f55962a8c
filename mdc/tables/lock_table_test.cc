#include "mdc/tables/lock_table.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "mdc/testing/cast.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

FileLock Lock(SessionId session, v1::LockType type, std::uint64_t first = 0, std::uint64_t last = 9,
              InodeNumber inode = kFile, v1::LockKind kind = v1::LOCK_RANGES) {
  return {.inode = inode,
          .owner = {session, kind, 5},
          .range = {first, last},
          .type = type,
          .pid = static_cast<std::uint32_t>(100 + session.value())};
}

TEST(LockTableTest, OwnersOfOneKindConflict) {
  LockTable table;
  table.Set(Lock(kA, v1::LOCK_SHARED));
  EXPECT_FALSE(table.Conflict(Lock(kB, v1::LOCK_SHARED)));
  EXPECT_FALSE(table.Conflict(Lock(kA, v1::LOCK_EXCLUSIVE)));
  EXPECT_FALSE(table.Conflict(Lock(kB, v1::LOCK_EXCLUSIVE, 10, 20)));
  EXPECT_FALSE(table.Conflict(Lock(kB, v1::LOCK_EXCLUSIVE, 0, 9, kOtherFile)));
  EXPECT_FALSE(table.Conflict(Lock(kB, v1::LOCK_EXCLUSIVE, 0, 9, kFile, v1::LOCK_WHOLE)));
  const auto conflict = table.Conflict(Lock(kB, v1::LOCK_EXCLUSIVE, 5, 20));
  ASSERT_TRUE(conflict);
  EXPECT_EQ(conflict->owner.session, kA);
  EXPECT_EQ(conflict->range, (LockRange{5, 9}));
  EXPECT_EQ(conflict->pid, 101u);
  FileLock neighbour = Lock(kA, v1::LOCK_EXCLUSIVE);
  neighbour.owner.number = 6;  // another process of the same host
  EXPECT_TRUE(table.Conflict(neighbour));
}

TEST(LockTableTest, ASessionThatEndsHoldsNothingAndWaitsForNothing) {
  LockTable table;
  table.Set(Lock(kA, v1::LOCK_EXCLUSIVE));
  table.Set(Lock(kA, v1::LOCK_SHARED, 20, 29, kOtherFile));
  table.AddWait(Lock(kA, v1::LOCK_SHARED, 30, 30));
  EXPECT_EQ(table.CountOf(kA), 2u);
  EXPECT_EQ(table.Drop(kA), (std::vector<InodeNumber>{kFile, kOtherFile}));
  EXPECT_EQ(table.CountOf(kA), 0u);
  EXPECT_TRUE(table.Held().empty());
  EXPECT_TRUE(table.Waiting().empty());
  EXPECT_TRUE(table.WaitsFor(kFile).empty());
}

TEST(LockTableTest, ASessionsLocksAreReleasedInSteps) {
  LockTable table;
  table.Set(Lock(kA, v1::LOCK_SHARED, 0, 9, kOtherFile));
  table.Set(Lock(kA, v1::LOCK_SHARED));
  FileLock second = Lock(kA, v1::LOCK_SHARED);
  second.owner.number = 6;
  table.Set(second);
  table.Set(Lock(kB, v1::LOCK_SHARED));
  second.type = v1::LOCK_NONE;
  table.Set(second);  // one of two owners of the file
  EXPECT_EQ(table.Drop(kA, 1), std::vector<InodeNumber>{kFile});
  EXPECT_EQ(table.CountOf(kA), 1u);
  EXPECT_TRUE(table.Drop(kA, 0).empty());
  EXPECT_EQ(table.Drop(kA, 1), std::vector<InodeNumber>{kOtherFile});
  EXPECT_TRUE(table.Drop(kA, 1).empty());
  EXPECT_EQ(table.CountOf(kB), 1u);
}

TEST(LockTableTest, WaitsAreServedInTurn) {
  LockTable table;
  const std::uint64_t first = table.AddWait(Lock(kB, v1::LOCK_SHARED));
  const std::uint64_t other = table.AddWait(Lock(kC, v1::LOCK_SHARED, 0, 0, kOtherFile));
  const std::uint64_t second = table.AddWait(Lock(kC, v1::LOCK_SHARED));
  EXPECT_EQ(table.WaitsFor(kFile), (std::vector<std::uint64_t>{first, second}));
  table.EndWait(kFile, first);
  EXPECT_EQ(table.WaitsFor(kFile), std::vector<std::uint64_t>{second});
  EXPECT_EQ(table.WaitsFor(kOtherFile), std::vector<std::uint64_t>{other});
}

TEST(LockTableTest, ARingOfWaitsIsADeadlock) {
  LockTable table;
  table.Set(Lock(kA, v1::LOCK_EXCLUSIVE, 0, 0));
  table.Set(Lock(kB, v1::LOCK_EXCLUSIVE, 1, 1));
  table.Set(Lock(kC, v1::LOCK_EXCLUSIVE, 2, 2, kOtherFile));
  EXPECT_FALSE(table.WouldDeadlock(Lock(kA, v1::LOCK_EXCLUSIVE, 1, 1)));
  table.AddWait(Lock(kA, v1::LOCK_EXCLUSIVE, 1, 1));
  table.AddWait(Lock(kB, v1::LOCK_SHARED, 2, 2, kOtherFile));
  EXPECT_TRUE(table.WouldDeadlock(Lock(kC, v1::LOCK_SHARED, 0, 9)));
  EXPECT_TRUE(table.WouldDeadlock(Lock(kB, v1::LOCK_SHARED, 0, 0)));
  EXPECT_FALSE(table.WouldDeadlock(Lock(kC, v1::LOCK_SHARED, 3, 9)));
}

TEST(LockTableTest, FlockIsNotSearchedForDeadlocks) {
  LockTable table;
  table.Set(Lock(kA, v1::LOCK_EXCLUSIVE, 0, 9, kFile, v1::LOCK_WHOLE));
  table.Set(Lock(kB, v1::LOCK_EXCLUSIVE, 0, 9, kOtherFile, v1::LOCK_WHOLE));
  table.AddWait(Lock(kA, v1::LOCK_EXCLUSIVE, 0, 9, kOtherFile, v1::LOCK_WHOLE));
  EXPECT_FALSE(table.WouldDeadlock(Lock(kB, v1::LOCK_EXCLUSIVE, 0, 9, kFile, v1::LOCK_WHOLE)));
}

TEST(LockTableTest, BrokenLocksAreGone) {
  LockTable table;
  table.Set(Lock(kA, v1::LOCK_EXCLUSIVE));
  table.Set(Lock(kA, v1::LOCK_SHARED, 20, 29));
  table.Set(Lock(kB, v1::LOCK_SHARED, 40, 49));
  const std::vector<FileLock> broken = table.Break(kFile, kA);
  ASSERT_EQ(broken.size(), 2u);
  EXPECT_EQ(broken[0].type, v1::LOCK_EXCLUSIVE);
  EXPECT_FALSE(table.Conflict(Lock(kC, v1::LOCK_EXCLUSIVE, 0, 30)));
  EXPECT_TRUE(table.Conflict(Lock(kC, v1::LOCK_EXCLUSIVE, 40, 40)));
}

TEST(LockTableTest, BadLocksAreRefused) {
  v1::FileLock lock = ToProto(Lock(kA, v1::LOCK_EXCLUSIVE));
  EXPECT_TRUE(FromProto(lock, kA).ok());
  lock.set_first(10);
  EXPECT_EQ(ErrnoOf(FromProto(lock, kA).status()), EINVAL);
  lock.set_first(0);
  lock.set_type(static_cast<v1::LockType>(9));
  EXPECT_EQ(ErrnoOf(FromProto(lock, kA).status()), EINVAL);
  lock.set_type(v1::LOCK_SHARED);
  lock.set_kind(static_cast<v1::LockKind>(9));
  EXPECT_EQ(ErrnoOf(FromProto(lock, kA).status()), EINVAL);
}

}  // namespace
}  // namespace reel::mdc
