// The metadata store of one volume, opened as a whole: the LUN space of its metadata region, metafs
// on that space, RocksDB's environment on metafs, and the MetaDb on top. mkfs makes it, the
// controller serves from it, fsck reads it.
//
// Invariants:
//   1. The parts live and die together, in that order: the MetaDb closes first.
//   2. The region lies in the volume's first metadata pool, from its block 0 on, where every opener
//      finds metafs's superblock without any other knowledge.
//   3. A read-only store writes nothing to any LUN.
// The caller holds the claim of the seat LUN (Lun::ClaimForThisProcess) before it opens a store for
// writing, and the volume outlives the store.
// Threads: Open and Format from one thread; db() as MetaDb says.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mdc/metadb/meta_db.h"
#include "mdc/metafs/metafs.h"
#include "mdc/metafs/pool_space.h"
#include "mdc/space/allocator.h"
#include "mdc/store/rocks_env.h"
#include "volume/base/types.h"
#include "volume/format/lun_scan.h"

namespace reel::mdc {

struct StoreOptions {
  bool read_only = false;  // for fsck: the log is replayed in memory, nothing is written
  Epoch epoch{};           // of the seat; the next one, where that is higher
  std::uint64_t cache_bytes = 512ull << 20;
  std::uint64_t write_buffer_bytes = 64ull << 20;
  // Asked before each write to the LUNs, on any thread; what it refuses with ends the store.
  std::function<absl::Status()> may_write{};
  // Called when the files are found, before any of them is changed or removed, or space used again.
  std::function<void()> before_change{};
  RocksEnv::Wrap wrap_env{};  // for tests
};

class Store {
 public:
  // Opens the store of a formatted volume, for writing in a new epoch of metafs. NOT_FOUND: the
  // metadata region holds no store. DATA_LOSS names what is damaged.
  static absl::StatusOr<std::unique_ptr<Store>> Open(OpenVolume& volume,
                                                     const StoreOptions& options);
  // Makes an empty store in the first `region_blocks` blocks of the first metadata pool, whatever
  // lay there. INVALID_ARGUMENT: too small, see MinimumRegionBlocks.
  static absl::StatusOr<std::unique_ptr<Store>> Format(OpenVolume& volume,
                                                       std::uint64_t region_blocks,
                                                       const StoreOptions& options);
  // The size of the memtables that suits a store of this size.
  static std::uint64_t WriteBufferBytes(std::uint64_t wanted_bytes, std::uint64_t store_bytes);
  // What is wrong with the bytes of the store, one line each; reads all of it, by so many threads,
  // and writes nothing.
  // The records in it are the checker's (mdc/check/checker.h).
  static std::vector<std::string> Check(OpenVolume& volume, std::size_t threads = 1);

  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  MetaDb& db() { return *db_; }
  const metafs::MetaFs& fs() const { return *fs_; }

  // Makes the store larger by a run of a metadata pool that the allocator has durably given away to
  // it.
  absl::Status AddRegion(const Run& run);
  // The volume by a later map, which outlives the store.
  void TakeMap(const OpenVolume& volume) { space_.TakeMap(volume); }
  // What the pool that is the store's alone has, and the store has not: nothing, or one run. A map
  // that grew has given it, and a controller has died since, perhaps.
  std::optional<Run> UnusedOfOwnPool(const VolumeDescriptor& descriptor) const;
  absl::Status AddOwn(const Run& run) {
    return fs_->AddRegion({run.pool, run.start, run.length_blocks});
  }

  // The blocks that the store owns: never free, never in a file.
  const std::vector<Run>& regions() const { return regions_; }

 private:
  Store(OpenVolume& volume, const StoreOptions& options);
  absl::Status Mount();
  absl::Status OpenDb(bool create);

  const StoreOptions options_;
  std::vector<Run> regions_;
  metafs::PoolSpace space_;
  std::unique_ptr<metafs::MetaFs> fs_;
  std::unique_ptr<RocksEnv> env_;
  std::unique_ptr<MetaDb> db_;
};

// A file that is there while a store is being rebuilt (mdc/repair/store_repair.h): such a one is
// not opened.
inline constexpr char kRebuildingPath[] = "/REBUILDING";

// The smallest region that a store of this block size fits in.
std::uint64_t MinimumRegionBlocks(std::uint32_t block_bytes);

}  // namespace reel::mdc
