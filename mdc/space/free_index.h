// A set of disjoint free runs of one pool, found by address and, when asked for, by size.
//
// Invariants: neighbours are merged; total_blocks() is the sum of the lengths. Threads: externally
// synchronised.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"

namespace reel::mdc {

class FreeIndex {
 public:
  struct Run {
    std::uint64_t start = 0;
    std::uint64_t length_blocks = 0;
    std::uint64_t end() const { return start + length_blocks; }
  };

  // Without `by_size`, Fit and Largest find nothing.
  explicit FreeIndex(bool by_size) : sized_(by_size) {}

  bool Overlaps(std::uint64_t start, std::uint64_t length_blocks) const;
  // REQUIRES: length > 0, no overlap.
  void Insert(std::uint64_t start, std::uint64_t length_blocks);
  // REQUIRES: inside one run.
  void Remove(std::uint64_t start, std::uint64_t length_blocks);

  std::optional<Run> Containing(std::uint64_t block) const;
  std::optional<Run> EndingAt(std::uint64_t block) const;
  std::optional<Run> StartingAt(std::uint64_t block) const;
  // The smallest run of at least that length.
  std::optional<Run> Fit(std::uint64_t length_blocks) const;
  std::optional<Run> Largest() const;

  std::uint64_t total_blocks() const { return total_blocks_; }
  // Runs by their length: class n has those of 2^n to 2^(n+1) - 1 blocks.
  struct Class {
    std::uint64_t runs = 0;
    std::uint64_t blocks = 0;
  };
  using Classes = std::array<Class, 64>;
  const Classes& classes() const { return classes_; }
  const absl::btree_map<std::uint64_t, std::uint64_t>& runs() const { return by_start_; }
  // For tests: the two indexes and the total agree, and neighbours are merged.
  bool Consistent() const;

 private:
  void Add(std::uint64_t start, std::uint64_t length_blocks);
  void Erase(std::uint64_t start, std::uint64_t length_blocks);

  bool sized_;
  std::uint64_t total_blocks_ = 0;
  Classes classes_{};
  absl::btree_map<std::uint64_t, std::uint64_t> by_start_;            // start → length
  absl::btree_set<std::pair<std::uint64_t, std::uint64_t>> by_size_;  // (length, start)
};

}  // namespace reel::mdc
