// Which blocks of a file a session may read and write: its data token.
//
// A token is a mode for each block of the file (TokenMode in types.proto): none, shared or
// exclusive. Most tokens are one range, the whole file. Both sides of the wire keep them in this
// form. Invariants: ranges are disjoint, in order, none is TOKEN_NONE, and neighbours of one mode
// are one range. Threads: externally synchronised.
#pragma once

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "proto/types.pb.h"
#include "volume/format/extent_map.h"

namespace reel {

// Blocks [first, end) of a file; as it stands, all of them.
struct TokenSpan {
  FileBlock first{0};
  FileBlock end = kEndOfFileBlocks;

  bool empty() const { return first >= end; }
  bool Overlaps(const TokenSpan& other) const { return first < other.end && other.first < end; }
  bool Contains(const TokenSpan& other) const { return first <= other.first && other.end <= end; }
  // The smallest span that contains both.
  TokenSpan Hull(const TokenSpan& other) const;
  friend bool operator==(const TokenSpan&, const TokenSpan&) = default;
};
inline constexpr TokenSpan kWholeFile{};

// The span of a message: a length of 0 reaches to the end. INVALID_ARGUMENT when it is none.
absl::StatusOr<TokenSpan> ParseTokenSpan(std::uint64_t first_block, std::uint64_t length_blocks);
// The other way: the length for a message.
std::uint64_t LengthForMessage(const TokenSpan& span);

class TokenRanges {
 public:
  struct GrantedRange {
    TokenSpan span;
    v1::TokenMode mode = v1::TOKEN_NONE;
    friend bool operator==(const GrantedRange&, const GrantedRange&) = default;
  };

  // The weakest mode of the span's blocks.
  v1::TokenMode Least(const TokenSpan& span = kWholeFile) const;
  // The strongest.
  v1::TokenMode Most(const TokenSpan& span = kWholeFile) const;
  bool Has(const TokenSpan& span, v1::TokenMode mode) const { return Least(span) >= mode; }
  // The widest span around `span` in which nothing is above `allowed`. REQUIRES: in `span` itself
  // nothing is.
  TokenSpan WidestAround(const TokenSpan& span, v1::TokenMode allowed) const;

  void Raise(const TokenSpan& span, v1::TokenMode mode);  // to at least `mode`
  void Lower(const TokenSpan& span, v1::TokenMode mode);  // to at most `mode`
  void Clear() { ranges_.clear(); }

  bool empty() const { return ranges_.empty(); }
  const absl::InlinedVector<GrantedRange, 1>& granted() const { return ranges_; }

 private:
  // Each block of the span becomes what `change` makes of its mode.
  template <typename Change>
  void Apply(const TokenSpan& span, Change change);

  absl::InlinedVector<GrantedRange, 1> ranges_;
};

}  // namespace reel
