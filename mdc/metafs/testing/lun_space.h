// A metadata store's space on one LUN, for tests: pool 0, its blocks from the LUN's first byte on.
// Threads: as Space says.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "mdc/metafs/space.h"
#include "volume/base/mutex.h"
#include "volume/lun/lun.h"

namespace reel::metafs {

class LunSpace final : public Space {
 public:
  static constexpr std::uint32_t kBlockBytes = 4096;

  explicit LunSpace(Lun& lun)
      : lun_(lun), regions_{{PoolId(0), PoolBlock(0), kHeadBytes / kBlockBytes}} {}

  // All of the LUN in one region.
  Region Whole() const { return {PoolId(0), PoolBlock(0), lun_.size_bytes() / kBlockBytes}; }

  std::uint32_t block_bytes() const override { return kBlockBytes; }
  std::uint64_t size_bytes() const override {
    MutexLock lock(mutex_);
    std::uint64_t blocks = 0;
    for (const Region& region : regions_) blocks += region.length_blocks;
    return blocks * kBlockBytes;
  }
  absl::Status SetRegions(const std::vector<Region>& regions) override {
    const std::uint64_t blocks = lun_.size_bytes() / kBlockBytes;
    for (const Region& region : regions) {
      if (region.pool.value() != 0 || region.first_block.value() > blocks ||
          region.length_blocks > blocks - region.first_block.value()) {
        return absl::OutOfRangeError("region out of the LUN");
      }
    }
    MutexLock lock(mutex_);
    regions_ = regions;
    return absl::OkStatus();
  }
  absl::Status Read(std::uint64_t offset_bytes, std::span<std::byte> to) override {
    return Transfer(offset_bytes, to.size(),
                    [&](std::uint64_t at, std::uint64_t from, std::uint64_t n) {
                      return lun_.Read(at, to.subspan(from, n));
                    });
  }
  absl::Status Write(std::uint64_t offset_bytes, std::span<const std::byte> from) override {
    ++writes;
    return Transfer(offset_bytes, from.size(),
                    [&](std::uint64_t at, std::uint64_t in, std::uint64_t n) {
                      return lun_.Write(at, from.subspan(in, n));
                    });
  }
  absl::Status Flush() override {
    ++flushes;
    return lun_.Flush();
  }

  std::atomic<std::uint64_t> writes{0};
  std::atomic<std::uint64_t> flushes{0};

 private:
  template <typename Io>
  absl::Status Transfer(std::uint64_t offset, std::uint64_t length, Io io) {
    std::vector<Region> regions;
    {
      MutexLock lock(mutex_);
      regions = regions_;
    }
    std::uint64_t done = 0;
    for (const Region& region : regions) {
      const std::uint64_t bytes = region.length_blocks * kBlockBytes;
      if (done == length) break;
      if (offset >= bytes) {
        offset -= bytes;
        continue;
      }
      const std::uint64_t part = std::min(length - done, bytes - offset);
      const absl::Status s = io(region.first_block.value() * kBlockBytes + offset, done, part);
      if (!s.ok()) return s;
      done += part;
      offset = 0;
    }
    return done == length ? absl::OkStatus() : absl::OutOfRangeError("I/O beyond the space");
  }

  Lun& lun_;
  mutable Mutex mutex_;
  std::vector<Region> regions_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel::metafs
