// What the seat's logic sees of the world: one block on the seat LUN, and time. A seam: a LUN path
// of its own in the daemon (mdc/seat/seat_lun.h), made-up ones in tests.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "volume/format/arbitration_block.h"

namespace reel::mdc {

// What became of a change to the arbitration block. Unknown is never success.
enum class ArbitrationOutcome {
  kDone,
  kNotDone,  // certainly not; nothing of it will happen later
  kUnknown,  // it may have happened, or still happen
  kLost,     // and never will: the seat is another's, or this one's term is over
};

struct ArbitrationResult {
  ArbitrationOutcome outcome = ArbitrationOutcome::kUnknown;
  absl::Status status;  // OK when done; else why

  bool done() const { return outcome == ArbitrationOutcome::kDone; }
};

// Threads: one at a time.
class ArbitrationPort {
 public:
  virtual ~ArbitrationPort() = default;
  // The block's bytes, kArbitrationBytes of them. FAILED_PRECONDITION: the LUN belongs to another
  // volume by now, whose block it is.
  virtual absl::StatusOr<std::string> Read() = 0;
  // kLost: refused, since this host was fenced.
  virtual ArbitrationResult Write(const ArbitrationBlock& block) = 0;
  virtual void Wait(std::uint64_t ms) = 0;
};

}  // namespace reel::mdc
