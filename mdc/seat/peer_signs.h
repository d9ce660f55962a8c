// What a standby has heard of the controller that serves a volume, over the LAN, and what that is a
// sign of.
//
// A sign alone never takes a seat: it says for how long the arbitration block has to have stood
// still before the holder may be fenced within its term (SeatWatch::StandsStill). A controller of
// which nothing was ever heard promises nothing, and its term is waited for. Threads: one at a
// time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "volume/base/types.h"
#include "volume/base/uuid.h"

namespace reel::mdc {

// A controller that serves a volume whose LUNs all have reservations promises, for a while, to
// answer nobody when its last beat that was carried out was sent more than `answer_ms` ago.
struct PeerPromise {
  Uuid holder{};
  Epoch epoch{};
  std::uint64_t answer_ms = 0;  // 0: it promises nothing more than it has
  std::uint64_t beat_ms = 0;    // how often it beats
  std::uint64_t for_ms = 0;     // from the answer on
  std::uint64_t until_ms = 0;   // at the least, by the clock of who asked
};

struct PeerSaid {
  PeerPromise promise{};  // an epoch of 0: it does not serve the volume
  std::uint64_t beat_age_ms = 0;
};

// Why there is no answer.
enum class PeerFailure {
  kBroken,   // nobody is there: the process has gone, or the way to it
  kSilent,   // none came in time
  kRefused,  // it is there, and says nothing (an older release)
};

struct PeerAnswer {
  std::optional<PeerSaid> said{};
  PeerFailure failure = PeerFailure::kRefused;  // where nothing was said
};

// How controllers reach each other. A seam: gRPC in the daemon. Threads: one at a time.
class PeerPort {
 public:
  virtual ~PeerPort() = default;
  // Asks the controller at `address` about a volume, by its name; waits `wait_ms` at most.
  virtual PeerAnswer Ask(const std::string& address, const std::string& volume,
                         std::uint64_t wait_ms) = 0;
};

struct PeerSuspicion {
  PeerPromise promise;
  std::uint64_t still_ms = 0;  // for so long the block has to have stood still
};

class PeerSigns {
 public:
  // The answer to a question that was sent at `asked_ms`.
  void Note(const PeerAnswer& answer, std::uint64_t asked_ms);
  // Its promise, while there is one.
  const std::optional<PeerPromise>& promise() const { return promise_; }
  // None: it is well, or nothing is known of it.
  std::optional<PeerSuspicion> Suspicion() const;

 private:
  enum class Sign { kWell, kGone, kSilent, kStuck };
  std::optional<PeerPromise> promise_;
  Sign sign_ = Sign::kWell;
};

}  // namespace reel::mdc
