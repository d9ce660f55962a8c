// Whose turn it is at a core's seat: a visitor's, for one batch, or the resident's.
//
// Invariants:
//   1. One thread at a time has the seat.
//   2. No visitor takes the seat while the resident wants it: the resident's wait is one batch.
//   3. A holder that leaves events behind leaves them wanted by the resident: none is forgotten.
// Threads: externally synchronised.
#pragma once

namespace reel::mdc {

class CoreTurns {
 public:
  // The bringer of an event takes the seat; false: another holds it, or the resident wants it.
  bool Visit() {
    if (busy_ || wanted_) return false;
    busy_ = true;
    return true;
  }
  // `more`: events came meanwhile. REQUIRES: the caller has the seat.
  void Leave(bool more) {
    busy_ = false;
    wanted_ = wanted_ || more;
  }
  // The resident is to have the next turn.
  void Want() { wanted_ = true; }
  bool wanted() const { return wanted_; }
  // The resident takes the seat; false: another still holds it.
  bool TakeWanted() {
    if (busy_) return false;
    busy_ = true;
    wanted_ = false;
    return true;
  }
  // The resident ends when no event is left.
  void Stop() { stopping_ = true; }
  bool stopping() const { return stopping_; }

 private:
  bool busy_ = false;
  bool wanted_ = false;
  bool stopping_ = false;
};

}  // namespace reel::mdc
