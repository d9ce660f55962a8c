// Sums by which two large multisets are compared without keeping either: of hashes, which do not
// depend on the order in which things are seen, nor by whom.
//
// What one side says is added, what the other says subtracted. Where they agree the sum is zero;
// where they do not it is zero once in 2^64 times or more rarely, by chance. (Nobody chooses what
// is compared here: it is damage.) Sums of several threads add up. A sum says that something is
// wrong in its part of the numbers; what it is, is found by going over that part again.
// Threads: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace reel::mdc::checker {

// Bits of which each depends on all of the number's: the same number, the same bits.
constexpr std::uint64_t Mixed(std::uint64_t number) {
  number += 0x9e3779b97f4a7c15;
  number = (number ^ number >> 30) * 0xbf58476d1ce4e5b9;
  number = (number ^ number >> 27) * 0x94d049bb133111eb;
  return number ^ number >> 31;
}

class Sum {
 public:
  void Add(std::uint64_t hash, std::uint64_t times = 1) {
    first_ += hash * times;
    second_ += Mixed(hash) * times;
  }
  void Subtract(std::uint64_t hash) {
    first_ -= hash;
    second_ -= Mixed(hash);
  }
  void Add(const Sum& more) {
    first_ += more.first_;
    second_ += more.second_;
  }
  bool IsZero() const { return first_ == 0 && second_ == 0; }

 private:
  std::uint64_t first_ = 0, second_ = 0;
};

// An entry of a directory, in its index by name or by cookie.
std::uint64_t EntryHash(std::uint64_t cookie, std::uint64_t inode, std::uint32_t type,
                        std::string_view name);

struct InodeFact;
struct NameFact;
struct OwnedRun;

// Names against inodes, by parts of the inode numbers: what the inodes say of how many names they
// have, of which type and, of directories, where; and the names.
class NameSums {
 public:
  explicit NameSums(std::size_t parts) : parts_(parts) {}

  // `part`: the one of the inode, or of the inode that is named.
  void AddInode(std::size_t part, const InodeFact& fact);
  void AddName(std::size_t part, const NameFact& name);
  void Add(const NameSums& more);

  std::size_t parts() const { return parts_.size(); }
  bool Agree(std::size_t part) const { return !parts_[part].wrong && parts_[part].sum.IsZero(); }
  // What the part's facts take.
  std::uint64_t BytesOf(std::size_t part) const;
  std::uint64_t bytes() const { return parts_.size() * sizeof(Part); }

 private:
  struct Part {
    Sum sum;
    std::uint64_t inodes = 0, names = 0;
    bool wrong = false;  // an inode of it is, whatever the names say
  };
  std::vector<Part> parts_;
};

// The owners of a pool's blocks, by regions of it: every block has one exactly where each border
// between runs is the end of as many runs as begin there, but for the region's own two ends.
class SpaceSums {
 public:
  explicit SpaceSums(std::uint64_t size_blocks);

  void Add(const OwnedRun& run);  // REQUIRES: it lies in the pool
  void Add(const SpaceSums& more);

  std::size_t regions() const { return regions_.size(); }
  bool Agrees(std::size_t region) const;
  std::size_t RegionOf(std::uint64_t block) const { return block >> shift_; }
  std::uint64_t StartOf(std::size_t region) const { return std::uint64_t{region} << shift_; }
  std::uint64_t EndOf(std::size_t region) const;
  // What the facts of the runs in the region take.
  std::uint64_t BytesOf(std::size_t region) const;
  std::uint64_t bytes() const { return regions_.size() * sizeof(Region); }

 private:
  struct Region {
    Sum sum;
    std::uint64_t runs = 0;
  };
  std::uint64_t size_blocks_;
  unsigned shift_ = 0;  // a region has 2^shift_ blocks
  std::vector<Region> regions_;
};

}  // namespace reel::mdc::checker
