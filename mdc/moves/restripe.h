// Restriping: the sets of a pool become other ones on the LUNs that it has, slice by slice: with
// another stripe breadth, or without a LUN, or not at all.
//
//   choose a slice: the first rows of a set that is to be another ─closed─► empty it (moves)
//     ▲                                                                        │ all of it is free
//     └── its rows are at the end of the pool, as they are to be ◄─ the map changes ─┘
// The blocks of a slice leave the pool's addresses for good (a gap), and its bytes come back under
// new ones. So two maps of a volume never differ in where a block lies that both have. A LUN that
// is in no set any more is none of the volume's.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "mdc/base/ids.h"
#include "mdc/space/allocator.h"
#include "proto/records.pb.h"
#include "volume/format/descriptor.h"

namespace reel::mdc {

// A LUN that takes another one's place. It is in the map from the first slice on.
struct Replacement {
  std::string name;    // that it is to have
  std::string path;    // by which it is found before
  bool force = false;  // it may hold something
  Uuid lun{};          // nil: it has not been found yet
};

// What the sets of a pool are to be.
struct Striping {
  std::uint32_t breadth_blocks = 0;      // 0: each set's own
  std::string without_lun{};             // its name; empty: each set keeps its LUNs
  std::optional<Replacement> instead{};  // in its place, at the same bytes
  bool nothing = false;                  // gaps: the pool is removed
};
Striping StripingOf(const v1::JobRecord& job);

// A slice that is empty: it is to be the end of its pool, so striped.
struct RestripeOrder {
  JobId job;
  Run slice;
  Striping to;
};

// INVALID_ARGUMENT, FAILED_PRECONDITION: why a pool cannot have that breadth.
absl::Status CheckBreadth(const VolumeDescriptor& descriptor, PoolId pool,
                          std::uint64_t breadth_bytes);
// Nil: the volume has no LUN of that name.
Uuid LunNamed(const VolumeDescriptor& descriptor, const std::string& name);
// The pool that the LUN can be taken out of; with `replaced`, another one comes in its place.
// NOT_FOUND: there is no such LUN. FAILED_PRECONDITION: why the volume needs it.
absl::StatusOr<PoolId> PoolWithout(const VolumeDescriptor& descriptor, const std::string& lun,
                                   bool replaced = false);
// FAILED_PRECONDITION: why the volume needs the pool.
absl::Status CheckRemoval(const VolumeDescriptor& descriptor, PoolId pool);

// The next slice: as large as there is room in the pool for what it holds; where the pool goes, a
// set. nullopt: the pool is so everywhere. RESOURCE_EXHAUSTED: there is too little room, and how
// much is needed.
absl::StatusOr<std::optional<Run>> NextSlice(const VolumeDescriptor& descriptor, PoolId pool,
                                             const Striping& to, const Allocator& allocator);

// The next generation of the map. REQUIRES: the LUN that takes a place has been found.
// FAILED_PRECONDITION: the slice is not the first rows of a set.
absl::StatusOr<VolumeDescriptor> Restriped(const VolumeDescriptor& before,
                                           const RestripeOrder& order);

}  // namespace reel::mdc
