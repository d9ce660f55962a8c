// The seat of a volume's active controller: who may take it, and for how long it is held.
//
// SeatWatch is a standby's view, Seat the holder's. Both are plain logic over looks at one block
// and a clock (docs/failover.md argues why it is right). Invariants:
//   1. A holder's term counts from before the write of a beat that was carried out, and only if it
//      was carried out before the term till then was over.
//   2. A seat that is held may be claimed when a look that *began* a term and a margin after the
//      end of an earlier look shows the same: no beat was carried out in between.
//   3. Of several that claim, at most one is told that it is done.
//   4. A beat is known as carried out only when it was, by the time before it was sent.
// Threads: one at a time, but Holds and until_ms: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "mdc/seat/arbitration_port.h"
#include "mdc/seat/peer_signs.h"
#include "mdc/seat/seat_times.h"
#include "proto/protocol.h"
#include "volume/base/env.h"

namespace reel::mdc {

struct SeatOptions {
  Uuid volume;
  Uuid holder = Uuid::Random();  // this process
  Uuid machine = ThisMachine();
  std::string host;     // for people
  std::string address;  // for clients
  std::uint32_t seat_ms = kDefaultSeatMs;
  ProtocolRange protocol = SpokenProtocol();
  std::string program{};     // this release, for people
  bool stands_back = false;  // its clients did not reach it: others come first, for a term more
  std::uint64_t claim_write_ms = ClaimWriteMs();  // less in tests only
};

// One look at the seat.
struct SeatLook {
  std::string bytes;  // of the block
  absl::StatusOr<ArbitrationBlock> block = absl::UnknownError("not looked at");
  // The seat LUN's reservation: 0 where there is none.
  std::uint64_t reserved_by = 0;
  Epoch last_reserved;  // the highest epoch of controllers that are registered there
  std::uint64_t began_ms = 0, ended_ms = 0;
};

// How a holder leaves the seat.
struct SeatFarewell {
  ArbitrationBlock::State state = ArbitrationBlock::State::kFree;
  bool stopped = false;  // nobody serves the volume before it is started again
  Uuid successor{};      // kOffered: the holder that it is offered to; nil: any
};

class SeatWatch {
 public:
  enum class Verdict {
    kHeld,     // or may be
    kExpired,  // its holder's term is over
    kFree,     // nobody holds it
  };
  explicit SeatWatch(const SeatOptions& options)
      : options_(options), stands_back_(options.stands_back) {}

  // Looks come in their order.
  Verdict Consider(const SeatLook& look);
  // Of the look that was considered last, and a holder that there are signs of being gone: since
  // when nothing has changed, where that is long enough to fence it before its term is over.
  std::optional<std::uint64_t> StandsStill(const SeatLook& look, const PeerSuspicion& holder) const;
  // Something changed between looks: somebody is alive there.
  bool SawChange() const { return changes_ > 0; }
  std::uint64_t changes() const { return changes_; }  // how often
  // As the options say, until another holder was seen to beat.
  bool stands_back() const { return stands_back_; }

 private:
  std::uint64_t TermMs(const SeatLook& look) const;
  bool IsOfferedToThis(const SeatLook& look) const;

  const SeatOptions options_;
  bool stands_back_;
  std::string bytes_;
  std::uint64_t reserved_by_ = 0;
  std::optional<std::uint64_t> unchanged_since_ms_;
  std::uint64_t changes_ = 0;
};

class Seat {
 public:
  // `port` and `clock` outlive it.
  Seat(ArbitrationPort& port, const Clock& clock, SeatOptions options)
      : port_(port), clock_(clock), options_(std::move(options)) {}

  // Takes a seat that SeatWatch found free or expired, where the seat LUN has no reservations: by
  // writing, and waiting for writes of others. ABORTED: somebody was faster, or all was too slow;
  // UNAVAILABLE: the LUN failed. `claimed` as in the block.
  absl::Status Claim(const SeatLook& look, Epoch epoch, bool claimed);
  // Writes down who has it, where the reservation already keeps all others from writing. Its term
  // is TakingMs, until it serves.
  absl::Status Enter(Epoch epoch, bool claimed);
  // The volume is served: from the next beat on, the term is that of the options.
  void SetServing() { block_.seat_ms = options_.seat_ms; }

  // What administrators want of the volume stays what the look says; a stopped one is started by
  // who takes its seat, unless `stays_stopped`. Before Claim or Enter.
  void Inherit(const SeatLook& look, bool stays_stopped = false);
  // From the next beat on.
  void SetMaintenance(bool on) { block_.maintenance = on; }
  bool maintenance() const { return block_.maintenance; }

  // A beat. kLost is for good; after all other failures it may be tried again, while it Holds.
  ArbitrationResult Renew();
  // It is held no longer from the beginning of this call on.
  ArbitrationResult GiveUp(const SeatFarewell& farewell);
  // The holder has got its machine's claim; the next beat says so.
  void SetClaimed() { block_.claimed = true; }
  bool claimed() const { return block_.claimed; }

  bool Holds(std::uint64_t now_ms) const { return now_ms < until_ms(); }
  std::uint64_t until_ms() const { return until_ms_.load(std::memory_order_acquire); }
  // When the last beat that was carried out was sent.
  std::uint64_t beaten_ms() const { return beaten_ms_.load(std::memory_order_acquire); }
  // What a standby is told. While a promise lasts the holder answers nobody without a recent beat;
  // none is made where beats take long. REQUIRES: all LUNs have reservations.
  PeerSaid Promise();
  bool MayAnswer(std::uint64_t now_ms) const {
    if (!Holds(now_ms)) return false;
    return now_ms >= promised_until_ms_.load(std::memory_order_seq_cst) ||
           now_ms < beaten_ms() + AnswerMs(options_.seat_ms);
  }
  Epoch epoch() const { return block_.epoch; }
  const SeatOptions& options() const { return options_; }

 private:
  void Begin(Epoch epoch, bool claimed, std::uint64_t term_ms);
  // Whether what lies there lets this holder write over it; `entering`: nothing of it does yet.
  ArbitrationResult MayWrite(bool entering = false);
  ArbitrationResult Lose(std::string why);

  ArbitrationPort& port_;
  const Clock& clock_;
  const SeatOptions options_;
  ArbitrationBlock block_;  // as it was written last, or was to be
  std::atomic<std::uint64_t> until_ms_{0}, beaten_ms_{0};
  std::atomic<std::uint64_t> beat_took_ms_{0};  // the last one that was carried out
  std::atomic<std::uint64_t> promised_until_ms_{0};
};

}  // namespace reel::mdc
