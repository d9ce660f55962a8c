#include "client/inode/grant.h"

#include <algorithm>
#include <cerrno>
#include <string>

#include "proto/status.h"

namespace reel::client {
namespace {

// An inode's known extents beyond that are forgotten and asked for again: some 50 MB of memory. (A
// file of 100,000 pieces with a hole after each has 200,000.)
constexpr std::size_t kMaxExtents = 500'000;
// As many blocks as an answer surely describes, whatever the file looks like and the block size is.
constexpr std::uint64_t kMinFetchBytes = 1 * kMiB;
constexpr std::uint64_t kMaxFetchBytes = 1 * kGiB;
// Few extents in an answer: the file is contiguous enough to ask for more of it at once.
constexpr int kFewExtents = 64;

// The blocks of `old_extent` that `answer` calls unwritten at the same place are written all the
// same: their commit and the answer crossed.
void KeepWritten(const Extent& old_extent, ExtentMap& extents) {
  for (const Extent& now : extents.Slice(old_extent.file_block, old_extent.length_blocks)) {
    if (now.state != ExtentState::kUnwritten || now.pool != old_extent.pool) continue;
    const std::uint64_t into = now.file_block - old_extent.file_block;
    if (old_extent.pool_block + into == now.pool_block) {
      extents.MarkWritten(now.file_block, now.length_blocks);
    }
  }
}

}  // namespace

FileBlock Grant::HeldTo(FileBlock first, v1::TokenMode mode) const {
  for (const TokenRanges::GrantedRange& granted_range : token_.granted()) {
    if (granted_range.span.first <= first && first < granted_range.span.end &&
        granted_range.mode >= mode) {
      first = granted_range.span.end;
    }
  }
  return first;
}

void Grant::Lower(const TokenSpan& span, v1::TokenMode mode) {
  ++lowerings_;
  token_.Lower(span, mode);
  if (mode == v1::TOKEN_NONE) extents_.Erase(span.first, span.end - span.first);
}

void Grant::Void() {
  ++lost_sessions_;
  token_.Clear();
  session_ = 0;
  extents_.Clear();
  tail_allocated_ = false;
}

absl::StatusOr<Grant::Layout> Grant::Parse(const v1::LayoutReply& reply) {
  const absl::StatusOr<TokenSpan> token =
      ParseTokenSpan(reply.token_first_block(), reply.token_length_blocks());
  if (!token.ok()) return ErrnoStatus(EIO, std::string(token.status().message()));
  Layout layout{.token = *token,
                .mode = reply.mode(),
                .described = {FileBlock(reply.file_block()), reply.length_blocks()},
                .extents = {}};
  const auto& [start, length_blocks] = layout.described;
  if (length_blocks > 0 && !token->Contains({.first = start, .end = start + length_blocks})) {
    return ErrnoStatus(EIO, "a layout describes blocks that its token does not cover");
  }
  for (const v1::Extent& extent : reply.extents()) {
    absl::StatusOr<Extent> parsed = FromProto(extent);
    if (!parsed.ok()) return ErrnoStatus(EIO, std::string(parsed.status().message()));
    if (!token->Contains({.first = parsed->file_block, .end = parsed->end()})) {
      return ErrnoStatus(EIO, "a layout has an extent that its token does not cover");
    }
    layout.extents.push_back(*parsed);
  }
  return layout;
}

bool Grant::ReplacesAll(const Layout& layout) const {
  return token_.empty() || extents_.size() + layout.extents.size() > kMaxExtents;
}

void Grant::TakeExtents(const Layout& layout, bool replaces_all) {
  std::vector<Extent> written;
  if (!replaces_all && layout.described.length_blocks > 0) {
    written = extents_.Slice(layout.described.start, layout.described.length_blocks);
    std::erase_if(written, [](const Extent& e) { return e.state != ExtentState::kWritten; });
  }
  for (const Extent& extent : layout.extents) extents_.Set(extent);
  for (const Extent& known : written) KeepWritten(known, extents_);
}

void Grant::TakeToken(const Layout& layout, std::uint64_t session) {
  token_.Raise(layout.token, layout.mode);
  session_ = session;
}

std::optional<std::uint64_t> Grant::Cover(std::uint64_t offset_bytes, std::uint64_t length_bytes,
                                          ExtentList& list) const {
  list.clear();
  const BlockSpan span = BlocksOf(offset_bytes, length_bytes, block_bytes_);
  const FileBlock end = span.start + span.length_blocks;
  for (FileBlock at = span.start; at < end;) {
    const std::optional<Extent> extent = extents_.Find(at);
    if (!extent) return at.value() * block_bytes_;
    list.push_back(*extent);
    at = extent->end();
  }
  return std::nullopt;
}

void Grant::MarkUnwritten(FileBlock first, std::uint64_t length_blocks) {
  for (Extent extent : extents_.Slice(first, length_blocks)) {
    if (extent.state != ExtentState::kWritten) continue;
    extent.state = ExtentState::kUnwritten;
    extents_.Set(extent);
  }
}

void Grant::KeepExtents(std::span<const BlockSpan> kept) {
  std::vector<Extent> left;
  for (const BlockSpan& span : kept) {
    for (const Extent& extent : extents_.Slice(span.start, span.length_blocks)) {
      left.push_back(extent);
    }
  }
  extents_.Clear();
  for (const Extent& extent : left) extents_.Set(extent);
}

Grant::FetchSpan Grant::FetchSpanAround(std::uint64_t unknown_bytes,
                                        std::uint64_t end_bytes) const {
  const FileBlock block(unknown_bytes / block_bytes_);
  // Behind what is known, it goes on; elsewhere whoever jumps about comes near again, before it or
  // behind it.
  const bool goes_on = block > FileBlock(0) && extents_.Find(block - 1).has_value();
  const std::uint64_t grain_bytes = std::min(fetch_bytes_, kFirstFetchBytes);
  const std::uint64_t from = RoundDown(unknown_bytes, goes_on ? block_bytes_ : grain_bytes);
  const std::uint64_t to = std::min(std::max(end_bytes, from + fetch_bytes_), kMaxFileBytes);
  return {.offset_bytes = from, .length_bytes = to - from};
}

void Grant::AdaptFetchBytes(const FetchSpan& asked, std::uint64_t described_to_bytes, int extents) {
  if (described_to_bytes < asked.offset_bytes + asked.length_bytes) {
    fetch_bytes_ = std::max(fetch_bytes_ / 4, kMinFetchBytes);
  } else if (extents <= kFewExtents) {
    fetch_bytes_ = std::min(fetch_bytes_ * 2, kMaxFetchBytes);
  }
}

}  // namespace reel::client
