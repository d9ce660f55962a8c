// The sessions that are told again what is recalled of them, and how far that is.
//
// Recalls may have been lost with a session's old stream. When it has resumed, all that are out go
// out again, in slices; between two turns of the core everybody else is served. The core sends a
// slice, and says here how much it found. Invariants:
//   1. Each recall that was out when the session resumed is in one slice: by kind, then by inode.
//   2. What is recalled meanwhile goes out by itself exactly where its slice has gone out already
//      (WillSend): no recall goes out twice.
//   3. A turn has at most `most` recalls, but for further ones of its last inode, however many
//      sessions there are.
//   4. Nothing goes out of a session before a turn that begins (kBegin) after it has resumed.
// Threads: the core thread.
#pragma once

#include <cstddef>
#include <map>
#include <optional>

#include "mdc/base/recall_clock.h"
#include "volume/base/types.h"

namespace reel::mdc {

class Resends {
 public:
  using Kind = RecallClock::Kind;
  // Recalls of one kind, of this inode and those behind it.
  struct Slice {
    SessionId session;
    Kind kind = Kind::kData;
    InodeNumber from;
    std::size_t most = 0;  // never 0
  };
  enum class Turn {
    kBegin,  // all sessions have their turn
    kGoOn,   // those of which something may have gone out
  };

  // The session has resumed: from the first recall on.
  void Add(SessionId session) { places_[session] = {}; }
  // It is told no more.
  void Drop(SessionId session) { places_.erase(session); }
  bool Contains(SessionId session) const { return places_.contains(session); }
  bool empty() const { return places_.empty(); }
  // The recall goes out in a slice that has yet to come.
  bool WillSend(SessionId session, Kind kind, InodeNumber inode) const;

  void BeginTurn(Turn turn, std::size_t most);
  // What goes out next; nullopt: nothing more in this turn.
  std::optional<Slice> Next() const;
  // So many recalls are in that slice, the last of them of this inode. They go out after this.
  // REQUIRES: it is Next().
  void Found(const Slice& slice, std::size_t count, InodeNumber last);
  // There may be more, which another turn is to follow for.
  bool used_up() const { return room_ == 0; }

  // Visits the sessions, and drops those for which `f` returns true.
  template <typename F>
  void DropIf(F f) {
    std::erase_if(places_, [&](const auto& place) { return f(place.first); });
  }

 private:
  struct Place {
    bool begun = false;
    Kind kind = Kind::kData;
    InodeNumber from;
  };

  std::map<SessionId, Place> places_;
  std::size_t room_ = 0;  // of this turn
};

}  // namespace reel::mdc
