// From a seat that may be taken to a volume that is served: the whole sequence, in order.
//
//   fence   the old controller's key off the seat LUN, by compare-and-swap: of several, one wins
//   claim   the new epoch, in the arbitration block; from here on it is kept by beats
//   fence   the old controller on all other LUNs; what it had sent is over
//   recover metafs, then RocksDB: what was durable
//   load    what the core keeps in memory; sessions of the old epoch wait to be claimed again
//   serve
//
// A holder that may still be within its term is taken for gone only on LUNs with reservations
// (EarlyClaim), and nothing is recovered before it answers nobody any more.
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"
#include "mdc/fence/fencer.h"
#include "mdc/seat/held_seat.h"
#include "mdc/seat/seat_times.h"
#include "mdc/serve/volume_server.h"
#include "volume/format/lun_scan.h"

namespace reel::mdc {

// The holder's term is not known to be over; it has promised to answer nobody without a beat.
struct EarlyClaim {
  std::uint64_t answer_ms = 0;           // as PeerPromise
  std::uint64_t promised_until_ms = 0;   // likewise
  std::uint64_t unchanged_since_ms = 0;  // the end of a look that showed its last beat
  std::uint64_t term_ms = 0;             // what it answers by where its promise has run out
  // Whether the promise lasts to the end of a term that began then at the latest.
  bool PromiseCovers(std::uint64_t beaten_ms) const {
    return beaten_ms + ClaimAfterMs(term_ms) <= promised_until_ms;
  }
};

// What a candidate brings: what it has open, and what it saw last.
struct Contest {
  std::unique_ptr<OpenVolume> volume;
  std::unique_ptr<SeatLun> lun;
  SeatLook look;
  bool claimed = false;  // it has its machine's claim of the seat LUN
  std::optional<EarlyClaim> early{};
};

struct Takeover {
  std::unique_ptr<VolumeServer> server{};
  absl::Status status{};  // OK when there is one; else why not
  // The seat was won, and then given up again as this process cannot serve. Else the contest is as
  // it was before, and may be taken part in again.
  bool won = false;
};

// The epoch in which a volume's metadata store was last written. DATA_LOSS, NOT_FOUND: it does not
// say.
absl::StatusOr<Epoch> WrittenEpoch(OpenVolume& volume);
// Later than every epoch that left a trace: in the store, the block, the reservations.
Epoch NextEpoch(const Contest& contest, Epoch written);

// What the first two steps bring: a seat that is kept from now on.
struct WonSeat {
  std::unique_ptr<Fencer> fencer;  // of the contest's volume
  std::unique_ptr<HeldSeat> seat;
  std::uint64_t quarantine_ms = 0;
  std::uint64_t answers_over_ms = 0;  // the time when the old holder answers nobody any more
};
// Fences the old holder on the seat LUN, and claims. After an error the contest is as it was.
absl::StatusOr<WonSeat> WinSeat(Contest& contest, Epoch epoch, const SeatOptions& seat,
                                HeldSeat::Events events, const Clock& clock,
                                bool stays_stopped = false);

Takeover TakeOver(Contest& contest, const VolumeServerOptions& options, const SeatOptions& seat,
                  const Clock& clock);

}  // namespace reel::mdc
