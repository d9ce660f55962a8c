#include "client/session/renewals.h"

#include <gtest/gtest.h>

#include "client/base/lease.h"

namespace reel::client {
namespace {

using Action = Renewals::Action;
constexpr std::uint32_t kLeaseMs = 10'000;
constexpr std::uint64_t kNowMs = 1'000'000;

RecallWork Stuck() {
  RecallWork work;
  work.any = true;
  work.stalled_ms = GiveUpMs(kLeaseMs);
  work.lost_lun = "lun";
  work.lost_ms = PathPatienceMs(kLeaseMs);
  return work;
}

TEST(Renewals, TheNextIsDueAPeriodAfterTheLast) {
  Renewals renewals(1);
  renewals.Registered(kNowMs, kLeaseMs, true);
  const std::uint64_t period_ms = RenewalPeriodMs(kLeaseMs, 1);
  EXPECT_EQ(renewals.Next(kNowMs + period_ms - 1), Action::kNothing);
  EXPECT_EQ(renewals.Next(kNowMs + period_ms), Action::kRenew);
  const PendingCallPtr call = renewals.Renew(kNowMs + period_ms, {});
  call->state = PendingCall::State::kDone;
  EXPECT_EQ(renewals.Next(kNowMs + 2 * period_ms - 1), Action::kNothing);
  EXPECT_EQ(renewals.Next(kNowMs + 2 * period_ms), Action::kRenew);
}

TEST(Renewals, AControllerThatOthersCouldFollowIsPromisedOneAtOnce) {
  Renewals renewals(2);
  renewals.Registered(kNowMs, kLeaseMs, true);
  ASSERT_EQ(renewals.Next(kNowMs), Action::kRenew);
  const std::uint64_t period_ms = RenewalPeriodMs(kLeaseMs, 2);
  EXPECT_EQ(renewals.Renew(kNowMs, {})->request.renew().next_ms(), period_ms);
}

TEST(Renewals, OneIsOnItsWayAtATimeAndItsSilenceEndsTheStream) {
  Renewals renewals(1);
  renewals.Registered(kNowMs, kLeaseMs, true);
  const PendingCallPtr call = renewals.Renew(kNowMs, {});
  EXPECT_EQ(renewals.Next(kNowMs + kLeaseMs), Action::kNothing);  // it was not even sent
  call->state = PendingCall::State::kSent;
  call->sent_ms = kNowMs;
  const std::uint64_t timeout_ms = RenewalTimeoutMs(kLeaseMs);
  EXPECT_EQ(renewals.Next(kNowMs + timeout_ms), Action::kNothing);
  EXPECT_EQ(renewals.Next(kNowMs + timeout_ms + 1), Action::kEndStream);
}

TEST(Renewals, NothingIsRenewedWhileTheSessionIsGivenUp) {
  Renewals renewals(1);
  renewals.Registered(kNowMs, kLeaseMs, true);
  const PendingCallPtr call = renewals.Renew(kNowMs, {});
  EXPECT_TRUE(renewals.Renews(*call, {}));
  (void)renewals.GiveUp(kNowMs, Stuck());
  EXPECT_FALSE(renewals.Renews(*call, {}));
  renewals.GiveUpRefused();
  EXPECT_TRUE(renewals.Renews(*call, {}));
  v1::Reply refusal;
  refusal.set_error(5);
  EXPECT_FALSE(renewals.Renews(*call, refusal));
}

TEST(Renewals, ARefusedSessionIsNotGivenUpAgainAtOnce) {
  Renewals renewals(1);
  renewals.Registered(kNowMs, kLeaseMs, true);
  EXPECT_TRUE(renewals.MustGiveUp(kNowMs, Stuck()));
  EXPECT_EQ(renewals.GiveUp(kNowMs, Stuck()).give_up().lun(), "lun");
  EXPECT_FALSE(renewals.MustGiveUp(kNowMs + kLeaseMs, Stuck()));
  renewals.GiveUpRefused();
  const std::uint64_t patience_ms = PathPatienceMs(kLeaseMs);
  EXPECT_FALSE(renewals.MustGiveUp(kNowMs + patience_ms - 1, Stuck()));
  EXPECT_TRUE(renewals.MustGiveUp(kNowMs + patience_ms, Stuck()));
}

TEST(Renewals, ASessionIsGivenUpOnlyWhereOthersWaitAndALunIsLost) {
  Renewals renewals(1);
  renewals.Registered(kNowMs, kLeaseMs, true);
  RecallWork work = Stuck();
  work.any = false;
  EXPECT_FALSE(renewals.MustGiveUp(kNowMs, work));
  work = Stuck();
  work.lost_lun.clear();
  EXPECT_FALSE(renewals.MustGiveUp(kNowMs, work));
  renewals.Registered(kNowMs, kLeaseMs, false);  // a controller that does not know how
  EXPECT_FALSE(renewals.MustGiveUp(kNowMs, Stuck()));
}

}  // namespace
}  // namespace reel::client
