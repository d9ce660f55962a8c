// The watch over a session's lease and stream.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

#include "client/session/session_impl.h"

namespace reel::client {
namespace {

// How often the watch looks at the clock: well within a renewal period, and never busy.
std::chrono::milliseconds WatchPeriod(std::uint64_t lease_ms) {
  return std::chrono::milliseconds(std::clamp<std::uint64_t>(lease_ms / 10, 5, 200));
}

}  // namespace

// Renews the lease, and ends streams on which nothing comes any more.
void SessionImpl::WatchMain() {
  MutexLock lock(mutex_);
  while (!phase_.ending()) {
    watch_wake_.WaitFor(mutex_, WatchPeriod(renewals_.lease_ms()));
    if (link_.HandshakeOverdue(clock_.NowMs())) link_.stream()->Cancel();
    if (!link_.live() || phase_.closing()) continue;
    mutex_.Unlock();
    const RecallWork work = events_.LookAtRecalls();
    v1::Renew said;
    events_.Describe(said);
    mutex_.Lock();
    if (link_.live() && !phase_.closing()) LookAtLease(clock_.NowMs(), work, said);
  }
}

void SessionImpl::LookAtLease(std::uint64_t now_ms, const RecallWork& work, const v1::Renew& said) {
  if (renewals_.MustGiveUp(now_ms, work)) GiveUp(now_ms, work);
  switch (renewals_.Next(now_ms)) {
    case Renewals::Action::kNothing:
      return;
    case Renewals::Action::kEndStream:
      // (The stream may have gone while GiveUp sent.)
      if (link_.stream() != nullptr) link_.stream()->Cancel();
      return;
    case Renewals::Action::kRenew:
      const PendingCallPtr renewal = renewals_.Renew(now_ms, work);
      renewal->request.mutable_renew()->MergeFrom(said);
      renewal->on_done = [this](const absl::StatusOr<v1::Reply>& reply) {
        if (reply.ok()) terms_.Renewed(*reply);
      };
      queue_.Add(renewal);
      SendQueued();
  }
}

void SessionImpl::GiveUp(std::uint64_t now_ms, const RecallWork& work) {
  lease_.Void();
  auto call = std::make_shared<PendingCall>(renewals_.GiveUp(now_ms, work));
  // (Where it is granted the end of the session is told instead.)
  call->on_done = [this](const absl::StatusOr<v1::Reply>&) {
    MutexLock lock(mutex_);
    renewals_.GiveUpRefused();
  };
  queue_.Add(std::move(call));
  SendQueued();
}

}  // namespace reel::client
