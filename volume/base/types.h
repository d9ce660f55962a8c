// Strong types for the numbers that must never be mixed up, and the units that ReelFS counts in.
//
// A StrongNumber converts to and from its representation only explicitly. Positions (PoolBlock,
// FileBlock) add and subtract lengths, which are plain integers whose names end in their unit
// (`_bytes`, `_blocks`). Thread rule: plain values.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <utility>

namespace reel {

template <typename Tag, typename Rep = std::uint64_t>
class StrongNumber {
 public:
  using rep = Rep;
  constexpr StrongNumber() = default;
  constexpr explicit StrongNumber(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }

  friend constexpr auto operator<=>(StrongNumber, StrongNumber) = default;
  friend constexpr StrongNumber operator+(StrongNumber a, Rep length) {
    return StrongNumber(a.value_ + length);
  }
  friend constexpr StrongNumber operator-(StrongNumber a, Rep length) {
    return StrongNumber(a.value_ - length);
  }
  // The distance between two positions. REQUIRES: a >= b.
  friend constexpr Rep operator-(StrongNumber a, StrongNumber b) { return a.value_ - b.value_; }

  template <typename H>
  friend H AbslHashValue(H h, StrongNumber n) {
    return H::combine(std::move(h), n.value_);
  }

 private:
  Rep value_ = 0;
};

using InodeNumber = StrongNumber<struct InodeTag>;  // never reused within a volume; root is 1
using SessionId = StrongNumber<struct SessionTag>;  // never reused within a volume; 0 is none
using Epoch = StrongNumber<struct EpochTag>;        // one term of an active MDC
using Sequence = StrongNumber<struct SequenceTag>;  // a commit's place in the volume's history
using PoolId = StrongNumber<struct PoolTag, std::uint32_t>;  // index into the descriptor's pools
using PoolBlock = StrongNumber<struct PoolBlockTag>;  // a volume block's address within a pool
using FileBlock = StrongNumber<struct FileBlockTag>;  // a volume block's place within a file

inline constexpr InodeNumber kRootInode{1};

inline constexpr std::uint64_t kKiB = 1024;
inline constexpr std::uint64_t kMiB = 1024 * kKiB;
inline constexpr std::uint64_t kGiB = 1024 * kMiB;

// Bounds of every volume (docs/format.md).
inline constexpr std::uint64_t kMinBlockBytes = 4 * kKiB;
inline constexpr std::uint64_t kMaxBlockBytes = 1 * kMiB;
inline constexpr std::uint64_t kMaxVolumeBytes = std::uint64_t{1} << 60;
inline constexpr std::uint32_t kMaxPools = 64;
inline constexpr std::uint32_t kMaxLunsPerPool = 256;
inline constexpr std::uint32_t kMaxLunsPerVolume = 4096;

constexpr bool IsPowerOfTwo(std::uint64_t n) {
  return n != 0 && (n & (n - 1)) == 0;
}
// REQUIRES: unit != 0; the result of RoundUp fits.
constexpr std::uint64_t RoundDown(std::uint64_t n, std::uint64_t unit) {
  return n - n % unit;
}
constexpr std::uint64_t RoundUp(std::uint64_t n, std::uint64_t unit) {
  return RoundDown(n + unit - 1, unit);
}
constexpr std::uint64_t DivideUp(std::uint64_t n, std::uint64_t unit) {
  return n / unit + (n % unit != 0);
}

}  // namespace reel
