#include "client/session/renewals.h"

#include <memory>
#include <utility>

#include "client/base/lease.h"

namespace reel::client {
namespace {

// In messages; the controller takes no more.
constexpr std::size_t kMaxTroubleBytes = 256;

}  // namespace

void Renewals::Registered(std::uint64_t sent_ms, std::uint32_t lease_ms, bool knows_recall_work) {
  lease_ms_ = lease_ms;
  knows_recall_work_ = knows_recall_work;
  giving_up_ = false;
  // Where there are others to go to, this controller is to know at once that it may be missed.
  renew_at_ms_ = sent_ms + (controllers_ > 1 ? 0 : RenewalPeriodMs(lease_ms_, controllers_));
}

bool Renewals::MustGiveUp(std::uint64_t now_ms, const RecallWork& work) const {
  if (!knows_recall_work_ || giving_up_ || now_ms < give_up_at_ms_) return false;
  return work.any && work.stalled_ms >= GiveUpMs(lease_ms_) && !work.lost_lun.empty() &&
         work.lost_ms >= PathPatienceMs(lease_ms_);
}

v1::Request Renewals::GiveUp(std::uint64_t now_ms, const RecallWork& work) {
  give_up_at_ms_ = now_ms + PathPatienceMs(lease_ms_);
  giving_up_ = true;
  v1::Request request;
  request.mutable_give_up()->set_lun(work.lost_lun);
  request.mutable_give_up()->set_reason(work.trouble.substr(0, kMaxTroubleBytes));
  return request;
}

void Renewals::GiveUpRefused() {
  giving_up_ = false;
  renew_at_ms_ = 0;
}

Renewals::Action Renewals::Next(std::uint64_t now_ms) const {
  if (renewal_ == nullptr || renewal_->state == PendingCall::State::kDone) {
    return now_ms >= renew_at_ms_ ? Action::kRenew : Action::kNothing;
  }
  const bool overdue = renewal_->state == PendingCall::State::kSent &&
                       now_ms - renewal_->sent_ms > RenewalTimeoutMs(lease_ms_);
  return overdue ? Action::kEndStream : Action::kNothing;
}

PendingCallPtr Renewals::Renew(std::uint64_t now_ms, const RecallWork& work) {
  v1::Request request;
  const std::uint64_t period_ms = RenewalPeriodMs(lease_ms_, controllers_);
  request.mutable_renew()->set_next_ms(controllers_ > 1 ? static_cast<std::uint32_t>(period_ms)
                                                        : 0);
  if (knows_recall_work_) {
    v1::RecallWork& said = *request.mutable_renew()->mutable_work();
    said.set_any(work.any);
    said.set_stalled_ms(static_cast<std::uint32_t>(work.stalled_ms));
    said.set_trouble(work.trouble.substr(0, kMaxTroubleBytes));
  }
  renewal_ = std::make_shared<PendingCall>(std::move(request));
  renew_at_ms_ = now_ms + period_ms;
  return renewal_;
}

}  // namespace reel::client
