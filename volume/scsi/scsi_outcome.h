// What became of a SCSI command, and what that says of the request that it was sent for. Pure.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"

namespace reel {

struct ScsiOutcome {
  enum class Kind {
    kDone,
    kCheck,     // CHECK CONDITION that is final: `key` and `code`; not executed, or not whole
    kConflict,  // RESERVATION CONFLICT: not executed
    kAborted,   // TASK ABORTED, or a CHECK CONDITION that says so: over, perhaps done in part
    kBusy,      // not executed: the target could not for all of the command's patience
    kUnknown,   // the connection was lost with it
    kClosed,    // never sent: the connection was lost before
  };
  Kind kind = Kind::kClosed;
  bool sense = false;      // there was a CHECK CONDITION: `key` and `code` are its
  std::uint8_t key = 0;    // sense key
  std::uint16_t code = 0;  // additional sense code and qualifier
  std::uint64_t transferred_bytes = 0;
  std::string text;  // why the connection was lost
};

// The outcome of a command that ended with CHECK CONDITION and these sense data (scsi::VerdictOf).
// True: not executed, and worth sending again at once.
bool TakeSense(std::uint8_t key, std::uint16_t code, bool deferred, ScsiOutcome& outcome);

// True: the target knows no such command. Nothing else says what a LUN can or cannot do.
bool IsUnsupported(const ScsiOutcome& outcome);

// With the word of the fault (volume/lun/lun_fault.h). REQUIRES: not done as asked.
absl::Status FailureOf(const ScsiOutcome& outcome);

// Of a LUN that could not be asked whether it has reservations, and is therefore not opened: taken
// for one without, it would be used without a fence. `failure` names it.
absl::Status ReservationsNotKnown(const absl::Status& failure);

}  // namespace reel
