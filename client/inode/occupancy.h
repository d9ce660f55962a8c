// Who is at work on a file of this host, and who else may begin.
//
// A *user* reads or writes bytes: beside others, or alone (an append, a change of size). A *fetch*
// is a LayoutGet under way. What it has brought is *pinned* until the request that asked has used
// it once. Invariants:
//   1. Whoever works alone began while there was no other user, and no fetch.
//   2. While somebody works alone or waits for that, no user begins. One with a pinned grant does
//      not stand behind those that wait: they wait for it.
//   3. A fetch begins only while no other one is under way, nobody works alone, and no other
//      request's grant is pinned: its user may have to wait until no fetch is under way, the recall
//      of that grant for its user, and the fetch for the answer to the recall.
// Threads: externally synchronised, by the file's mutex.
#pragma once

#include <cstdint>

namespace reel::client {

class Occupancy {
 public:
  // ---- users. False: it has to wait. `pinned`: it has a grant to use.
  bool EnterShared(bool pinned = false) {
    if (exclusive_ || (waiting_exclusive_ > 0 && !pinned)) return false;
    ++shared_;
    return true;
  }
  void LeaveShared() { --shared_; }
  bool EnterExclusive() {
    if (shared_ > 0 || exclusive_ || fetching_) return false;
    exclusive_ = true;
    return true;
  }
  void LeaveExclusive() { exclusive_ = false; }
  // Around a wait for EnterExclusive. EndAwaitExclusive: true when nobody else waits for it.
  void BeginAwaitExclusive() { ++waiting_exclusive_; }
  bool EndAwaitExclusive() { return --waiting_exclusive_ == 0; }

  bool exclusive() const { return exclusive_; }
  // Nobody works alone, or waits to.
  bool admits_shared() const { return !exclusive_ && waiting_exclusive_ == 0; }

  // ---- fetches, and grants that are still to be used. `pinned`: by the one that asks itself.
  bool MayFetch(bool pinned) const {
    return !fetching_ && !exclusive_ && pins_ <= (pinned ? 1 : 0) &&
           (waiting_exclusive_ == 0 || pinned);
  }
  // Of a request of the page cache: whoever waits to work alone may wait for its pages.
  bool MayFetchPages(bool pinned) const {
    return !fetching_ && !exclusive_ && pins_ <= (pinned ? 1 : 0);
  }
  void BeginFetch() { fetching_ = true; }
  void EndFetch() { fetching_ = false; }
  bool fetching() const { return fetching_; }
  void Pin() { ++pins_; }
  void Unpin() { --pins_; }

  // ---- requests to set times, beside whoever else is at work
  void BeginTimes() { ++times_; }
  void EndTimes() { --times_; }
  // The controller may be about to change the file's size or times, whether or not somebody waits.
  bool changes_attributes() const { return exclusive_ || times_ > 0; }

  // ---- for who waits until nobody is at work
  bool idle() const { return IdleBut(0); }
  // As `passing` of the users do not count.
  bool IdleBut(std::uint32_t passing) const {
    return shared_ == passing && !exclusive_ && pins_ == 0;
  }

 private:
  std::uint32_t shared_ = 0;
  bool exclusive_ = false;
  std::uint32_t waiting_exclusive_ = 0;
  bool fetching_ = false;
  std::uint32_t pins_ = 0;
  std::uint32_t times_ = 0;
};

}  // namespace reel::client
