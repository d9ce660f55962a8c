// Where the metadata store's bytes lie: a flat address space over regions of metadata pools.
//
// A seam: the MDC and the tools implement it over a volume's LUNs (pool_space.h), tests over one
// faulty LUN. Invariants:
//   1. The address space is the concatenation of the regions, in order; a region, once part of a
//   store,
//      never leaves it, so an address never changes its meaning.
//   2. A new Space covers at least the first kHeadBytes of the first region, which begins at block
//   0 of
//      the first metadata pool: enough to find the superblock, which names all regions.
//   3. A write is durable only after a Flush that began after its completion. A write may be torn
//      between units of 512 bytes, never inside one.
// Threads: Read, Write and Flush may be called concurrently, with SetRegions too.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "volume/base/types.h"

namespace reel::metafs {

// Offsets, lengths and memory of all I/O are multiples of it.
inline constexpr std::uint64_t kSpaceUnitBytes = 4096;
// The part of the first region that the superblock's slots lie in.
inline constexpr std::uint64_t kHeadBytes = 64 * kKiB;

// A run of blocks of a metadata pool that belongs to the store.
struct Region {
  PoolId pool;
  PoolBlock first_block;
  std::uint64_t length_blocks = 0;
  friend bool operator==(const Region&, const Region&) = default;
};

class Space {
 public:
  virtual ~Space() = default;

  virtual std::uint32_t block_bytes() const = 0;
  virtual std::uint64_t size_bytes() const = 0;
  // OUT_OF_RANGE when a region does not lie within its pool; the space is then as it was.
  virtual absl::Status SetRegions(const std::vector<Region>& regions) = 0;

  // Blocking I/O. OUT_OF_RANGE beyond size_bytes(); otherwise the LUN's own error.
  virtual absl::Status Read(std::uint64_t offset_bytes, std::span<std::byte> to) = 0;
  virtual absl::Status Write(std::uint64_t offset_bytes, std::span<const std::byte> from) = 0;
  virtual absl::Status Flush() = 0;
};

}  // namespace reel::metafs
