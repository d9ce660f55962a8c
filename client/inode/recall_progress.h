// How far the recall of a file's token has come, and who need not wait for it.
//
// The controller recalls a part of the token. Work on it goes by stages: direct requests wait from
// kDraining on, those of the page cache too from kClosed on; a grant still gets its one use. From
// kReturning on nobody is at work whom the recall waits for, and no grant is taken in. Each recall
// has a number, its *cycle*: a thread that works on it does nothing more once another one has
// begun, or the session is lost. Invariants:
//   1. One recall is under way at a time. Another one makes it larger, until the token is on its
//      way back; what comes then follows it, if it asks for more.
//   2. What the token's holder gives up lies away from its own place in the file, and goes as a
//      whole, so that not each step of the other one's recalls more (`yielded`). Direct requests
//      that need nothing of it go on beside the recall: a stream does not stand still because
//      somebody reads what lies behind it.
//   3. Such a request is not waited for, unless the recall has become larger since it began. What
//      it relied on, that it would not be taken, is not.
// Threads: externally synchronised, by the file's mutex.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

#include "proto/token_ranges.h"
#include "proto/types.pb.h"

namespace reel::client {

class RecallProgress {
 public:
  enum class Stage : std::uint8_t { kNone, kDraining, kClosed, kReturning };

  struct Recalled {
    TokenSpan span{};
    v1::TokenMode mode = v1::TOKEN_NONE;  // it comes down to
    // Both at once.
    void Add(const Recalled& other) {
      span = span.Hull(other.span);
      mode = std::min(mode, other.mode);
    }
    friend bool operator==(const Recalled&, const Recalled&) = default;
  };

  Stage stage() const { return stage_; }
  bool under_way() const { return stage_ != Stage::kNone; }
  std::uint64_t cycle() const { return cycle_; }
  // Another one has begun since, or the session was lost.
  bool IsOver(std::uint64_t cycle) const { return cycle_ != cycle; }
  // What it takes. Meaningless with kNone.
  const Recalled& recalled() const { return recalled_; }

  // ---- its way. `last_used`: where the last read or write was.
  // True: a cycle of its own begins with it. Else what is under way takes it along, or it follows.
  bool Begin(const Recalled& what, const TokenSpan& last_used);
  // kDraining → kClosed. False: it is elsewhere.
  bool Close();
  // Pages were filled meanwhile: back to kDraining.
  void Reopen() { stage_ = Stage::kDraining; }
  // → kReturning. Says what goes back for good.
  void BeginReturn(const TokenSpan& last_used);
  // It is answered. What came meanwhile and asks for more has to begin.
  std::optional<Recalled> End();
  // The token is lost.
  void Void();

  // ---- who goes on beside it
  bool Passes(const TokenSpan& uses) const { return !uses.Overlaps(yielded_); }
  // For LeavePassing; not 0. REQUIRES: under_way(), and it Passes.
  std::uint64_t EnterPassing() {
    ++passing_;
    passed_ = true;
    return passing_round_;
  }
  void LeavePassing(std::uint64_t round) {
    if (round == passing_round_) --passing_;
  }
  // Those that are not waited for.
  std::uint32_t passing() const { return passing_; }

  // ---- who has let one pass because of a lost path, or has lost the session in one: until none is
  // lost the token is not asked for again
  void NoteGaveWay() { gave_way_ = true; }
  void ForgetGaveWay() { gave_way_ = false; }
  bool gave_way() const { return gave_way_; }

 private:
  static TokenSpan YieldFor(const TokenSpan& recalled, const TokenSpan& last_used);
  void Take(const Recalled& what, const TokenSpan& last_used);
  // Whoever is at work now is waited for.
  void WaitForAll() {
    passing_ = 0;
    ++passing_round_;
  }

  Stage stage_ = Stage::kNone;
  Recalled recalled_;
  std::optional<Recalled> next_;  // came while kReturning
  std::uint64_t cycle_ = 0;
  TokenSpan yielded_;                // what the recall in progress will take
  std::uint32_t passing_ = 0;        // of the users, …
  std::uint64_t passing_round_ = 1;  // … those that got this number
  bool passed_ = false;              // somebody did
  bool gave_way_ = false;
};

}  // namespace reel::client
