// The volume descriptor: pools, their LUNs and geometry. The same text on every LUN; the seat LUN's
// highest valid generation rules.
//
// Two alternating slots on each LUN, each framed with magic, version, generation, length and CRC32C
// (docs/format.md). A change writes new labels, syncs, writes the seat LUN's older slot, syncs, and
// only then the other LUNs, so that a crash leaves either the old volume or the new one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "volume/base/types.h"
#include "volume/base/uuid.h"
#include "volume/lun/lun.h"

namespace reel {

struct LunEntry {
  Uuid lun;
  std::string name;
  std::uint64_t data_start_bytes = 0;  // where the pool's blocks begin on this LUN, >= 1 MiB
  friend bool operator==(const LunEntry&, const LunEntry&) = default;
};

// A stripe set: LUNs of which each gives the same number of rows. A pool is a concatenation of
// sets, in order, so adding one never changes an address. A set without LUNs is a *gap*: blocks
// that there were once, and whose addresses are never used again.
struct StripeSet {
  std::vector<LunEntry> luns;
  // Stripe units on each LUN: blocks = rows × breadth × luns. Of a gap: its blocks.
  std::uint64_t rows = 0;
  std::uint32_t breadth_blocks = 0;  // 0: the pool's
  bool is_gap() const { return luns.empty(); }
  friend bool operator==(const StripeSet&, const StripeSet&) = default;
};

struct Pool {
  enum Flags : std::uint32_t {
    kMetadata = 1,   // the metadata store may take space here
    kData = 2,       // file data may be allocated here
    kExclusive = 4,  // only files with one of the pool's affinities are allocated here
  };
  std::string name;
  std::uint32_t flags = 0;
  std::uint32_t breadth_blocks = 0;  // stripe breadth: blocks on one LUN before the next; of sets
                                     // that have none of their own, and of those that come
  std::vector<std::string> affinities;
  std::vector<StripeSet> sets;

  std::uint32_t BreadthOf(const StripeSet& set) const {
    return set.breadth_blocks == 0 ? breadth_blocks : set.breadth_blocks;
  }
  std::uint64_t BlocksOf(const StripeSet& set) const {
    return set.is_gap() ? set.rows : set.rows * BreadthOf(set) * set.luns.size();
  }
  // A pool of gaps: it has no LUNs any more. Its place, and so the numbers of those behind it,
  // stays, until a pool of its name is added. It is for data, exclusively, and has no affinity.
  bool is_removed() const { return std::ranges::all_of(sets, &StripeSet::is_gap); }
  // One more than the highest address: the sum over the sets, gaps too; <= 2^48.
  std::uint64_t size_blocks() const;
  // What it holds: the sum over the sets without gaps.
  std::uint64_t capacity_blocks() const;
  friend bool operator==(const Pool&, const Pool&) = default;
};

enum class AllocationStrategy : std::uint8_t { kRound = 0, kFill = 1, kBalance = 2 };

struct VolumeDescriptor {
  Uuid volume;
  std::string name;              // as in mount -t reelfs NAME DIR; the rule of LUN names
  std::uint64_t generation = 0;  // the map generation that layouts carry
  std::uint32_t block_bytes = 0;
  AllocationStrategy strategy = AllocationStrategy::kRound;
  std::uint64_t created_seconds = 0;  // since the Unix epoch
  Uuid seat_lun;                      // the LUN that holds the arbitration block and rules
  std::uint64_t compat = 0, ro_compat = 0, incompat = 0;
  std::vector<Pool> pools;  // PoolId is the index

  friend bool operator==(const VolumeDescriptor&, const VolumeDescriptor&) = default;
};

// Features that this program knows. An unknown compat bit means nothing to it, an unknown ro_compat
// bit forbids writing, an unknown incompat bit forbids opening.
inline constexpr std::uint64_t kKnownRoCompat = 0;
inline constexpr std::uint64_t kKnownIncompat = 1;
// Sets have a breadth of their own each, and there may be gaps.
inline constexpr std::uint64_t kIncompatSets = 1;

// True when this program may read the volume but must not write it.
inline bool MustStayReadOnly(const VolumeDescriptor& descriptor) {
  return (descriptor.ro_compat & ~kKnownRoCompat) != 0;
}

// Checks every bound and cross-reference (types.h; unique names and UUIDs; the seat is one of the
// LUNs; at least one metadata and one data pool; no overflow). A LUN may stand in several sets of
// its pool, with other bytes in each. INVALID_ARGUMENT says what is wrong.
absl::Status ValidateDescriptor(const VolumeDescriptor& descriptor);

// The framed slot. REQUIRES: valid. INVALID_ARGUMENT when it exceeds kDescriptorSlotBytes.
absl::StatusOr<std::string> EncodeDescriptor(const VolumeDescriptor& descriptor);
// Decodes and validates. NOT_FOUND, DATA_LOSS, UNIMPLEMENTED (unknown incompat bit or version) as
// for labels. Safe on any bytes.
absl::StatusOr<VolumeDescriptor> DecodeDescriptor(std::span<const std::byte> bytes);

struct DescriptorReading {
  VolumeDescriptor descriptor;
  absl::Status slots[2];  // how each slot was found
};
// The valid slot with the highest generation on this LUN. NOT_FOUND when there is none and no trace
// of one, DATA_LOSS when there is only a damaged one, UNIMPLEMENTED, or the LUN's own I/O error.
absl::StatusOr<DescriptorReading> ReadDescriptor(Lun& lun);
// Writes the slot that does not hold the highest valid generation, then flushes; then clears a slot
// left by another volume. `may_write` is asked before each write, and ends it with its error.
// FAILED_PRECONDITION when the LUN holds a later generation of this volume.
absl::Status WriteDescriptor(Lun& lun, const VolumeDescriptor& descriptor,
                             const std::function<absl::Status()>& may_write = {});

}  // namespace reel
