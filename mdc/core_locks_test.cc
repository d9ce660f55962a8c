// Advisory locks: who has to wait, how waits end, and what a new epoch knows.
#include "mdc/core_world.h"

namespace reel::mdc {
namespace {

constexpr std::uint64_t kFile = 77;

class CoreLocksTest : public testing::Test {
 protected:
  CoreLocksTest() {
    a_.Register();
    b_.Register();
  }
  static v1::Request LockOf(v1::LockType type, std::uint64_t first, std::uint64_t last,
                            std::uint64_t wait = 0, std::uint64_t owner = 1) {
    v1::Request request;
    v1::FileLock& lock = *request.mutable_set_lock()->mutable_lock();
    lock.set_inode(kFile);
    lock.set_owner(owner);
    lock.set_type(type);
    lock.set_first(first);
    lock.set_last(last);
    request.mutable_set_lock()->set_wait(wait);
    return request;
  }
  static v1::Request CancelOf(std::uint64_t wait) {
    v1::Request request;
    request.mutable_cancel_lock()->set_wait(wait);
    return request;
  }
  // Sends one that waits.
  std::uint64_t Begin(Client& client, const v1::Request& request) {
    const std::uint64_t id = client.Send(request);
    world_.Run();
    return id;
  }
  int ErrorOf(const Client& client, std::uint64_t id) {
    return client.Answered(id) ? client.Answer(id).error() : -1;
  }

