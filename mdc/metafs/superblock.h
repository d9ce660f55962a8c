// The root of a metadata store: where it lies and which journal tells its files.
//
// Two slots in the head of the first region hold the same superblock; a change writes and flushes
// one, then the other. The valid slot with the highest (epoch, generation) rules. Because both hold
// every acknowledged superblock, damage to one is mended from the other, and a late write of an
// epoch that is over can spoil one slot at most. Byte layout: docs/format.md. Threads: plain
// values.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mdc/metafs/chunks.h"
#include "mdc/metafs/space.h"
#include "volume/base/types.h"

namespace reel::metafs {

inline constexpr std::uint64_t kSuperblockBytes = 4096;
inline constexpr std::uint64_t kSuperblockOffsets[2] = {0, 32 * kKiB};
inline constexpr std::uint32_t kFormatVersion = 1;

inline constexpr std::uint64_t kMinChunkBytes = kHeadBytes;
inline constexpr std::uint64_t kMaxChunkBytes = 64 * kMiB;
inline constexpr std::uint32_t kMaxRegions = 64;
inline constexpr std::uint32_t kMaxJournalRuns = 64;

struct Superblock {
  std::uint64_t generation = 0;
  Epoch epoch;
  std::uint32_t block_bytes = 0;
  std::uint32_t chunk_bytes = 0;
  std::uint64_t journal_id = 0;   // file id of the journal's frames
  std::vector<ChunkRun> journal;  // where its frames lie
  std::vector<Region> regions;

  std::uint64_t size_bytes() const;  // of all regions
  std::uint64_t total_chunks() const { return size_bytes() / chunk_bytes; }
  friend bool operator==(const Superblock&, const Superblock&) = default;
};

// Every bound and overlap of what stands in one superblock. INVALID_ARGUMENT says what is wrong.
absl::Status ValidateSuperblock(const Superblock& superblock);

// Exactly kSuperblockBytes. REQUIRES: valid.
std::string EncodeSuperblock(const Superblock& superblock);
// Decodes and validates; safe on any bytes. NOT_FOUND: no magic. DATA_LOSS: damaged. UNIMPLEMENTED:
// of a newer format.
absl::StatusOr<Superblock> DecodeSuperblock(std::span<const std::byte> bytes);

struct SuperblockReading {
  Superblock superblock;
  int slot = 0;                       // the one that it was read from
  std::array<absl::Status, 2> slots;  // how each was found
};
// NOT_FOUND: neither slot has a magic. DATA_LOSS: no slot is valid.
absl::StatusOr<SuperblockReading> ReadSuperblock(Space& space);
// Writes both slots, `first_slot` before the other, each with a flush. Any error leaves it unknown
// which superblock rules.
absl::Status WriteSuperblock(Space& space, const Superblock& superblock, int first_slot);

}  // namespace reel::metafs
