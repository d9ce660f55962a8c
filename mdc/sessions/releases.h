// The sessions of which something is held that is to be given away, in their order; and how much
// of that one turn of the core may still do.
//
// These are sessions that are gone, and others that claim anew. Each may have held millions of
// tokens, opens and locks: the core gives away as many as there is room for, and everybody else is
// served before the next turn. Invariants:
//   1. A session is here once at most: a second round would take what it claims by then.
//   2. The first is done before the next one begins.
//   3. A turn gives away at most `most` holdings, in whatever parts.
// Threads: the core thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "volume/base/types.h"

namespace reel::mdc {

class Releases {
 public:
  explicit Releases(std::size_t most) : most_(most), room_(most) {}

  // No effect where it is here already.
  void Add(SessionId session) {
    if (std::ranges::find(sessions_, session) == sessions_.end()) sessions_.push_back(session);
  }
  // Whose holdings go first; nullopt: nothing is left.
  std::optional<SessionId> First() const {
    if (sessions_.empty()) return std::nullopt;
    return sessions_.front();
  }
  // The first one holds nothing any more. REQUIRES: there is one.
  void FirstIsDone() { sessions_.pop_front(); }
  bool empty() const { return sessions_.empty(); }

  // What was given away before counts no longer.
  void BeginTurn() { room_ = most_; }
  // How many holdings may be given away in this turn.
  std::size_t room() const { return room_; }
  // So many were.
  void Spend(std::size_t count) {
    room_ -= std::min(room_, count);
    released_ += count;
  }
  // In all turns.
  std::uint64_t released() const { return released_; }

 private:
  const std::size_t most_;
  std::deque<SessionId> sessions_;
  std::size_t room_;
  std::uint64_t released_ = 0;
};

}  // namespace reel::mdc
