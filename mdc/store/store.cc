#include "mdc/store/store.h"

#include <algorithm>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "mdc/metafs/superblock.h"
#include "spdlog/spdlog.h"
#include "volume/base/env.h"

namespace reel::mdc {
namespace {

// Below it RocksDB's logs and one compaction do not fit beside each other.
constexpr std::uint64_t kMinRegionBytes = 24 * kMiB;
// Memtables are flushed when they reach this part of the region: a *buffer*. What RocksDB needs is
// counted in those (of 64 MiB at most). The largest compaction makes new tables of the eight on
// level 0 (more stop all writes) and of the four of the level below; with two memtables that have
// to be flushed first that is 14, metafs's WorkingBytes (7/32 of the region). With less than
// ReservedBytes free (10/32), what is new is refused: create, link, xattr, allocate, blocks that
// were never written. What is there may still grow: by commits of what was granted, each of which
// may cut an extent record into three, by longer names and by holes. It has the difference, six
// buffers. With less than WorkingBytes free, longer names and holes that cut an extent in two are
// refused, too, and commits wait before they are applied, but those of removed files; nobody is
// evicted for that. What deletes always goes on: its few bytes a record are flushed from the
// working space, and the compaction gives back more.
// Neither refused nor held back is what has a bound: attributes of an inode (some 60 bytes more
// than it had), free space where a truncation cuts an extent (a record a file), the records of
// sessions and their stored replies (one a slot). That these bounds lie within the working space is
// not proved for every store, nor that six buffers suffice for all commits between two looks of the
// StoreKeeper; full_store_test.cc fills the smallest stores by each kind of change.
// A log takes at most four, which is what metafs keeps for logs (1/16), and as much for those of
// the next epoch; of the two memtables that may not be flushed yet, the next start makes tables in
// a reserve of its own (3/64).
constexpr std::uint64_t kWriteBufferShare = 64;
constexpr std::uint64_t kMinWriteBufferBytes = 256 * kKiB;
// A pool of its own gives it no more, by mkfs.reelfs either.
constexpr std::uint64_t kMaxOwnBytes = 64 * kGiB;

}  // namespace

Store::Store(OpenVolume& volume, const StoreOptions& options)
    : options_(options), space_(volume, options.may_write) {}

Store::~Store() {
  db_.reset();
  env_.reset();
  if (fs_ == nullptr || fs_->read_only()) return;
  if (absl::Status status = fs_->Unmount(); !status.ok()) {
    spdlog::warn("the metadata store was not closed in order: {}; the next start recovers it",
                 std::string(status.message()));
  }
}

absl::StatusOr<std::unique_ptr<Store>> Store::Open(OpenVolume& volume,
                                                   const StoreOptions& options) {
  const std::uint64_t began_ms = SystemClock().NowMs();
  auto store = absl::WrapUnique(new Store(volume, options));
  if (absl::Status status = store->Mount(); !status.ok()) return status;
  const std::uint64_t mounted_ms = SystemClock().NowMs();
  if (absl::Status status = store->OpenDb(/*create=*/false); !status.ok()) return status;
  spdlog::info("metadata store: files found in {} ms, records recovered in {} ms",
               mounted_ms - began_ms, SystemClock().NowMs() - mounted_ms);
  return store;
}

absl::StatusOr<std::unique_ptr<Store>> Store::Format(OpenVolume& volume,
                                                     std::uint64_t region_blocks,
                                                     const StoreOptions& options) {
  if (region_blocks < MinimumRegionBlocks(volume.descriptor.block_bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the metadata region of ", region_blocks, " blocks is too small; at least ",
                     MinimumRegionBlocks(volume.descriptor.block_bytes), " are needed"));
  }
  auto store = absl::WrapUnique(new Store(volume, options));
  const metafs::FormatOptions format{
      .regions = {metafs::FirstRegion(volume.descriptor, region_blocks)}, .epoch = Epoch(1)};
  if (absl::Status status = metafs::MetaFs::Format(store->space_, format); !status.ok()) {
    return status;
  }
  if (absl::Status status = store->Mount(); !status.ok()) return status;
  if (absl::Status status = store->OpenDb(/*create=*/true); !status.ok()) return status;
  return store;
}

