// A set of file blocks, kept as disjoint ranges that are merged where they touch.
// Threads: externally synchronised.
#pragma once

#include <cstdint>
#include <map>

#include "absl/functional/function_ref.h"
#include "proto/convert.h"
#include "volume/base/types.h"

namespace reel::client {

class BlockSet {
 public:
  void Add(FileBlock start, std::uint64_t length_blocks);
  void Add(const BlockSet& other);
  void Remove(FileBlock start, std::uint64_t length_blocks);
  // Makes one range of all, with what lies between.
  void Close();
  void Clear() { ranges_.clear(); }
  bool empty() const { return ranges_.empty(); }
  std::size_t range_count() const { return ranges_.size(); }

  // The lowest. REQUIRES: !empty().
  BlockSpan First() const {
    const auto& [from, to] = *ranges_.begin();
    return {FileBlock(from), to - from};
  }
  // Moves at most `max_ranges` ranges, the lowest, into `taken`.
  void TakeRanges(std::size_t max_ranges, BlockSet& taken);

  using Visitor = absl::FunctionRef<void(FileBlock start, std::uint64_t length_blocks)>;
  void ForEach(Visitor visit) const;
  // Only those of [start, start + length), cut to it.
  void ForEachIn(FileBlock start, std::uint64_t length_blocks, Visitor visit) const;

 private:
  std::map<std::uint64_t, std::uint64_t> ranges_;  // start → end
};

}  // namespace reel::client
