// Advisory locks: who has to wait, how waits end, and what a new epoch knows.
#include "mdc/testing/core_harness.h"

namespace reel::mdc {
namespace {

constexpr std::uint64_t kFile = 1;  // the root

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
    harness_.Run();
    return id;
  }
  int ErrorOf(const Client& client, std::uint64_t id) {
    return client.Answered(id) ? client.Answer(id).error() : -1;
  }

  CoreHarness harness_;
  Client a_{harness_, 1}, b_{harness_, 2};
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
  harness_.Restart();
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

TEST_F(CoreLocksTest, TheConflictingLockIsNamed) {
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

TEST_F(CoreLocksTest, BrokenLocksGoToTheWaiters) {
  ASSERT_EQ(a_.Do(LockOf(v1::LOCK_EXCLUSIVE, 0, 9)), 0);
  const std::uint64_t wait = Begin(b_, LockOf(v1::LOCK_EXCLUSIVE, 0, 9, 1));
  v1::LocksReply shown;
  harness_.core_->Describe(shown);
  ASSERT_EQ(shown.locks_size(), 2);
  EXPECT_TRUE(shown.locks(1).waiting());
  v1::LocksReply broken;
  harness_.core_->BreakLocks(InodeNumber(kFile), SessionId(a_.session_), broken);
  harness_.Run();
  EXPECT_EQ(broken.locks_size(), 1);
  EXPECT_EQ(ErrorOf(b_, wait), 0);
  EXPECT_EQ(a_.broken_, std::vector<std::uint64_t>{kFile});
}

// A session that decides by itself.
class CoreLockTokenTest : public CoreLocksTest {
 protected:
  static v1::Request TakeOf(std::uint64_t first, std::uint64_t last, std::uint64_t wait = 0) {
    v1::Request request = LockOf(v1::LOCK_EXCLUSIVE, first, last, wait);
    request.mutable_set_lock()->set_take(true);
    return request;
  }
  // 0: not granted.
  std::uint64_t Take(Client& client, std::uint64_t first = 0, std::uint64_t last = 9) {
    EXPECT_EQ(client.Do(TakeOf(first, last)), 0);
    return client.last_.lock_token();
  }
  static v1::Request ReturnOf(std::uint64_t token, const std::vector<v1::Request>& held = {}) {
    v1::Request request;
    request.mutable_lock_return()->set_inode(kFile);
    request.mutable_lock_return()->set_token(token);
    for (const v1::Request& lock : held) {
      *request.mutable_lock_return()->add_locks() = lock.set_lock().lock();
    }
    return request;
  }
  static v1::Request TestOf(std::uint64_t first, std::uint64_t last) {
    v1::Request request;
    *request.mutable_test_lock()->mutable_lock() =
        LockOf(v1::LOCK_EXCLUSIVE, first, last).set_lock().lock();
    return request;
  }
};

TEST_F(CoreLockTokenTest, TheOnlyUserGetsTheLockToken) {
  ASSERT_EQ(b_.Do(LockOf(v1::LOCK_SHARED, 50, 59)), 0);
  EXPECT_EQ(Take(a_), 0u);
  ASSERT_EQ(b_.Do(LockOf(v1::LOCK_NONE, 50, 59)), 0);
  const std::uint64_t token = Take(a_);
  EXPECT_NE(token, 0u);
  EXPECT_EQ(a_.Do(ReturnOf(token)), 0);
  EXPECT_GT(Take(b_), token);
}

TEST_F(CoreLockTokenTest, AnotherUserLearnsWhichLocksAreHeld) {
  const std::uint64_t token = Take(a_);
  const std::uint64_t lock = Begin(b_, LockOf(v1::LOCK_EXCLUSIVE, 0, 9));
  const std::uint64_t free = Begin(b_, LockOf(v1::LOCK_EXCLUSIVE, 10, 19, 0, /*owner=*/2));
  const std::uint64_t wait = Begin(b_, LockOf(v1::LOCK_EXCLUSIVE, 20, 29, 7));
  const std::uint64_t test = Begin(b_, TestOf(20, 29));
  EXPECT_EQ(ErrorOf(b_, lock), -1);
  EXPECT_EQ(ErrorOf(b_, test), -1);
  EXPECT_EQ(a_.recalled_locks_, (std::vector<std::uint64_t>{token})) << "once";
  ASSERT_EQ(
      a_.Do(ReturnOf(token, {LockOf(v1::LOCK_SHARED, 0, 4), LockOf(v1::LOCK_SHARED, 20, 29)})), 0);
  EXPECT_EQ(ErrorOf(b_, lock), EAGAIN);
  EXPECT_EQ(ErrorOf(b_, free), 0);
  EXPECT_EQ(ErrorOf(b_, wait), -1);
  EXPECT_EQ(ErrorOf(b_, test), 0);
  EXPECT_EQ(b_.Answer(test).lock().last(), 29u);
  ASSERT_EQ(a_.Do(LockOf(v1::LOCK_NONE, 0, 100)), 0);
  EXPECT_EQ(ErrorOf(b_, wait), 0);
  EXPECT_EQ(b_.Do(LockOf(v1::LOCK_EXCLUSIVE, 5, 9)), 0) << "what it held before is not known";
}

TEST_F(CoreLockTokenTest, AnAnswerToAnOldRecallGivesNothingUp) {
  const std::uint64_t first = Take(a_);
  ASSERT_EQ(a_.Do(ReturnOf(first)), 0);
  const std::uint64_t second = Take(a_);
  ASSERT_NE(second, 0u);
  ASSERT_EQ(a_.Do(ReturnOf(first)), 0);
  const std::uint64_t lock = Begin(b_, LockOf(v1::LOCK_EXCLUSIVE, 50, 59));
  EXPECT_EQ(ErrorOf(b_, lock), -1);
  EXPECT_EQ(b_.Do(ReturnOf(second)), 0);  // not its own
  EXPECT_EQ(ErrorOf(b_, lock), -1);
  ASSERT_EQ(a_.Do(ReturnOf(second)), 0);
  EXPECT_EQ(ErrorOf(b_, lock), 0);
}

TEST_F(CoreLockTokenTest, AHolderThatMissedTheRecallKeepsItsLocks) {
  const std::uint64_t token = Take(a_);
  v1::Request unknown = ReturnOf(token);
  unknown.mutable_lock_return()->set_unknown(true);
  const std::uint64_t own = Begin(a_, LockOf(v1::LOCK_EXCLUSIVE, 20, 29, 0, /*owner=*/2));
  EXPECT_EQ(ErrorOf(a_, own), -1) << "its own call, too";
  ASSERT_EQ(a_.Do(unknown), 0);
  EXPECT_EQ(ErrorOf(a_, own), 0);
  EXPECT_EQ(b_.Do(LockOf(v1::LOCK_EXCLUSIVE, 0, 9)), EAGAIN);
}

TEST_F(CoreLockTokenTest, TheLockTokenEndsWithItsSessionAndItsEpoch) {
  ASSERT_NE(Take(a_), 0u);
  const std::uint64_t lock = Begin(b_, LockOf(v1::LOCK_EXCLUSIVE, 0, 9));
  v1::Request goodbye;
  goodbye.mutable_goodbye();
  ASSERT_EQ(a_.Do(goodbye), 0);
  EXPECT_EQ(ErrorOf(b_, lock), 0);
  const std::uint64_t token = Take(b_);
  ASSERT_NE(token, 0u);
  harness_.Restart();
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  ASSERT_EQ(b_.Do(ReturnOf(token, {LockOf(v1::LOCK_EXCLUSIVE, 0, 9)})), 0);
  EXPECT_EQ(b_.Do(LockOf(v1::LOCK_EXCLUSIVE, 0, 9, 0, /*owner=*/2)), 0) << "nothing was claimed";
}

TEST_F(CoreLockTokenTest, ARecallIsRepeatedOnTheNextStream) {
  const std::uint64_t token = Take(a_);
  a_.Disconnect();
  const std::uint64_t lock = Begin(b_, LockOf(v1::LOCK_EXCLUSIVE, 0, 9));
  EXPECT_TRUE(a_.recalled_locks_.empty());
  ASSERT_EQ(a_.Resume(), 0);
  harness_.core_->OnTick();
  harness_.Run();
  EXPECT_EQ(a_.recalled_locks_, (std::vector<std::uint64_t>{token}));
  ASSERT_EQ(a_.Do(ReturnOf(token)), 0);
  EXPECT_EQ(ErrorOf(b_, lock), 0);
}

TEST_F(CoreLockTokenTest, AWaitForTheLockTokenCanBeCancelled) {
  ASSERT_NE(Take(a_), 0u);
  const std::uint64_t wait = Begin(b_, LockOf(v1::LOCK_EXCLUSIVE, 0, 9, 3));
  EXPECT_EQ(b_.Do(CancelOf(3)), 0);
  EXPECT_EQ(ErrorOf(b_, wait), EINTR);
  Begin(b_, LockOf(v1::LOCK_EXCLUSIVE, 0, 9, 4));
  b_.Disconnect();
  ASSERT_EQ(a_.Do(ReturnOf(a_.recalled_locks_.front())), 0);
  EXPECT_NE(Take(a_), 0u) << "nobody has taken it";
}

// The reply that granted lock and token was lost; so the request comes again, and waits for the
// token. Were it told that it had given up, nobody would ever give the lock back.
TEST_F(CoreLockTokenTest, ACancelledWaitReportsAGrantedLock) {
  ASSERT_EQ(a_.Do(TakeOf(0, 9, /*wait=*/3)), 0);
  const std::uint64_t token = a_.last_.lock_token();
  ASSERT_NE(token, 0u);
  a_.Disconnect();
  ASSERT_EQ(a_.Resume(), 0);
  const std::uint64_t again = Begin(a_, TakeOf(0, 9, /*wait=*/3));
  EXPECT_EQ(a_.Do(CancelOf(3)), 0);
  v1::Request unknown = ReturnOf(token);
  unknown.mutable_lock_return()->set_unknown(true);
  ASSERT_EQ(a_.Do(unknown), 0);
  EXPECT_EQ(ErrorOf(a_, again), 0);
}

TEST_F(CoreLockTokenTest, ACancelWaitsOnlyForItsOwnToken) {
  const std::uint64_t token = Take(a_);
  const std::uint64_t wait = Begin(a_, LockOf(v1::LOCK_EXCLUSIVE, 0, 9, 3, /*owner=*/2));
  EXPECT_EQ(a_.Do(CancelOf(3)), 0);
  EXPECT_EQ(ErrorOf(a_, wait), -1);
  ASSERT_EQ(a_.Do(ReturnOf(token, {LockOf(v1::LOCK_EXCLUSIVE, 5, 5)})), 0);
  EXPECT_EQ(ErrorOf(a_, wait), EINTR);
}

TEST_F(CoreLockTokenTest, WaitsWithoutANumberAreNotCancelled) {
  const std::uint64_t token = Take(a_);
  const std::uint64_t test = Begin(b_, TestOf(0, 9));
  EXPECT_EQ(b_.Do(CancelOf(0)), EINVAL);
  EXPECT_EQ(ErrorOf(b_, test), -1);
  ASSERT_EQ(a_.Do(ReturnOf(token)), 0);
  EXPECT_EQ(ErrorOf(b_, test), 0);
}

TEST_F(CoreLockTokenTest, AWaiterBehindTheNextHolderRecallsAgain) {
  Client c(harness_, 3);
  c.Register();
  const std::uint64_t token = Take(a_);
  const std::uint64_t take = Begin(b_, TakeOf(0, 9));
  const std::uint64_t lock = Begin(c, LockOf(v1::LOCK_EXCLUSIVE, 20, 29));
  ASSERT_EQ(a_.Do(ReturnOf(token)), 0);
  ASSERT_EQ(ErrorOf(b_, take), 0);
  const std::uint64_t next = b_.Answer(take).lock_token();
  ASSERT_NE(next, 0u);
  EXPECT_EQ(ErrorOf(c, lock), -1);
  EXPECT_EQ(b_.recalled_locks_, (std::vector<std::uint64_t>{next}));
  ASSERT_EQ(b_.Do(ReturnOf(next)), 0);
  EXPECT_EQ(ErrorOf(c, lock), 0);
}

TEST_F(CoreLockTokenTest, AReturnOfTooManyLocksLosesThem) {
  const std::uint64_t token = Take(a_);
  std::vector<v1::Request> held;
  for (std::uint64_t i = 0; i <= 8192; ++i) held.push_back(LockOf(v1::LOCK_SHARED, 2 * i, 2 * i));
  ASSERT_EQ(a_.Do(ReturnOf(token, held)), 0);
  EXPECT_EQ(b_.Do(LockOf(v1::LOCK_EXCLUSIVE, 0, 100'000)), 0);
}

TEST_F(CoreLockTokenTest, AdministrationSeesHeldLocks) {
  const std::uint64_t token = Take(a_);
  int reported = 0;
  const auto report = [&reported](bool answered) { reported += answered ? 1 : 0; };
  harness_.core_->FetchLocks(InodeNumber(kFile + 1), report);
  EXPECT_EQ(reported, 1);
  harness_.core_->FetchLocks(std::nullopt, report);
  harness_.Run();
  EXPECT_EQ(reported, 1);
  ASSERT_EQ(a_.Do(ReturnOf(token, {LockOf(v1::LOCK_SHARED, 3, 4)})), 0);
  EXPECT_EQ(reported, 2);
  v1::LocksReply shown;
  harness_.core_->Describe(shown);
  ASSERT_EQ(shown.locks_size(), 1);
  EXPECT_EQ(shown.locks(0).first(), 3u);
}

TEST_F(CoreLockTokenTest, AdministrationIsAnsweredWhenTheControllerStops) {
  (void)Take(a_);
  int answered = 0, refused = 0;
  const auto report = [&](bool yes) { ++(yes ? answered : refused); };
  harness_.core_->FetchLocks(std::nullopt, report);
  harness_.Run();
  EXPECT_EQ(refused, 0);
  harness_.core_->EndFetches();
  EXPECT_EQ(refused, 1);
  harness_.core_->FetchLocks(std::nullopt, report);
  EXPECT_EQ(refused, 2);
  EXPECT_EQ(answered, 0);
}

TEST_F(CoreLockTokenTest, ABrokenLockTokenEndsAtOnce) {
  const std::uint64_t token = Take(a_);
  const std::uint64_t wait = Begin(b_, LockOf(v1::LOCK_EXCLUSIVE, 0, 9, 1));
  v1::LocksReply broken;
  harness_.core_->BreakLocks(InodeNumber(kFile), std::nullopt, broken);
  harness_.Run();
  EXPECT_EQ(ErrorOf(b_, wait), 0);
  EXPECT_EQ(a_.broken_, std::vector<std::uint64_t>{kFile});
  ASSERT_EQ(a_.Do(ReturnOf(token, {LockOf(v1::LOCK_EXCLUSIVE, 0, 9)})), 0);
  EXPECT_EQ(a_.Do(LockOf(v1::LOCK_EXCLUSIVE, 0, 9)), EAGAIN);
}

TEST_F(CoreLocksTest, NonsenseIsRefused) {
  EXPECT_EQ(a_.Do(LockOf(v1::LOCK_EXCLUSIVE, 9, 0)), EINVAL);
  EXPECT_EQ(a_.Do(LockOf(static_cast<v1::LockType>(7), 0, 9)), EINVAL);
  EXPECT_EQ(a_.Do(CancelOf(0)), EINVAL);
  EXPECT_EQ(a_.Do(LockOf(v1::LOCK_NONE, 0, ~std::uint64_t{0})), 0);
}

}  // namespace
}  // namespace reel::mdc