absl::Status Store::Mount() {
  metafs::MountOptions mount;
  mount.read_only = options_.read_only;
  mount.before_change = options_.before_change;
  if (!options_.read_only) {
    const auto reading = metafs::ReadSuperblock(space_);
    if (!reading.ok()) return reading.status();
    mount.epoch = std::max(reading->superblock.epoch + 1, options_.epoch);
  }
  auto fs = metafs::MetaFs::Mount(space_, mount);
  if (!fs.ok()) return fs.status();
  fs_ = std::move(*fs);
  for (const metafs::Region& region : fs_->regions()) {
    regions_.push_back({region.pool, region.first_block, region.length_blocks});
  }
  return absl::OkStatus();
}

std::uint64_t Store::WriteBufferBytes(std::uint64_t wanted_bytes, std::uint64_t store_bytes) {
  return std::min(wanted_bytes, std::max(store_bytes / kWriteBufferShare, kMinWriteBufferBytes));
}

absl::Status Store::OpenDb(bool create) {
  if (fs_->Find(kRebuildingPath).ok()) {
    return absl::DataLossError(
        "metadata store: a rebuild of it was begun and not ended; run fsck.reelfs --repair");
  }
  env_ = std::make_unique<RocksEnv>(*fs_, options_.wrap_env);
  const MetaDb::Options options{
      .cache_bytes = options_.cache_bytes,
      .write_buffer_bytes = WriteBufferBytes(options_.write_buffer_bytes, fs_->SizeBytes()),
      .read_only = options_.read_only,
      .create = create,
      .listener = RocksEnv::NewListener()};
  if (!create && !options_.read_only && fs_->FreeBytes() < fs_->ReservedBytes()) {
    const absl::Status removed = MetaDb::RemoveLeftovers(env_->get(), options);
    if (!removed.ok()) return removed;
  }
  auto db = MetaDb::Open(env_->get(), options);
  if (!db.ok()) return db.status();
  db_ = std::move(*db);
  if (!options_.read_only) fs_->Started();
  return absl::OkStatus();
}

absl::Status Store::AddRegion(const Run& run) {
  absl::Status status = fs_->AddRegion({run.pool, run.start, run.length_blocks});
  if (status.ok()) regions_.push_back(run);
  return status;
}

std::optional<Run> Store::UnusedOfOwnPool(const VolumeDescriptor& descriptor) const {
  const std::vector<metafs::Region> regions = fs_->regions();
  const PoolId own = regions.front().pool;
  const Pool& pool = descriptor.pools[own.value()];
  if ((pool.flags & Pool::kData) != 0) return std::nullopt;
  std::uint64_t end = 0;
  for (const metafs::Region& region : regions) {
    if (region.pool == own) end = std::max(end, region.first_block.value() + region.length_blocks);
  }
  const std::uint64_t most = std::min(pool.size_blocks(), kMaxOwnBytes / descriptor.block_bytes);
  // It has always had whole sets, unless it was made to have less.
  std::uint64_t sets_end = 0;
  for (const StripeSet& set : pool.sets) {
    sets_end += pool.BlocksOf(set);
    if (sets_end >= end) break;
  }
  if (sets_end != end || end >= most) return std::nullopt;
  return Run{own, PoolBlock(end), most - end};
}

std::vector<std::string> Store::Check(OpenVolume& volume, std::size_t threads) {
  metafs::PoolSpace space(volume);
  return metafs::MetaFs::Check(space, threads);
}

std::uint64_t MinimumRegionBlocks(std::uint32_t block_bytes) {
  return DivideUp(kMinRegionBytes, block_bytes);
}

}  // namespace reel::mdc
