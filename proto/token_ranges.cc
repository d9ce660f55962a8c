#include "proto/token_ranges.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace reel {

TokenSpan TokenSpan::Hull(const TokenSpan& other) const {
  return {.first = std::min(first, other.first), .end = std::max(end, other.end)};
}

absl::StatusOr<TokenSpan> ParseTokenSpan(std::uint64_t first_block, std::uint64_t length_blocks) {
  const std::uint64_t limit = kEndOfFileBlocks.value();
  if (first_block >= limit || length_blocks > limit - first_block) {
    return absl::InvalidArgumentError(
        absl::StrCat("a token for blocks [", first_block, ", +", length_blocks, ")"));
  }
  return TokenSpan{
      .first = FileBlock(first_block),
      .end = length_blocks == 0 ? kEndOfFileBlocks : FileBlock(first_block) + length_blocks};
}

std::uint64_t LengthForMessage(const TokenSpan& span) {
  return span.end == kEndOfFileBlocks ? 0 : span.end - span.first;
}

v1::TokenMode TokenRanges::Least(const TokenSpan& span) const {
  v1::TokenMode least = v1::TOKEN_EXCLUSIVE;
  FileBlock at = span.first;
  for (const GrantedRange& range : ranges_) {
    if (at >= span.end || range.span.first > at) break;
    if (range.span.end <= at) continue;
    least = std::min(least, range.mode);
    at = range.span.end;
  }
  return at < span.end ? v1::TOKEN_NONE : least;
}

v1::TokenMode TokenRanges::Most(const TokenSpan& span) const {
  v1::TokenMode most = v1::TOKEN_NONE;
  for (const GrantedRange& range : ranges_) {
    if (range.span.Overlaps(span)) most = std::max(most, range.mode);
  }
  return most;
}

TokenSpan TokenRanges::WidestAround(const TokenSpan& span, v1::TokenMode allowed) const {
  TokenSpan widest;
  for (const GrantedRange& range : ranges_) {
    if (range.mode <= allowed) continue;
    if (range.span.end <= span.first) {
      widest.first = std::max(widest.first, range.span.end);
    } else {
      widest.end = std::min(widest.end, range.span.first);
    }
  }
  return widest;
}

template <typename Change>
void TokenRanges::Apply(const TokenSpan& span, Change change) {
  if (span.empty()) return;
  absl::InlinedVector<GrantedRange, 1> result;
  const auto add = [&result](FileBlock first, FileBlock end, v1::TokenMode mode) {
    if (first >= end || mode == v1::TOKEN_NONE) return;
    if (!result.empty() && result.back().span.end == first && result.back().mode == mode) {
      result.back().span.end = end;
    } else {
      result.push_back({{first, end}, mode});
    }
  };
  const auto add_all = [&](FileBlock first, FileBlock end, v1::TokenMode mode) {
    add(first, std::min(end, span.first), mode);
    add(std::max(first, span.first), std::min(end, span.end), change(mode));
    add(std::max(first, span.end), end, mode);
  };
  FileBlock at{0};
  for (const GrantedRange& range : ranges_) {
    add_all(at, range.span.first, v1::TOKEN_NONE);
    add_all(range.span.first, range.span.end, range.mode);
    at = range.span.end;
  }
  add_all(at, kEndOfFileBlocks, v1::TOKEN_NONE);
  ranges_ = std::move(result);
}

void TokenRanges::Raise(const TokenSpan& span, v1::TokenMode mode) {
  Apply(span, [mode](v1::TokenMode held) { return std::max(held, mode); });
}

void TokenRanges::Lower(const TokenSpan& span, v1::TokenMode mode) {
  Apply(span, [mode](v1::TokenMode held) { return std::min(held, mode); });
}

}  // namespace reel