  World world_;
  Client a_{world_, 1}, b_{world_, 2};
};

TEST_F(CoreLocksTest, AWaitEndsWithTheLockThatItWaitsFor) {
  ASSERT_EQ(a_.Do(LockOf(v1::LOCK_EXCLUSIVE, 0, 9)), 0);
  EXPECT_EQ(b_.Do(LockOf(v1::LOCK_SHARED, 5, 20)), EAGAIN);
  const std::uint64_t first = Begin(b_, LockOf(v1::LOCK_SHARED, 5, 20, 1));
  const std::uint64_t second = Begin(b_, LockOf(v1::LOCK_EXCLUSIVE, 5, 5, 2, /*owner=*/2));
  EXPECT_EQ(ErrorOf(b_, first), -1);
  // Nothing else of the session waits behind it.
  EXPECT_EQ(b_.Do(Client::GetAttrOf(1)), 0);
  EXPECT_EQ(b_.Do(LockOf(v1::LOCK_EXCLUSIVE, 100, 100)), 0);
  ASSERT_EQ(a_.Do(LockOf(v1::LOCK_NONE, 5, 9)), 0);
  EXPECT_EQ(ErrorOf(b_, first), 0);
  EXPECT_EQ(ErrorOf(b_, second), -1);
  ASSERT_EQ(b_.Do(LockOf(v1::LOCK_NONE, 0, 9)), 0);
  EXPECT_EQ(ErrorOf(b_, second), 0);
}

TEST_F(CoreLocksTest, ACancelledWaitIsOver) {
  ASSERT_EQ(a_.Do(LockOf(v1::LOCK_EXCLUSIVE, 0, 9)), 0);
  const std::uint64_t wait = Begin(b_, LockOf(v1::LOCK_EXCLUSIVE, 0, 9, 5));
  EXPECT_EQ(b_.Do(CancelOf(4)), 0);
  EXPECT_EQ(a_.Do(CancelOf(5)), 0);  // not its own
  EXPECT_EQ(ErrorOf(b_, wait), -1);
  EXPECT_EQ(b_.Do(CancelOf(5)), 0);
  EXPECT_EQ(ErrorOf(b_, wait), EINTR);
  ASSERT_EQ(a_.Do(LockOf(v1::LOCK_NONE, 0, 9)), 0);
  EXPECT_EQ(a_.Do(LockOf(v1::LOCK_EXCLUSIVE, 0, 9)), 0);
}

TEST_F(CoreLocksTest, AWaitThatWouldNeverEndIsADeadlock) {
  ASSERT_EQ(a_.Do(LockOf(v1::LOCK_EXCLUSIVE, 0, 0)), 0);
  ASSERT_EQ(b_.Do(LockOf(v1::LOCK_EXCLUSIVE, 1, 1)), 0);
  const std::uint64_t wait = Begin(a_, LockOf(v1::LOCK_EXCLUSIVE, 1, 1, 1));
  EXPECT_EQ(b_.Do(LockOf(v1::LOCK_SHARED, 0, 0, 1)), EDEADLK);
  ASSERT_EQ(b_.Do(LockOf(v1::LOCK_NONE, 1, 1)), 0);
  EXPECT_EQ(ErrorOf(a_, wait), 0);
}

TEST_F(CoreLocksTest, ASessionThatEndsLeavesNoLocks) {
  ASSERT_EQ(a_.Do(LockOf(v1::LOCK_EXCLUSIVE, 0, 9)), 0);
  const std::uint64_t wait = Begin(b_, LockOf(v1::LOCK_EXCLUSIVE, 0, 9, 1));
  v1::Request goodbye;
  goodbye.mutable_goodbye();
  ASSERT_EQ(a_.Do(goodbye), 0);
  EXPECT_EQ(ErrorOf(b_, wait), 0);
}

TEST_F(CoreLocksTest, AWaitIsOverWithItsStreamAndBeginsAnewOnTheNext) {
  ASSERT_EQ(a_.Do(LockOf(v1::LOCK_EXCLUSIVE, 0, 9)), 0);
  Begin(b_, LockOf(v1::LOCK_EXCLUSIVE, 0, 9, 1));
  b_.Disconnect();
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(a_.Do(LockOf(v1::LOCK_NONE, 0, 9)), 0);
  EXPECT_EQ(a_.Do(LockOf(v1::LOCK_EXCLUSIVE, 0, 9)), 0);  // nobody has taken it
  const std::uint64_t wait = Begin(b_, LockOf(v1::LOCK_EXCLUSIVE, 0, 9, 1));
  ASSERT_EQ(a_.Do(LockOf(v1::LOCK_NONE, 0, 9)), 0);
  EXPECT_EQ(ErrorOf(b_, wait), 0);
}

TEST_F(CoreLocksTest, LocksAreClaimedInANewEpochBeforeAnybodyGetsOne) {
  ASSERT_EQ(a_.Do(LockOf(v1::LOCK_EXCLUSIVE, 0, 9)), 0);
  world_.Restart();
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  const std::uint64_t early = Begin(b_, LockOf(v1::LOCK_EXCLUSIVE, 0, 9));
  EXPECT_EQ(ErrorOf(b_, early), -1);  // grace
  ASSERT_EQ(a_.Resume(), 0);
  v1::Reclaim reclaim;
  *reclaim.add_locks() = LockOf(v1::LOCK_EXCLUSIVE, 0, 9).set_lock().lock();
  ASSERT_EQ(a_.Reclaim(reclaim), 0);
  EXPECT_EQ(ErrorOf(b_, early), EAGAIN);
}

TEST_F(CoreLocksTest, TheOneInTheWayIsNamed) {
  ASSERT_EQ(a_.Do(LockOf(v1::LOCK_SHARED, 3, 9)), 0);
  v1::Request test;
  *test.mutable_test_lock()->mutable_lock() = LockOf(v1::LOCK_EXCLUSIVE, 0, 100).set_lock().lock();
  ASSERT_EQ(b_.Do(test), 0);
  EXPECT_EQ(b_.last_.lock().type(), v1::LOCK_SHARED);
  EXPECT_EQ(b_.last_.lock().first(), 3u);
  test.mutable_test_lock()->mutable_lock()->set_type(v1::LOCK_SHARED);
  ASSERT_EQ(b_.Do(test), 0);
  EXPECT_EQ(b_.last_.lock().type(), v1::LOCK_NONE);
}

TEST_F(CoreLocksTest, BrokenLocksGoToWhoeverWaits) {
  ASSERT_EQ(a_.Do(LockOf(v1::LOCK_EXCLUSIVE, 0, 9)), 0);
  const std::uint64_t wait = Begin(b_, LockOf(v1::LOCK_EXCLUSIVE, 0, 9, 1));
  v1::LocksReply shown;
  world_.core_->Describe(shown);
  ASSERT_EQ(shown.locks_size(), 2);
  EXPECT_TRUE(shown.locks(1).waiting());
  v1::LocksReply broken;
  world_.core_->BreakLocks(InodeNumber(kFile), SessionId(a_.session_), broken);
  world_.Run();
  EXPECT_EQ(broken.locks_size(), 1);
  EXPECT_EQ(ErrorOf(b_, wait), 0);
  EXPECT_EQ(a_.broken_, std::vector<std::uint64_t>{kFile});
}

TEST_F(CoreLocksTest, NonsenseIsRefused) {
  EXPECT_EQ(a_.Do(LockOf(v1::LOCK_EXCLUSIVE, 9, 0)), EINVAL);
  EXPECT_EQ(a_.Do(LockOf(static_cast<v1::LockType>(7), 0, 9)), EINVAL);
  EXPECT_EQ(a_.Do(CancelOf(0)), EINVAL);
  EXPECT_EQ(a_.Do(LockOf(v1::LOCK_NONE, 0, ~std::uint64_t{0})), 0);
}

}  // namespace
}  // namespace reel::mdc
