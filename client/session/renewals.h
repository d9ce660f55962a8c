// When a session renews its lease, when it takes its stream for dead, and when it gives itself up.
//
// Invariants:
//   1. One renewal is on its way at a time; the next is due a period after the last was sent.
//      The first one is due at once where the client knows other controllers.
//   2. While the session is being given up, an answered renewal renews nothing.
//   3. It is given up only to a controller that knows how, and after a refusal not again before
//      the patience with lost paths is over.
// Threads: externally synchronised. The lease itself is a Lease, which any thread may look at.
#pragma once

#include <cstddef>
#include <cstdint>

#include "client/session/request_queue.h"
#include "client/session/session.h"

namespace reel::client {

class Renewals {
 public:
  enum class Action { kNothing, kRenew, kEndStream };

  explicit Renewals(std::size_t controllers) : controllers_(controllers) {}

  // Registered, by a Hello that was sent then.
  void Registered(std::uint64_t sent_ms, std::uint32_t lease_ms, bool knows_recall_work);
  // Somebody waits, nothing moves, and a LUN is not reached: the session is to be given up.
  bool MustGiveUp(std::uint64_t now_ms, const RecallWork& work) const;
  // The request for that; the lease is over from here on, unless it is refused.
  v1::Request GiveUp(std::uint64_t now_ms, const RecallWork& work);
  void GiveUpRefused();

  Action Next(std::uint64_t now_ms) const;
  // REQUIRES: Next() is kRenew.
  PendingCallPtr Renew(std::uint64_t now_ms, const RecallWork& work);
  // Whether this answered request makes the lease begin anew, from when it was sent.
  bool Renews(const PendingCall& call, const v1::Reply& reply) const {
    return call.request.op_case() == v1::Request::kRenew && reply.error() == 0 && !giving_up_;
  }

  std::uint32_t lease_ms() const { return lease_ms_; }

 private:
  const std::size_t controllers_;
  std::uint32_t lease_ms_ = 0;
  std::uint64_t renew_at_ms_ = 0;
  PendingCallPtr renewal_;          // the last one
  bool knows_recall_work_ = false;  // the controller knows RecallWork and GiveUp
  bool giving_up_ = false;
  std::uint64_t give_up_at_ms_ = 0;  // not before then, after a refusal
};

}  // namespace reel::client
