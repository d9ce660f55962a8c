#include "mdc/metafs/superblock.h"

#include <algorithm>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "volume/base/aligned_buffer.h"
#include "volume/base/check.h"
#include "volume/base/coding.h"

namespace reel::metafs {
namespace {

constexpr std::uint64_t kMagic = 0x5346'4154'454d'4c52;  // "RLMETAFS"
constexpr std::size_t kChecksumOffset = 12;
constexpr std::size_t kChecksumEnd = kChecksumOffset + 4;

// Of everything but the checksum itself.
std::uint32_t Checksum(std::span<const std::byte> slot) {
  return ExtendCrc32c(Crc32c(slot.first(kChecksumOffset)), slot.subspan(kChecksumEnd));
}

}  // namespace

std::uint64_t Superblock::size_bytes() const {
  std::uint64_t blocks = 0;
  for (const Region& region : regions) blocks += region.length_blocks;
  return blocks * block_bytes;
}

absl::Status ValidateSuperblock(const Superblock& s) {
  const auto bad = [](auto&&... what) {
    return absl::InvalidArgumentError(absl::StrCat("metadata superblock: ", what...));
  };
  if (!IsPowerOfTwo(s.block_bytes) || s.block_bytes < kMinBlockBytes ||
      s.block_bytes > kMaxBlockBytes) {
    return bad("block size ", s.block_bytes, " is not a power of two from 4 KiB to 1 MiB");
  }
  if (!IsPowerOfTwo(s.chunk_bytes) || s.chunk_bytes < kMinChunkBytes ||
      s.chunk_bytes > kMaxChunkBytes) {
    return bad("chunk size ", s.chunk_bytes, " is not a power of two from 64 KiB to 64 MiB");
  }
  if (s.regions.empty() || s.regions.size() > kMaxRegions) {
    return bad(s.regions.size(), " regions; there must be 1 to ", kMaxRegions);
  }
  if (s.regions[0].first_block.value() != 0)
    return bad("the first region does not begin at block 0");
  const std::uint64_t most_blocks = kMaxVolumeBytes / s.block_bytes;
  std::uint64_t blocks = 0;
  for (std::size_t i = 0; i < s.regions.size(); ++i) {
    const Region& region = s.regions[i];
    if (region.pool.value() >= kMaxPools || region.length_blocks == 0 ||
        region.first_block.value() > most_blocks || region.length_blocks > most_blocks - blocks) {
      return bad("region ", i, " is empty or out of bounds");
    }
    blocks += region.length_blocks;
    for (std::size_t j = 0; j < i; ++j) {
      const Region& other = s.regions[j];
      if (region.pool == other.pool &&
          region.first_block < other.first_block + other.length_blocks &&
          other.first_block < region.first_block + region.length_blocks) {
        return bad("regions ", j, " and ", i, " overlap");
      }
    }
  }
  if (s.journal.empty() || s.journal.size() > kMaxJournalRuns) {
    return bad(s.journal.size(), " journal runs; there must be 1 to ", kMaxJournalRuns);
  }
  for (const ChunkRun& run : s.journal) {
    if (run.count == 0 || run.first == 0 || run.first >= s.total_chunks() ||
        run.count > s.total_chunks() - run.first) {
      return bad("the journal at chunk ", run.first, " +", run.count, " lies out of the store");
    }
  }
  return absl::OkStatus();
}

std::string EncodeSuperblock(const Superblock& s) {
  std::string out;
  PutU64(out, kMagic);
  PutU32(out, kFormatVersion);
  PutU32(out, 0);
  PutU64(out, 0);  // incompatible features: none yet
  PutU64(out, s.generation);
  PutU64(out, s.epoch.value());
  PutU32(out, s.block_bytes);
  PutU32(out, s.chunk_bytes);
  PutU64(out, s.journal_id);
  PutU32(out, static_cast<std::uint32_t>(s.journal.size()));
  PutU32(out, static_cast<std::uint32_t>(s.regions.size()));
  for (const ChunkRun& run : s.journal) {
    PutU64(out, run.first);
    PutU64(out, run.count);
  }
  for (const Region& region : s.regions) {
    PutU32(out, region.pool.value());
    PutU64(out, region.first_block.value());
    PutU64(out, region.length_blocks);
  }
  REEL_CHECK(out.size() <= kSuperblockBytes, "the limits on runs and regions keep it in one slot");
  out.resize(kSuperblockBytes);
  StoreU32(out.data() + kChecksumOffset, Checksum(AsBytes(out)));
  return out;
}

absl::StatusOr<Superblock> DecodeSuperblock(std::span<const std::byte> bytes) {
  if (bytes.size() != kSuperblockBytes) {
    return absl::DataLossError("metadata superblock: wrong length");
  }
  ByteReader reader(bytes);
  if (reader.U64() != kMagic) return absl::NotFoundError("no metadata superblock (magic missing)");
  const std::uint32_t version = reader.U32();
  if (reader.U32() != Checksum(bytes)) {
    return absl::DataLossError("metadata superblock: checksum does not match");
  }
  if (version != kFormatVersion || reader.U64() != 0) {
    return absl::UnimplementedError(
        absl::StrCat("metadata superblock: format version ", version,
                     " or a feature of it is unknown; use a newer ReelFS"));
  }
  Superblock s;
  s.generation = reader.U64();
  s.epoch = Epoch(reader.U64());
  s.block_bytes = reader.U32();
  s.chunk_bytes = reader.U32();
  s.journal_id = reader.U64();
  const std::uint32_t journal_runs = reader.U32();
  const std::uint32_t regions = reader.U32();
  if (journal_runs > kMaxJournalRuns || regions > kMaxRegions) {
    return absl::DataLossError("metadata superblock: too many runs or regions");
  }
  for (std::uint32_t i = 0; i < journal_runs; ++i) {
    const std::uint64_t first = reader.U64();
    s.journal.push_back({first, reader.U64()});
  }
  for (std::uint32_t i = 0; i < regions; ++i) {
    const PoolId pool(reader.U32());
    const PoolBlock first(reader.U64());
    s.regions.push_back({pool, first, reader.U64()});
  }
  if (!reader.ok()) return absl::DataLossError("metadata superblock: cut short");
  if (absl::Status valid = ValidateSuperblock(s); !valid.ok()) {
    return absl::DataLossError(valid.message());
  }
  return s;
}

absl::StatusOr<SuperblockReading> ReadSuperblock(Space& space) {
  SuperblockReading reading;
  bool found = false;
  AlignedBuffer buffer(kSuperblockBytes);
  for (int slot = 0; slot < 2; ++slot) {
    reading.slots[slot] = space.Read(kSuperblockOffsets[slot], buffer.span());
    if (!reading.slots[slot].ok()) continue;
    absl::StatusOr<Superblock> decoded = DecodeSuperblock(buffer.span());
    reading.slots[slot] = decoded.status();
    if (!decoded.ok()) continue;
    const auto rank = [](const Superblock& s) { return std::pair(s.epoch, s.generation); };
    if (!found || rank(*decoded) > rank(reading.superblock)) {
      reading.superblock = *std::move(decoded);
      reading.slot = slot;
      found = true;
    }
  }
  if (found) return reading;
  if (absl::IsNotFound(reading.slots[0]) && absl::IsNotFound(reading.slots[1])) {
    return absl::NotFoundError("no metadata store is there; make one with mkfs.reelfs");
  }
  // Which error is worth telling: the one that is not just a missing magic.
  const absl::Status& worst = reading.slots[absl::IsNotFound(reading.slots[0]) ? 1 : 0];
  if (absl::IsDataLoss(worst)) {
    return absl::DataLossError("both metadata superblock slots are damaged; run fsck.reelfs");
  }
  return worst;
}

absl::Status WriteSuperblock(Space& space, const Superblock& superblock, int first_slot) {
  const std::string encoded = EncodeSuperblock(superblock);
  AlignedBuffer buffer(kSuperblockBytes);
  std::memcpy(buffer.data(), encoded.data(), encoded.size());
  for (const int slot : {first_slot, 1 - first_slot}) {
    if (absl::Status s = space.Write(kSuperblockOffsets[slot], buffer.span()); !s.ok()) return s;
    if (absl::Status s = space.Flush(); !s.ok()) return s;
  }
  return absl::OkStatus();
}

}  // namespace reel::metafs
