// How often something took how long: counts by bucket, and the sum, as Prometheus's histograms have
// them. Threads: externally synchronised.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace reel {

struct TimeHistogram {
  // Where one bucket ends and the next one begins.
  static constexpr std::array<std::uint64_t, 16> kBoundsUs = {
      50,     100,    200,     500,     1'000,   2'000,     5'000,     10'000,
      20'000, 50'000, 100'000, 200'000, 500'000, 1'000'000, 3'000'000, 10'000'000};
  static constexpr std::size_t kBuckets = kBoundsUs.size() + 1;  // the last has no end

  static std::size_t BucketOf(std::uint64_t us) {
    const auto bound = std::lower_bound(kBoundsUs.begin(), kBoundsUs.end(), us);
    return static_cast<std::size_t>(bound - kBoundsUs.begin());
  }
  void Add(std::uint64_t us) {
    sum_us += us;
    ++counts[BucketOf(us)];
  }
  bool empty() const {
    return std::ranges::all_of(counts, [](std::uint64_t count) { return count == 0; });
  }

  std::uint64_t sum_us = 0;
  std::array<std::uint64_t, kBuckets> counts{};  // of each bucket alone
};

// One that many threads add to. Threads: all methods may be called concurrently.
class SharedTimeHistogram {
 public:
  void Add(std::uint64_t us) {
    sum_us_.fetch_add(us, std::memory_order_relaxed);
    counts_[TimeHistogram::BucketOf(us)].fetch_add(1, std::memory_order_relaxed);
  }
  // What has been added, about: not all of it at one moment.
  void AddTo(TimeHistogram& sum) const {
    sum.sum_us += sum_us_.load(std::memory_order_relaxed);
    for (std::size_t i = 0; i < counts_.size(); ++i) {
      sum.counts[i] += counts_[i].load(std::memory_order_relaxed);
    }
  }

 private:
  std::atomic<std::uint64_t> sum_us_{0};
  std::array<std::atomic<std::uint64_t>, TimeHistogram::kBuckets> counts_{};
};

}  // namespace reel
