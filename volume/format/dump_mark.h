// The mark of a dump of the metadata (docs/backup.md), on each LUN of a data pool: which dumps name
// no block that was given to another file since. A dump is restored only where every mark names it.
//
// Two slots of 4 KiB at kDumpMarkOffsets, each with magic, version and CRC32C (docs/format.md). A
// change writes the slot that does not rule, flushes, and then the other one: once it is done, no
// slot says what was so before. The highest (epoch, generation) rules, so what a controller of an
// earlier epoch writes late changes nothing. Thread rule: plain values; the functions wait for the
// LUN.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "volume/base/types.h"
#include "volume/base/uuid.h"
#include "volume/lun/lun.h"

namespace reel {

inline constexpr std::uint64_t kDumpMarkBytes = 4096;
inline constexpr std::uint64_t kDumpMarkOffsets[2] = {16 * 1024, 32 * 1024};
inline constexpr std::size_t kMaxMarkedDumps = 2;  // the one that is kept, and the one being taken

struct DumpMark {
  Uuid volume;
  Epoch epoch;                   // of the controller or tool that wrote it
  std::uint64_t generation = 0;  // within the epoch
  std::vector<Uuid> dumps;       // at most kMaxMarkedDumps; none: void

  bool Names(const Uuid& dump) const;
  friend bool operator==(const DumpMark&, const DumpMark&) = default;
};

// Exactly kDumpMarkBytes. REQUIRES: no more dumps than there is room for.
std::string EncodeDumpMark(const DumpMark& mark);
// NOT_FOUND: none is there. DATA_LOSS: damaged. UNIMPLEMENTED: of a newer format. Safe on any
// bytes.
absl::StatusOr<DumpMark> DecodeDumpMark(std::span<const std::byte> bytes);

// The one that rules on this LUN, of that volume. NOT_FOUND: there is none, or only another
// volume's. DATA_LOSS: only a damaged one; else the LUN's own error.
absl::StatusOr<DumpMark> ReadDumpMark(Lun& lun, const Uuid& volume);
// Writes both slots, durably. `may_write` is asked before each write. ABORTED: a later epoch has
// written one. After any other error either mark may rule.
absl::Status WriteDumpMark(Lun& lun, const DumpMark& mark,
                           const std::function<absl::Status()>& may_write);

}  // namespace reel
