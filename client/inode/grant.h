// What the controller has granted of a file to this host: the token of some blocks, and where
// blocks lie.
//
// Invariants:
//   1. Extents are known only of blocks that the token covers.
//   2. What is known to be written stays so, when an answer that crossed the commit of it calls it
//      unwritten.
//   3. All was granted to one session. When that is lost, or the file removed, so is the grant.
//      `lost_sessions` counts that: work that began before must not touch the file's state.
//   4. `tail_allocated` holds while blocks may lie behind the end of the file, in its *tail*, that
//      the controller has put there for this host.
// Threads: externally synchronised, by the file's mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "client/inode/small_content.h"
#include "client/luns/lun_io.h"
#include "proto/convert.h"
#include "proto/layout.pb.h"
#include "proto/token_ranges.h"
#include "volume/format/extent_map.h"

namespace reel::client {

class Grant {
 public:
  static constexpr std::uint64_t kFirstFetchBytes = 64 * kMiB;

  explicit Grant(std::uint32_t block_bytes) : block_bytes_(block_bytes) {}

  // ---- the token
  const TokenRanges& token() const { return token_; }
  bool Has(const TokenSpan& span, v1::TokenMode mode) const { return token_.Has(span, mode); }
  bool empty() const { return token_.empty(); }
  // Some block is held exclusively.
  bool holds_to_write() const { return token_.Most() == v1::TOKEN_EXCLUSIVE; }
  // The block up to which all from `first` on are held in that mode at least.
  FileBlock HeldTo(FileBlock first, v1::TokenMode mode) const;
  std::uint64_t session() const { return session_; }  // 0: none
  std::uint64_t lost_sessions() const { return lost_sessions_; }

  // The token of the span comes down to `mode`; what it covers no longer is unknown.
  void Lower(const TokenSpan& span, v1::TokenMode mode);
  std::uint64_t lowerings() const { return lowerings_; }  // so far
  // The session is lost.
  void Void();

  // ---- what a LayoutGet brings
  struct Layout {
    TokenSpan token{};
    v1::TokenMode mode = v1::TOKEN_NONE;
    BlockSpan described;  // by the extents
    std::vector<Extent> extents;
  };
  // EIO when it is malformed.
  static absl::StatusOr<Layout> Parse(const v1::LayoutReply& reply);
  // Nothing is known to be written that the layout could contradict, or too much is known to keep
  // it: KeepExtents goes first.
  bool ReplacesAll(const Layout& layout) const;
  void TakeExtents(const Layout& layout, bool replaces_all);
  // After the extents and the attributes, which are judged by the token from before.
  void TakeToken(const Layout& layout, std::uint64_t session);

  // ---- instead of the first blocks
  SmallContent& small() { return small_; }
  const SmallContent& small() const { return small_; }

  // ---- extents
  std::optional<Extent> Find(FileBlock block) const { return extents_.Find(block); }
  // Those that cover [offset, offset + length), appended to `list`; the first byte that is unknown,
  // if any. REQUIRES: length > 0.
  std::optional<std::uint64_t> Cover(std::uint64_t offset_bytes, std::uint64_t length_bytes,
                                     ExtentList& list) const;
  std::size_t known_extents() const { return extents_.size(); }
  // Unwritten ones become written, and the other way.
  void MarkWritten(FileBlock first, std::uint64_t length_blocks) {
    extents_.MarkWritten(first, length_blocks);
  }
  void MarkUnwritten(FileBlock first, std::uint64_t length_blocks);
  void ForgetFrom(FileBlock first) { extents_.EraseFrom(first); }
  void Forget(const BlockSpan& blocks) { extents_.Erase(blocks.start, blocks.length_blocks); }
  // Forgets all but these.
  void KeepExtents(std::span<const BlockSpan> kept);

  // ---- how much to ask for
  struct FetchSpan {
    std::uint64_t offset_bytes = 0;
    std::uint64_t length_bytes = 0;
  };
  // When [unknown, end) has to be known and nothing is known at `unknown`: more than that, so that
  // the next ones ask nothing.
  FetchSpan FetchSpanAround(std::uint64_t unknown_bytes, std::uint64_t end_bytes) const;
  // Learns from the answer how much an answer holds: `described_to_bytes` of what was asked for.
  void AdaptFetchBytes(const FetchSpan& asked, std::uint64_t described_to_bytes, int extents);
  std::uint64_t fetch_bytes() const { return fetch_bytes_; }

  // ---- blocks beyond the end
  bool tail_allocated() const { return tail_allocated_; }
  void NoteTail(bool allocated) { tail_allocated_ = allocated; }
  // They are given back: all from `end` on.
  void ReleaseTail(FileBlock end) {
    ForgetFrom(end);
    tail_allocated_ = false;
  }

 private:
  const std::uint32_t block_bytes_;
  TokenRanges token_;
  std::uint64_t session_ = 0;
  std::uint64_t lowerings_ = 0;
  std::uint64_t lost_sessions_ = 0;
  ExtentMap extents_;
  SmallContent small_;
  std::uint64_t fetch_bytes_ = kFirstFetchBytes;
  bool tail_allocated_ = false;
};

}  // namespace reel::client
