// What a target says of a LUN before the LUN is used: its size, its limits, and which LUN it is.
//
// Only a target that *knows no* such page or command lacks what it would have said. One that cannot
// answer just now fails the whole question: a LUN that was opened without its identity would be
// taken for another one when its next connection tells it, and one without its reservations would
// be used without a fence.
// Sources: SPC-4 (INQUIRY, VPD pages 00h, 80h, 83h), SBC-3 (READ CAPACITY (16), VPD page B0h).
// Threads: pure, but for what `ask` does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "volume/scsi/scsi.h"
#include "volume/scsi/scsi_outcome.h"

namespace reel {

struct IscsiFacts {
  std::uint64_t size_bytes = 0;
  std::uint32_t logical_block_bytes = 0;
  std::uint32_t optimal_io_bytes = 0;    // 0: it has none to tell
  std::uint32_t max_transfer_bytes = 0;  // of one command
  bool reservations = false;
  std::string identity;  // the same on every path; empty when it has none to tell
};

// Sends a command that reads up to the buffer's size, and waits for what becomes of it.
using ScsiQuestion = absl::FunctionRef<ScsiOutcome(const scsi::Cdb& cdb, std::span<std::byte>)>;

// `lun`: its number at the target, for messages. Errors: NOT_FOUND (no disk), INVALID_ARGUMENT (its
// blocks cannot be used), else what FailureOf says of the command that failed.
absl::StatusOr<IscsiFacts> AskForFacts(std::uint32_t lun, ScsiQuestion ask);

}  // namespace reel
