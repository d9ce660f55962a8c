// The time in a new epoch in which known sessions say what they hold, and nothing else is served.
//
// Invariants:
//   1. Grace ends when each session that holds it up has left it, and never begins again.
//   2. A session leaves once; leaving again has no effect.
// Threads: the core thread.
#pragma once

#include <cstddef>
#include <optional>

#include "absl/container/btree_set.h"
#include "volume/base/types.h"

namespace reel::mdc {

class Grace {
 public:
  // The session is known from an earlier epoch. REQUIRES: the epoch has not begun to serve.
  void HoldUp(SessionId session) { sessions_.insert(session); }
  // It has said what it holds, or has ended. True: it was the last one, and grace is over.
  bool Leave(SessionId session) { return sessions_.erase(session) > 0 && sessions_.empty(); }
  bool on() const { return !sessions_.empty(); }
  std::size_t sessions() const { return sessions_.size(); }

  // What the session does again in this epoch is done: its reclaim may end.
  void DidAgain(SessionId session) { done_.insert(session); }
  // The next one of these; nullopt: none is left.
  std::optional<SessionId> TakeDone() {
    if (done_.empty()) return std::nullopt;
    const SessionId session = *done_.begin();
    done_.erase(done_.begin());
    return session;
  }

 private:
  absl::btree_set<SessionId> sessions_;  // that hold up the end of grace
  absl::btree_set<SessionId> done_;
};

}  // namespace reel::mdc
