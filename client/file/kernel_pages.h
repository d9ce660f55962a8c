// Which pages of one file the kernel may keep, and what keeps them apart from changes past them.
//
// The kernel reads a page in for a mapping, or for a file open through its cache, and from then on
// changes it without a word and writes it back whole. A write(2) past its pages (FOPEN_DIRECT_IO)
// makes the kernel drop those that it covers before the request is sent; but one that is read in
// while the request is under way is old, and once stored to, old bytes go back over new ones. So a
// change past the pages has two steps: the pages of its range are *dropped*, again where some were
// filled meanwhile; then, while it *changes* the file, requests that would fill them wait.
// Invariants:
//   1. Every page that the kernel has of this file lies in what MayHold() says.
//   2. No page of a range that is being changed is held: it was dropped before, and nobody fills
//   it.
// Threads: externally synchronised.
#pragma once

#include <cstdint>
#include <vector>

#include "client/base/block_set.h"
#include "client/base/byte_range.h"
#include "proto/convert.h"

namespace reel::client {

class KernelPages {
 public:
  static constexpr std::uint64_t kPageBytes = 4096;
  // More ranges are taken for one: what lies between is dropped for nothing.
  static constexpr std::size_t kMostRanges = 4096;

  // A request that leaves pages of the range in the kernel is being answered: one that reads them
  // in, or one that writes through them. REQUIRES: !IsChanging(range).
  enum class By { kRead, kWrite };
  void Fill(const ByteRange& range, By by);
  // The session under which they were filled is over: what is held is stale until it is dropped or
  // read in anew. What was changed in stale pages is lost.
  void BecomeStale() { stale_ = held_; }
  bool IsStale(const ByteRange& range) const { return Any(stale_, range); }
  bool MayHold(const ByteRange& range) const { return Any(held_, range); }
  // An invalidation waits for pages of the range, where they are locked, or will.
  bool IsDropped(const ByteRange& range) const;
  bool empty() const { return held_.empty(); }
  // An invalidation waits: what it is to drop may be there yet, under whatever token.
  bool dropping() const { return !drops_.empty(); }
  std::uint64_t fills() const { return fills_; }  // so far
  // The first range that may be held, at most `most_bytes` of it. REQUIRES: !empty().
  ByteRange First(std::uint64_t most_bytes) const;

  // Around an invalidation of the range, under a number of its own. EndDrop: true when nothing of
  // it was filled meanwhile, so that none is held any more.
  std::uint64_t BeginDrop(const ByteRange& range);
  bool EndDrop(std::uint64_t drop);

  // Around a change past the pages. REQUIRES: !MayHold(range).
  std::uint64_t BeginChange(const ByteRange& range);
  void EndChange(std::uint64_t change);
  bool IsChanging(const ByteRange& range) const;

 private:
  struct Numbered {
    std::uint64_t number = 0;
    BlockSpan pages;
    bool filled = false;  // of a drop: something of it, since
  };
  static BlockSpan PagesOf(const ByteRange& range);
  static bool Any(const BlockSet& set, const ByteRange& range);

  BlockSet held_;
  BlockSet stale_;                 // of held_
  std::vector<Numbered> drops_;    // one a thread that invalidates
  std::vector<Numbered> changes_;  // one a request that is being served
  std::uint64_t last_number_ = 0;
  std::uint64_t fills_ = 0;
};

}  // namespace reel::client
