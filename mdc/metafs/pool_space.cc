#include "mdc/metafs/pool_space.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"
#include "volume/base/thread.h"
#include "volume/lun/lun_fault.h"
#include "volume/scsi/lun_times.h"

namespace reel::metafs {
namespace {

// A LUN that is busy for longer, some 0.6 s, is worth a line.
constexpr std::uint32_t kTriesUnsaid = 6;

}  // namespace

Region FirstRegion(const VolumeDescriptor& descriptor, std::uint64_t length_blocks) {
  std::uint32_t pool = 0;
  while (pool + 1 < descriptor.pools.size() && !(descriptor.pools[pool].flags & Pool::kMetadata)) {
    ++pool;
  }
  return {PoolId(pool), PoolBlock(0), length_blocks};
}

PoolSpace::PoolSpace(const OpenVolume& volume, MayWrite may_write)
    : block_bytes_(volume.descriptor.block_bytes),
      may_write_(std::move(may_write)),
      regions_(std::make_shared<const std::vector<Region>>(
          1, FirstRegion(volume.descriptor, DivideUp(kHeadBytes, block_bytes_)))) {
  TakeMap(volume);
}

// A LUN keeps its progress from map to map, wherever it stands.
void PoolSpace::TakeMap(const OpenVolume& volume) {
  const auto before = view();
  std::map<const Lun*, std::shared_ptr<Progress>> known;
  for (std::size_t i = 0; before != nullptr && i < before->progress.size(); ++i) {
    known[before->volume.luns[i].get()] = before->progress[i];
  }
  std::vector<std::shared_ptr<Progress>> progress;
  for (const auto& lun : volume.luns) {
    std::shared_ptr<Progress>& one = known[lun.get()];
    if (one == nullptr) one = std::make_shared<Progress>();
    progress.push_back(one);
  }
  auto next =
      std::make_shared<const View>(View{volume, StripeMap(volume.descriptor), std::move(progress)});
  MutexLock lock(mutex_);
  view_ = std::move(next);
}

std::shared_ptr<const PoolSpace::View> PoolSpace::view() const {
  MutexLock lock(mutex_);
  return view_;
}

std::uint64_t PoolSpace::size_bytes() const {
  MutexLock lock(mutex_);
  std::uint64_t blocks = 0;
  for (const Region& region : *regions_) blocks += region.length_blocks;
  return blocks * block_bytes();
}

absl::Status PoolSpace::SetRegions(const std::vector<Region>& regions) {
  const std::shared_ptr<const View> by = view();
  const std::vector<Pool>& pools = by->volume.descriptor.pools;
  for (const Region& region : regions) {
    const std::uint32_t pool = region.pool.value();
    if (pool >= pools.size() || !(pools[pool].flags & Pool::kMetadata) ||
        region.first_block.value() > by->map.pool_blocks(region.pool) ||
        region.length_blocks > by->map.pool_blocks(region.pool) - region.first_block.value()) {
      return absl::OutOfRangeError(absl::StrCat(
          "metadata region at block ", region.first_block.value(), " +", region.length_blocks,
          " of pool ", pool, " does not lie in a metadata pool of the volume"));
    }
  }
  MutexLock lock(mutex_);
  regions_ = std::make_shared<const std::vector<Region>>(regions);
  return absl::OkStatus();
}

absl::Status PoolSpace::Transfer(const View& view, LunRequest::Kind kind,
                                 std::uint64_t offset_bytes, std::byte* memory,
                                 std::uint64_t length_bytes, std::vector<LunRange>& lun_ranges) {
  std::shared_ptr<const std::vector<Region>> regions;
  {
    MutexLock lock(mutex_);
    regions = regions_;
  }
  std::uint64_t left = length_bytes;
  for (const Region& region : *regions) {
    if (left == 0) break;
    const std::uint64_t region_bytes = region.length_blocks * block_bytes();
    if (offset_bytes >= region_bytes) {
      offset_bytes -= region_bytes;
      continue;
    }
    const std::uint64_t part = std::min(left, region_bytes - offset_bytes);
    const PoolBlock block = region.first_block + offset_bytes / block_bytes();
    absl::Status s =
        view.map.Map(region.pool, block, offset_bytes % block_bytes(), part, lun_ranges);
    if (!s.ok()) return s;
    offset_bytes = 0;
    left -= part;
  }
  if (left > 0) return absl::OutOfRangeError("metadata store: I/O beyond its regions");
  return Persist([&] {
    // As near to the submission as can be: this may be the first that a paused process does.
    if (kind == LunRequest::Kind::kWrite && may_write_) {
      if (absl::Status s = may_write_(); !s.ok()) return s;
    }
    IoBatch batch;
    std::byte* at = memory;
    for (const LunRange& lun_range : lun_ranges) {
      batch.Add(*view.volume.luns[lun_range.lun], kind, lun_range.offset_bytes,
                {at, lun_range.length_bytes});
      at += lun_range.length_bytes;
    }
    return batch.Run();
  });
}

absl::Status PoolSpace::Persist(const std::function<absl::Status()>& once) const {
  std::uint64_t waited_ms = 0;
  for (std::uint32_t tries = 0;; ++tries) {
    absl::Status status = once();
    const LunFault fault = FaultOf(status);
    const bool passes = fault == LunFault::kBusy || fault == LunFault::kAborted;
    if (!passes || waited_ms >= LunBusyLimitMs()) return status;
    const std::uint64_t pause_ms = LunBusyPauseMs(tries);
    SleepFor(std::chrono::milliseconds(pause_ms));
    waited_ms += pause_ms;
    if (tries == kTriesUnsaid) {
      spdlog::warn("the metadata store waits for a LUN that cannot serve just now: {}",
                   std::string(status.message()));
    }
  }
}

absl::Status PoolSpace::Read(std::uint64_t offset_bytes, std::span<std::byte> to) {
  std::vector<LunRange> lun_ranges;
  return Transfer(*view(), LunRequest::Kind::kRead, offset_bytes, to.data(), to.size(), lun_ranges);
}

absl::Status PoolSpace::Write(std::uint64_t offset_bytes, std::span<const std::byte> from) {
  std::vector<LunRange> lun_ranges;
  const std::shared_ptr<const View> by = view();
  // An iovec has no const form; a write does not change the memory.
  absl::Status s = Transfer(*by, LunRequest::Kind::kWrite, offset_bytes,
                            const_cast<std::byte*>(from.data()), from.size(), lun_ranges);
  for (const LunRange& lun_range : lun_ranges) ++by->progress[lun_range.lun]->written;
  return s;
}

absl::Status PoolSpace::Flush() {
  const std::shared_ptr<const View> by = view();
  for (std::size_t lun = 0; lun < by->progress.size(); ++lun) {
    Progress& progress = *by->progress[lun];
    const std::uint64_t written = progress.written;
    if (progress.flushed >= written) continue;
    absl::Status s = Persist([&] { return by->volume.luns[lun]->Flush(); });
    if (!s.ok()) return s;
    std::uint64_t flushed = progress.flushed;
    while (flushed < written && !progress.flushed.compare_exchange_weak(flushed, written)) {
    }
  }
  return absl::OkStatus();
}

}  // namespace reel::metafs
