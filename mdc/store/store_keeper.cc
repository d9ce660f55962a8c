#include "mdc/store/store_keeper.h"

#include <algorithm>

#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

constexpr std::uint64_t kGrowthRetryMs = 10'000;
// Compactions of a full store are so long apart, and so many times what one of them takes.
constexpr std::uint64_t kCompactionRestMs = 1'000;
constexpr std::uint64_t kCompactionRest = 4;
// With less than such a part of the store free beyond its reserve it is tight.
constexpr std::uint64_t kTightPart = 8;
constexpr std::uint64_t kLeastGrowthBytes = 16 * kMiB;

}  // namespace

bool StoreKeeper::Watch() {
  const std::uint64_t free_bytes = free_bytes_ ? free_bytes_(store_.fs()) : store_.fs().FreeBytes();
  const std::uint64_t reserved_bytes = store_.fs().ReservedBytes();
  if (free_bytes < 2 * reserved_bytes && !region_) Grow(free_bytes);
  if (free_bytes >= reserved_bytes) {
    tight_ = IsTight(free_bytes, reserved_bytes);
    core_.OnStoreSpace(tight_ ? Core::StoreSpace::kTight : Core::StoreSpace::kAmple,
                       /*commits_wait=*/false);
    return false;
  }
  core_.OnStoreSpace(region_ ? Core::StoreSpace::kGrowing : Core::StoreSpace::kFull,
                     free_bytes < store_.fs().WorkingBytes());
  // One that finds no room for what it makes has taken it from others meanwhile, for nothing.
  const auto fits = [&] {
    return free_bytes >= reserved_bytes / 2 || free_bytes >= store_.db().CompactionBytes();
  };
  return !region_ && fits() && Compacts();
}

// Not before a store that may grow does. It stays so until some more is free: compactions take
// room, and give it back.
bool StoreKeeper::IsTight(std::uint64_t free_bytes, std::uint64_t reserved_bytes) const {
  const std::uint64_t part = std::min(store_.fs().SizeBytes() / kTightPart, reserved_bytes);
  return free_bytes < reserved_bytes + part + (tight_ ? part / 4 : 0);
}

// Of a full store: RocksDB by itself compacts when much is written, and now little is. The rest
// after each bounds what a store that stays full costs.
bool StoreKeeper::Compacts() {
  const std::uint64_t removals = store_.db().removals();
  const std::uint64_t now_ms = clock_.NowMs();
  if (compacting_ || removals == compacted_removals_ || now_ms < next_compaction_ms_) return false;
  compacting_ = true;
  compaction_begun_ms_ = now_ms;
  compacted_removals_ = removals;
  return true;
}

void StoreKeeper::OnCompacted(const absl::Status& outcome) {
  compacting_ = false;
  if (!outcome.ok()) compacted_removals_ = UINT64_MAX;  // once more
  const std::uint64_t now_ms = clock_.NowMs();
  next_compaction_ms_ =
      now_ms + std::max(kCompactionRestMs, kCompactionRest * (now_ms - compaction_begun_ms_));
}

void StoreKeeper::Grow(std::uint64_t free_bytes) {
  const std::uint64_t now_ms = clock_.NowMs();
  if (now_ms < next_growth_ms_) return;
  const metafs::MetaFs& fs = store_.fs();
  const PoolId pool = store_.regions().front().pool;
  if ((descriptor_.pools[pool.value()].flags & Pool::kData) == 0) return;
  // Each region doubles the store: their number is limited.
  auto region = core_.TakeRegion(pool, kLeastGrowthBytes / descriptor_.block_bytes,
                                 fs.SizeBytes() / descriptor_.block_bytes);
  if (region.ok()) region_ = *region;
  if (region.ok() || absl::IsUnavailable(region.status())) return;  // if not now, soon
  if (free_bytes < fs.ReservedBytes()) {
    spdlog::warn("volume {}: the metadata store is nearly full and cannot grow: {}",
                 descriptor_.name, std::string(region.status().message()));
  }
  next_growth_ms_ = now_ms + kGrowthRetryMs;
}

void StoreKeeper::WatchRoom(const SpaceLimits& limits) {
  if (!room_.IsDue(clock_.NowMs())) return;
  const PoolId pool = store_.regions().front().pool;
  if ((descriptor_.pools[pool.value()].flags & Pool::kData) != 0) return;
  const metafs::MetaFs& fs = store_.fs();
  const auto told = room_.Look("the metadata store", std::min(fs.FreeBytes(), fs.SizeBytes()),
                               fs.SizeBytes(), limits);
  if (told) spdlog::warn("volume {}: {}", descriptor_.name, *told);
}

std::optional<Run> StoreKeeper::OnDurable(Sequence durable) {
  if (!region_ || region_handed_over_ || durable < region_->sequence) return std::nullopt;
  region_handed_over_ = true;
  return region_->run;
}

void StoreKeeper::OnRegionAdded(const absl::Status& outcome) {
  region_.reset();
  region_handed_over_ = false;
  if (outcome.ok()) {
    spdlog::info("volume {}: the metadata store has {} MiB now", descriptor_.name,
                 store_.fs().SizeBytes() / kMiB);
    return;
  }
  spdlog::error("volume {}: the metadata store did not grow: {}; fsck.reelfs finds the blocks",
                descriptor_.name, std::string(outcome.message()));
  next_growth_ms_ = clock_.NowMs() + kGrowthRetryMs;
}

}  // namespace reel::mdc
