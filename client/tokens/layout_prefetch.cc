#include "client/tokens/layout_prefetch.h"

#include <algorithm>

namespace reel::client {
namespace {

// How far any stream looks ahead: at least what a fast one moves in some 50 ms
// (FileDataOptions::least_prefetch_bytes); more, the longer the file.
constexpr std::uint64_t kMaxPrefetchBytes = 512 * kMiB;
// By its pace no more than this, which nobody else can have meanwhile.
constexpr std::uint64_t kMaxPacedBytes = 4 * kGiB;
// Extents looked at for where the known part ends.
constexpr int kMaxPrefetchExtents = 256;

std::uint64_t PrefetchBytes(const FileState& f, std::uint64_t at_bytes, std::uint64_t least_bytes,
                            std::uint64_t paced_limit_bytes)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex) {
  const std::uint64_t by_place = std::clamp(at_bytes / 4, least_bytes, kMaxPrefetchBytes);
  const std::uint64_t by_pace = std::min(f.pace.BytesIn(StreamPace::kPrefetchMs), kMaxPacedBytes);
  return std::max(by_place, std::min(by_pace, paced_limit_bytes));
}

// The first block of [first, last] that is not known, or to be written and a hole; none also where
// that is too far to look.
std::optional<FileBlock> FirstLacked(const FileState& f, FileBlock first, FileBlock last,
                                     bool writes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex) {
  const auto usable = [&](const std::optional<Extent>& extent) {
    return extent && !(writes && extent->state == ExtentState::kHole);
  };
  if (usable(f.grant.Find(last))) return std::nullopt;
  FileBlock known = first;
  for (int i = 0; i < kMaxPrefetchExtents && known <= last; ++i) {
    const std::optional<Extent> extent = f.grant.Find(known);
    if (!usable(extent)) return known;
    known = extent->end();
  }
  return std::nullopt;
}

// Another host holds what follows, exclusively or not: has it been written since the last look?
std::optional<FetchRange> TokenToPrefetch(FileState& f, std::uint64_t at_bytes, FileBlock held_to)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex) {
  const std::uint64_t next_bytes = held_to.value() * f.block_bytes;
  // Beyond the size nobody has written while this host held it.
  if (held_to == kEndOfFileBlocks || f.attr.size_bytes() < next_bytes || at_bytes >= next_bytes) {
    return std::nullopt;
  }
  if (!f.pace.RunsLow(next_bytes - at_bytes)) return std::nullopt;
  const Grant::FetchSpan fetch = f.grant.FetchSpanAround(next_bytes, next_bytes + f.block_bytes);
  return FetchRange{
      {.first = held_to, .end = held_to + 1}, fetch.offset_bytes, fetch.length_bytes, false};
}

}  // namespace

std::optional<FetchRange> BlocksToPrefetch(const FileState& f, std::uint64_t at_bytes,
                                           std::uint64_t least_bytes) {
  if (at_bytes >= kMaxFileBytes) return std::nullopt;
  const std::uint64_t prefetch_bytes =
      PrefetchBytes(f, at_bytes, least_bytes, f.pace.streamed_bytes());
  const std::uint64_t to_bytes = std::min(at_bytes + prefetch_bytes, kMaxFileBytes);
  const FileBlock first(at_bytes / f.block_bytes);
  const FileBlock last((to_bytes - 1) / f.block_bytes);
  const TokenSpan span{.first = first, .end = last + 1};
  if (!f.grant.Has(span, v1::TOKEN_EXCLUSIVE)) return std::nullopt;
  const std::optional<FileBlock> lacked = FirstLacked(f, first, last, /*writes=*/true);
  if (!lacked) return std::nullopt;
  const std::uint64_t from_bytes = lacked->value() * f.block_bytes;
  if (from_bytes >= f.attr.size_bytes()) {  // the controller adds to it as the file grows
    return FetchRange{span, from_bytes, f.block_bytes, true};
  }
  if (f.grant.Find(*lacked)) return std::nullopt;  // a hole, which may be meant to stay one
  const Grant::FetchSpan fetch = f.grant.FetchSpanAround(from_bytes, from_bytes + f.block_bytes);
  return FetchRange{span, fetch.offset_bytes, fetch.length_bytes, false};
}

std::optional<FetchRange> LayoutToPrefetch(FileState& f, std::uint64_t at_bytes,
                                           std::uint64_t least_bytes) {
  const FileBlock first(at_bytes / f.block_bytes);
  const FileBlock held_to = f.grant.HeldTo(first, v1::TOKEN_SHARED);
  const std::uint64_t end_bytes =  // beyond the end nobody reads
      std::min(f.attr.size_bytes(),
               std::min(held_to.value(), kMaxFileBytes / f.block_bytes) * f.block_bytes);
  if (at_bytes >= end_bytes) return std::nullopt;
  const std::uint64_t to_bytes =
      std::min(at_bytes + PrefetchBytes(f, at_bytes, least_bytes, kMaxPacedBytes), end_bytes);
  const FileBlock last((to_bytes - 1) / f.block_bytes);
  if (const auto lacked = FirstLacked(f, first, last, /*writes=*/false)) {
    const std::uint64_t from_bytes = lacked->value() * f.block_bytes;
    const Grant::FetchSpan fetch = f.grant.FetchSpanAround(from_bytes, from_bytes + f.block_bytes);
    return FetchRange{
        {.first = first, .end = last + 1}, fetch.offset_bytes, fetch.length_bytes, false};
  }
  return TokenToPrefetch(f, at_bytes, held_to);
}

}  // namespace reel::client
