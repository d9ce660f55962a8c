#include "tools/bench/sweep/sweep_run.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "tools/bench/noise.h"
#include "tools/bench/progress.h"
#include "tools/lib/volume_toml.h"
#include "volume/base/mutex.h"
#include "volume/base/size.h"
#include "volume/format/stripe_map.h"
#include "volume/lun/io_batch.h"

namespace reel::bench {
namespace {

using Clock = std::chrono::steady_clock;

// Of a fresh point the block size is the largest that divides the breadth, of those up to the
// default; of a scattered one the breadth is the default, where blocks are not larger.
absl::StatusOr<VolumeDescriptor> VolumeOf(const SweepLuns& luns, const SweepPoint& point) {
  if (point.scattered) {
    return luns.Volume(point.geometry_bytes,
                       std::max(point.geometry_bytes, tools::kDefaultBreadthBytes));
  }
  std::uint64_t block = tools::kDefaultBlockBytes;
  while (point.geometry_bytes % block != 0) block /= 2;
  return luns.Volume(block, point.geometry_bytes);
}

class PointRun {
 public:
  PointRun(const SweepLuns& luns, const SweepPoint& point, const VolumeDescriptor& volume,
           double seconds)
      : luns_(luns),
        point_(point),
        map_(volume),
        bytes_(map_.pool_blocks(PoolId(0)) * map_.block_bytes()),
        until_(Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                  std::chrono::duration<double>(seconds))) {}

  absl::StatusOr<double> Run() {
    const auto begin = Clock::now();
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < point_.depth; ++i) threads.emplace_back([this, i] { Work(i); });
    for (std::thread& thread : threads) thread.join();
    for (std::size_t i = 0; point_.write && i < luns_.size(); ++i) {
      if (absl::Status s = luns_.lun(i).Flush(); !s.ok()) return s;
    }
    const std::chrono::duration<double> passed = Clock::now() - begin;
    const MutexLock lock(mutex_);
    if (!status_.ok()) return status_;
    return static_cast<double>(done_.load() * point_.io_bytes) / passed.count();
  }

 private:
  void Work(std::uint32_t number) {
    const AlignedBuffer buffer = NoiseBuffer(point_.io_bytes);
    std::uint64_t random = 7919 * (number + 1);
    do {
      IoBatch batch;
      absl::Status status = point_.scattered
                                ? AddScattered(batch, buffer, random)
                                : AddPiece(batch, buffer, 0, NextInOrder(), point_.io_bytes);
      if (status.ok()) status = batch.Run();
      if (!status.ok()) {
        const MutexLock lock(mutex_);
        if (status_.ok()) status_ = status;
        failed_ = true;
        return;
      }
      ++done_;
    } while (!failed_ && Clock::now() < until_);
  }

  std::uint64_t NextInOrder() { return next_++ % (bytes_ / point_.io_bytes) * point_.io_bytes; }

  // Each block of the I/O is another one of the volume.
  absl::Status AddScattered(IoBatch& batch, const AlignedBuffer& buffer, std::uint64_t& random) {
    const std::uint64_t block = point_.geometry_bytes;
    for (std::uint64_t at = 0; at < point_.io_bytes; at += block) {
      const std::uint64_t bytes = std::min(block, point_.io_bytes - at);
      const std::uint64_t offset = NextRandom(random) % (bytes_ / block) * block;
      if (absl::Status s = AddPiece(batch, buffer, at, offset, bytes); !s.ok()) return s;
    }
    return absl::OkStatus();
  }

  absl::Status AddPiece(IoBatch& batch, const AlignedBuffer& buffer, std::uint64_t at,
                        std::uint64_t offset, std::uint64_t bytes) {
    std::vector<LunRange> ranges;
    const std::uint64_t block = map_.block_bytes();
    if (absl::Status s =
            map_.Map(PoolId(0), PoolBlock(offset / block), offset % block, bytes, ranges);
        !s.ok()) {
      return s;
    }
    const auto kind = point_.write ? LunRequest::Kind::kWrite : LunRequest::Kind::kRead;
    for (const LunRange& range : ranges) {
      batch.Add(luns_.lun(range.lun), kind, range.offset_bytes,
                {buffer.data() + at, range.length_bytes});
      at += range.length_bytes;
    }
    return absl::OkStatus();
  }

  const SweepLuns& luns_;
  const SweepPoint point_;
  const StripeMap map_;
  const std::uint64_t bytes_;
  const Clock::time_point until_;
  std::atomic<std::uint64_t> next_{0}, done_{0};
  std::atomic<bool> failed_{false};
  Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

absl::Status CheckFits(const SweepLuns& luns, const SweepPoint& point) {
  const auto volume = VolumeOf(luns, point);
  if (!volume.ok()) return volume.status();
  const std::uint64_t bytes = volume->pools[0].size_blocks() * volume->block_bytes;
  if (bytes >= point.io_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(TextOf(point), ": is more than the area of ",
                                                 FormatSize(bytes), "; give more --area"));
}

}  // namespace

absl::StatusOr<double> MeasurePoint(const SweepLuns& luns, const SweepPoint& point,
                                    double seconds) {
  const auto volume = VolumeOf(luns, point);
  if (!volume.ok()) return volume.status();
  return PointRun(luns, point, *volume, seconds).Run();
}

absl::StatusOr<std::vector<SweepResult>> RunSweep(const SweepLuns& luns,
                                                  const SweepOptions& options) {
  std::vector<SweepResult> results;
  for (const SweepPoint& point : PointsOf(options)) {
    if (absl::Status s = CheckFits(luns, point); !s.ok()) return s;
    results.push_back({point, {}});
  }
  if (absl::Status s = luns.LayOut(options.progress); !s.ok()) return s;
  Progress progress(results.size() * options.runs, !options.progress);
  for (std::uint32_t run = 0; run < options.runs; ++run) {
    for (SweepResult& result : results) {
      progress.Step(TextOf(result.point));
      if (absl::Status s = luns.CheckStillBlank(); !s.ok()) return s;
      const auto rate = MeasurePoint(luns, result.point, options.seconds);
      if (!rate.ok()) return rate.status();
      result.rates.push_back(*rate);
    }
  }
  return results;
}

}  // namespace reel::bench
