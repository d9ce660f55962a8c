// The stripe set that LUNs make: where a pool's blocks begin on each of them, and how many rows
// they give. Of new LUNs, and of the rest of LUNs that have grown.
//
// Rules (docs/format.md, docs/operations.md):
//   1. Each LUN's data begin at a multiple of the pool's stripe breadth and of the LUN's optimal
//      I/O size.
//   2. All LUNs of a stripe set give the same number of rows: the smallest counts.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "volume/base/types.h"
#include "volume/base/uuid.h"
#include "volume/format/descriptor.h"

namespace reel {

// Smaller ones hold nothing worth a pool.
inline constexpr std::uint64_t kMinLunBytes = 32 * kMiB;
// Devices that ask for more (or for what is no multiple of 4 KiB) mean something else by it.
inline constexpr std::uint64_t kMaxOptimalIoBytes = 64 * kMiB;

struct LunFacts {
  Uuid uuid;
  std::string name;
  std::string path;  // for messages and tables
  std::uint64_t size_bytes = 0;
  std::uint32_t logical_block_bytes = 0;
  std::uint32_t optimal_io_bytes = 0;
};
LunFacts FactsOf(const Lun& lun, const Uuid& uuid, std::string name);

struct NewSet {
  StripeSet set;
  // By LUN: whole stripe units that a smaller LUN of the set makes useless.
  std::vector<std::uint64_t> unequal_units;
};
// INVALID_ARGUMENT says which LUN is too small, or has too large logical blocks.
absl::StatusOr<NewSet> MakeSet(const std::vector<LunFacts>& luns, std::uint64_t breadth_bytes,
                               std::uint64_t block_bytes);

// Where all that the pool has of the LUN ends on it, in bytes; 0: it has nothing.
std::uint64_t EndOn(const Pool& pool, const Uuid& lun, std::uint64_t block_bytes);

// What the LUNs of one of the pool's sets (`last`) hold beyond all that the pool has of them, as a
// further set of the same LUNs. `luns` as they are now, in the set's order. FAILED_PRECONDITION:
// there is no row of it.
absl::StatusOr<StripeSet> MakeSetOfRest(const Pool& pool, const StripeSet& last,
                                        const std::vector<LunFacts>& luns,
                                        std::uint64_t block_bytes);

}  // namespace reel
