#include "mdc/metafs/journal_reader.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "mdc/metafs/frame.h"
#include "mdc/metafs/framed_log.h"
#include "volume/base/aligned_buffer.h"
#include "volume/base/coding.h"

namespace reel::metafs {
namespace {

// What a repair skips of file numbers that the damaged part of a journal may have given out.
constexpr std::uint64_t kNumbersSkipped = 1 << 20;

LogSource JournalSource(Space& space, const Superblock& superblock) {
  return [&](std::uint64_t offset, std::span<std::byte> to) {
    const std::uint64_t chunk_bytes = superblock.chunk_bytes;
    for (const ChunkRun& run : superblock.journal) {
      const std::uint64_t run_bytes = run.count * chunk_bytes;
      if (to.empty()) break;
      if (offset >= run_bytes) {
        offset -= run_bytes;
        continue;
      }
      const std::uint64_t part = std::min<std::uint64_t>(to.size(), run_bytes - offset);
      absl::Status s = space.Read(run.first * chunk_bytes + offset, to.first(part));
      if (!s.ok()) return s;
      to = to.subspan(part);
      offset = 0;
    }
    return absl::OkStatus();
  };
}

}  // namespace

absl::StatusOr<JournalState> ReadJournal(Space& space, const Superblock& superblock) {
  const LogSource source = JournalSource(space, superblock);
  const LogId id{superblock.journal_id, superblock.epoch};
  const absl::StatusOr<LogEnd> end =
      ScanLog(source, CountChunks(superblock.journal) * superblock.chunk_bytes, id);
  if (!end.ok()) return end.status();
  // The superblock was written after the first write, the checkpoint, was durable.
  if (end->frames == 0) return absl::DataLossError("the metadata journal's checkpoint is missing");
  std::string stream;
  const absl::Status s = LogReader(source, id, *end).Read(end->stream_bytes, stream);
  if (!s.ok()) return s;
  return ReplayJournal(AsBytes(stream));
}

absl::StatusOr<JournalState> ReadDamagedJournal(Space& space, const Superblock& superblock) {
  const absl::StatusOr<std::vector<std::string>> writes = SalvageWrites(
      JournalSource(space, superblock), CountChunks(superblock.journal) * superblock.chunk_bytes,
      {superblock.journal_id, superblock.epoch});
  if (!writes.ok()) return writes.status();
  JournalState state = metafs::SalvageJournal(*writes);
  state.next_id = std::max(state.next_id, superblock.journal_id) + kNumbersSkipped;
  std::erase_if(state.claims, [&](const ChunkRun& run) {
    const std::uint64_t total = superblock.total_chunks();
    return run.first >= total || run.count > total - run.first;
  });
  return state;
}

namespace {

constexpr std::uint64_t kSearchBytes = 1 * kMiB;
// The superblock's record has its place in so much of a journal, frames and all.
constexpr std::uint64_t kRecordBytes = 4 * kSpaceUnitBytes;
static_assert(kRecordBytes / kFrameBytes * kFramePayloadBytes > kSuperblockBytes + 16);
static_assert(kRecordBytes <= kMinChunkBytes);

// The superblock that a journal which begins with `bytes` says first.
std::optional<Superblock> FirstWord(std::span<const std::byte> bytes) {
  std::string stream;
  FrameHeader first;
  for (std::size_t at = 0; at < bytes.size(); at += kFrameBytes) {
    FrameHeader header;
    const auto frame = bytes.subspan(at, kFrameBytes);
    if (DecodeFrame(frame, header) != FrameState::kFrame || header.sequence != at / kFrameBytes)
      break;
    if (at == 0) first = header;
    if (header.file_id != first.file_id || header.epoch != first.epoch) break;
    stream += AsText(frame.subspan(kFrameHeaderBytes, header.length_bytes));
  }
  auto superblock = LeadingSuperblock(AsBytes(stream));
  if (!superblock.ok() || superblock->journal_id != first.file_id ||
      superblock->epoch != first.epoch) {
    return std::nullopt;
  }
  return *std::move(superblock);
}

// The block at which the journal begins, in its pool.
std::optional<Region> JournalStart(const Superblock& superblock) {
  std::uint64_t offset = superblock.journal[0].first * superblock.chunk_bytes;
  for (const Region& region : superblock.regions) {
    const std::uint64_t bytes = region.length_blocks * superblock.block_bytes;
    if (offset < bytes) {
      return Region{region.pool, region.first_block + offset / superblock.block_bytes, 1};
    }
    offset -= bytes;
  }
  return std::nullopt;
}

// Appends the superblocks of all journals that begin in one pool. The space has that pool alone.
absl::Status Search(Space& space, const Region& pool, PoolId first_pool,
                    std::vector<Superblock>& found) {
  AlignedBuffer buffer(kSearchBytes), record(kRecordBytes);
  for (std::uint64_t at = 0; at < space.size_bytes(); at += kSearchBytes) {
    const auto bytes = buffer.span().first(std::min(kSearchBytes, space.size_bytes() - at));
    if (absl::Status s = space.Read(at, bytes); !s.ok()) return s;
    for (std::uint64_t in = 0; in < bytes.size(); in += kSpaceUnitBytes) {
      FrameHeader header;
      if (DecodeFrame(bytes.subspan(in, kFrameBytes), header) != FrameState::kFrame ||
          header.sequence != 0) {
        continue;
      }
      const auto start = record.span().first(std::min(kRecordBytes, space.size_bytes() - at - in));
      if (absl::Status s = space.Read(at + in, start); !s.ok()) return s;
      std::optional<Superblock> superblock = FirstWord(start);
      if (!superblock || superblock->block_bytes != space.block_bytes()) continue;
      // A copy of a journal at another place is none.
      const Region here{pool.pool, pool.first_block + (at + in) / space.block_bytes(), 1};
      if (superblock->regions[0].pool != first_pool || JournalStart(*superblock) != here) continue;
      found.push_back(*std::move(superblock));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Superblock> FindSuperblock(Space& space, const std::vector<Region>& pools) {
  std::vector<Superblock> found;
  for (const Region& pool : pools) {
    absl::Status s = space.SetRegions({pool});
    if (s.ok()) s = Search(space, pool, pools[0].pool, found);
    if (!s.ok()) return s;
  }
  std::sort(found.begin(), found.end(), [](const Superblock& a, const Superblock& b) {
    return std::pair(a.epoch, a.generation) > std::pair(b.epoch, b.generation);
  });
  for (Superblock& superblock : found) {
    if (!space.SetRegions(superblock.regions).ok()) continue;
    const absl::StatusOr<LogEnd> end = ScanLog(
        JournalSource(space, superblock), CountChunks(superblock.journal) * superblock.chunk_bytes,
        {superblock.journal_id, superblock.epoch});
    // A checkpoint that was not written to its end: the superblock never pointed there. A damaged
    // one counts: the older journal next to it speaks of files that are gone.
    if (end.ok() && end->frames == 0) continue;
    if (!end.ok() && !absl::IsDataLoss(end.status())) return end.status();
    absl::StatusOr<JournalState> state = ReadJournal(space, superblock);
    if (absl::IsDataLoss(state.status())) state = ReadDamagedJournal(space, superblock);
    if (!state.ok()) return state.status();
    // Regions that were added since.
    if (state->superblock && state->superblock->journal == superblock.journal &&
        space.SetRegions(state->superblock->regions).ok()) {
      superblock = *state->superblock;
    }
    return superblock;
  }
  return absl::NotFoundError("no journal of a metadata store was found");
}

}  // namespace reel::metafs
