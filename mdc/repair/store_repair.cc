#include "mdc/repair/store_repair.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mdc/metadb/schema.h"
#include "mdc/metafs/file_io.h"
#include "mdc/metafs/journal_reader.h"
#include "mdc/metafs/metafs.h"
#include "mdc/metafs/pool_space.h"
#include "mdc/metafs/superblock.h"
#include "mdc/repair/rocks_salvage.h"
#include "mdc/store/rocks_env.h"
#include "mdc/store/store.h"
#include "proto/records.pb.h"
#include "volume/format/stripe_map.h"

namespace reel::mdc {
namespace {

using metafs::MetaFs;

// Where MetaDb has its files, and where they wait while they are being copied.
constexpr char kStorePath[] = "/meta";
constexpr char kOldPath[] = "/meta.old";
// A file that is there when the manifest of what waits there is not the store's own any more.
constexpr char kNoManifestPath[] = "/REBUILDING.manifest";
constexpr std::uint64_t kCacheBytes = 64 * kMiB;
constexpr std::size_t kRecordsPerBatch = 4096;
// Batches are synced now and then, so that the log stays short.
constexpr int kBatchesPerSync = 16;

// More than the commits that a lost log or table may have held: sequences never go back.
constexpr std::uint64_t kSequencesSkipped = std::uint64_t{1} << 32;

using Did = std::function<void(const Problem&)>;

// The volume record `value` with sequences that go on behind `used` of the store. Where there is no
// such record, the rest of it is the repairer's to find out.
std::string WithSequencesBehind(const std::string& value, std::uint64_t used) {
  v1::VolumeRecord volume;
  if (!volume.ParseFromString(value)) volume.Clear();
  volume.set_sequence_base(volume.sequence_base() + used + kSequencesSkipped);
  return volume.SerializeAsString();
}

std::string KeyText(const std::string& key) {
  if (key.empty()) return "the end";
  const auto family = static_cast<unsigned char>(key[0]);
  std::uint64_t number = 0;
  for (std::size_t i = 1; i < 9; ++i) {
    number = number << 8 | (i < key.size() ? static_cast<unsigned char>(key[i]) : 0);
  }
  const std::string name = family > ' ' && family < 0x7f ? std::string(1, key[0]) : "?";
  return absl::StrCat("family ", name, ", ", key[0] == 'F' ? "pool " : "number ",
                      key[0] == 'F' ? number >> 32 : number);
}

// Writes the salvaged records into a new store.
class RecordWriter {
 public:
  explicit RecordWriter(MetaDb& db) : db_(db) {}

  absl::Status Take(std::string_view key, std::string_view value) {
    if (key == schema::VolumeKey()) volume_ = value;
    batch_.Put(std::string(key), std::string(value));
    ++records_;
    return batch_.changes().size() < kRecordsPerBatch ? absl::OkStatus() : Apply();
  }
  // Sequences go on where the old store ended.
  absl::Status Finish(std::uint64_t last_sequence) {
    batch_.Put(schema::VolumeKey(), WithSequencesBehind(volume_, last_sequence));
    if (absl::Status status = Apply(); !status.ok()) return status;
    return db_.Sync().status();
  }
  std::uint64_t records() const { return records_; }

 private:
  absl::Status Apply() {
    const WriteBatch batch = std::exchange(batch_, {});
    if (batch.empty()) return absl::OkStatus();
    if (absl::Status status = db_.Apply(batch).status(); !status.ok()) return status;
    return ++batches_ % kBatchesPerSync == 0 ? db_.Sync().status() : absl::OkStatus();
  }

  MetaDb& db_;
  WriteBatch batch_;
  std::string volume_;
  std::uint64_t records_ = 0;
  int batches_ = 0;
};

class StoreRepairer {
 public:
  StoreRepairer(OpenVolume& volume, const StoreRepairOptions& options, const Did& did)
      : volume_(volume), space_(volume, options.may_write), options_(options), did_(did) {}

  absl::StatusOr<StoreRepair> Run() {
    if (absl::Status status = MendSuperblock(); !status.ok()) return status;
    if (IsWhole()) return StoreRepair::kWhole;
    if (!options_.rebuild) {
      return absl::DataLossError(
          "the metadata store has lost something, so that it would have to be rebuilt from the "
          "rest; fsck.reelfs --repair does that");
    }
    if (absl::Status status = Mount(); !status.ok()) return status;
    absl::Status status = FindDamage();
    if (status.ok()) status = must_rebuild_ ? Rebuild() : ReplayLogs();
    if (!status.ok()) return status;
    if (absl::Status ended = fs_->Unmount(); !ended.ok()) return ended;
    return StoreRepair::kRebuilt;
  }

 private:
  void Report(std::string_view code, std::string where, std::string what) {
    did_({std::string(code), std::move(where), std::move(what)});
  }

  absl::Status MendSuperblock() {
    const auto reading = metafs::ReadSuperblock(space_);
    if (absl::IsDataLoss(reading.status()) || absl::IsNotFound(reading.status())) {
      return MakeSuperblock();
    }
    if (!reading.ok()) return reading.status();
    for (int slot = 0; slot < 2; ++slot) {
      if (reading->slots[slot].ok()) continue;
      absl::Status status = metafs::WriteSuperblock(space_, reading->superblock, slot);
      if (!status.ok()) return status;
      Report("store", absl::StrCat("metadata superblock slot ", slot),
             "rewritten from the other one");
    }
    return absl::OkStatus();
  }

  // Both slots are lost: the newest journal knows what stood in them.
  absl::Status MakeSuperblock() {
    std::vector<metafs::Region> pools;
    for (std::uint32_t pool = 0; pool < volume_.descriptor.pools.size(); ++pool) {
      if (!(volume_.descriptor.pools[pool].flags & Pool::kMetadata)) continue;
      const std::uint64_t blocks = StripeMap(volume_.descriptor).pool_blocks(PoolId(pool));
      pools.push_back({PoolId(pool), PoolBlock(0), blocks});
    }
    const auto found = metafs::FindSuperblock(space_, pools);
    if (absl::IsNotFound(found.status())) {
      return absl::DataLossError(
          "both superblocks of the metadata store are lost, and no journal is there that tells "
          "where its files lie: it cannot be repaired; make the volume anew and restore a backup");
    }
    if (!found.ok()) return found.status();
    absl::Status status = metafs::WriteSuperblock(space_, *found, /*first_slot=*/0);
    if (!status.ok()) return status;
    Report("store", "metadata superblock",
           absl::StrCat("both slots made anew, from the journal of epoch ", found->epoch.value()));
    return absl::OkStatus();
  }

  // Nothing is wrong with any file, and RocksDB takes them.
  bool IsWhole() {
    if (!MetaFs::Check(space_).empty()) return false;
    auto fs = MetaFs::Mount(space_, {.epoch = Epoch(0), .read_only = true});
    if (!fs.ok() || (*fs)->Find(kRebuildingPath).ok()) return false;
    RocksEnv env(**fs);
    auto db = MetaDb::Open(env.get(), {.cache_bytes = kCacheBytes, .read_only = true});
    return db.ok() && (*db)->VerifyChecksums().ok();
  }

  absl::Status Mount() {
    const auto reading = metafs::ReadSuperblock(space_);
    if (!reading.ok()) return reading.status();
    std::vector<std::string> lost;
    auto fs = MetaFs::Mount(space_, {.epoch = reading->superblock.epoch + 1, .salvage = &lost});
    if (!fs.ok()) return fs.status();
    fs_ = *std::move(fs);
    for (std::string& line : lost) {
      // One that ends early names the tables of an earlier day: the rest would be taken for waste.
      manifest_lost_ |= line.find("/MANIFEST-") != line.npos;
      Report("store", "metadata store", std::move(line));
    }
    return absl::OkStatus();
  }

  // Which tables are damaged, and whether RocksDB can go on with the rest.
  absl::Status FindDamage() {
    const bool begun = fs_->Find(kRebuildingPath).ok();
    const std::string directory = begun ? kOldPath : kStorePath;
    for (const std::string& name : fs_->List(directory)) {
      const std::string path = absl::StrCat(directory, "/", name);
      const auto file = fs_->Find(path);
      if (!file.ok() || (*file)->kind != metafs::FileKind::kTable) continue;
      const absl::Status verified = metafs::VerifyTable(*fs_, **file);
      if (verified.ok()) continue;
      if (!absl::IsDataLoss(verified)) return verified;  // a LUN that fails is no damage
      if (name.ends_with(".sst")) {
        damaged_tables_.insert(std::strtoull(name.c_str(), nullptr, 10));
        must_rebuild_ = true;
        when_rebuilt_.push_back({"store", absl::StrCat("metadata file ", path),
                                 "damaged: what can be read of it is taken"});
      } else {
        if (absl::Status removed = fs_->Remove(path); !removed.ok()) return removed;
        Report("store", absl::StrCat("metadata file ", path), "damaged: dropped, and made anew");
      }
    }
    if (absl::Status status = fs_->Commit(); !status.ok()) return status;
    must_rebuild_ |= begun || manifest_lost_;
    if (must_rebuild_) return absl::OkStatus();
    RocksEnv env(*fs_);
    auto db = MetaDb::Open(env.get(), {.cache_bytes = kCacheBytes, .read_only = true});
    const absl::Status status = db.ok() ? (*db)->VerifyChecksums() : db.status();
    if (!status.ok()) {
      Report("store", "metadata store", std::string(status.message()));
      must_rebuild_ = true;
    }
    return absl::OkStatus();
  }

  // What was cut off of the logs stays cut off: RocksDB replays them into tables.
  absl::Status ReplayLogs() {
    RocksEnv env(*fs_);
    const MetaDb::Options options{
        .cache_bytes = kCacheBytes,
        .write_buffer_bytes = Store::WriteBufferBytes(64 * kMiB, fs_->SizeBytes())};
    // A full store has room for the start, not for what starts that were cut off have left.
    if (fs_->FreeBytes() < fs_->ReservedBytes()) {
      const absl::Status removed = MetaDb::RemoveLeftovers(env.get(), options);
      if (!removed.ok()) return removed;
    }
    auto db = MetaDb::Open(env.get(), options);
    if (!db.ok()) return db.status();
    std::string volume;
    if (auto found = (*db)->Get(schema::VolumeKey(), &volume, Tier::kAll); !found.ok()) {
      return found.status();
    }
    WriteBatch batch;
    batch.Put(schema::VolumeKey(), WithSequencesBehind(volume, 0));
    if (auto applied = (*db)->Apply(batch); !applied.ok()) return applied.status();
    return (*db)->Sync().status();
  }

  // All that can be read goes into a new store; the old one moves aside and stays until the new one
  // is whole. While the mark is there, neither is served. Where there is no room for both, or it
  // cannot be written, the old one moves back.
  absl::Status Rebuild() {
    if (fs_->Find(kRebuildingPath).ok()) {
      RemoveAll(kStorePath);
    } else {
      if (absl::Status status = Mark(kRebuildingPath); !status.ok()) return NotCopied(status);
      if (absl::Status status = MoveAll(kStorePath, kOldPath); !status.ok()) return status;
    }
    if (absl::Status status = fs_->Commit(); !status.ok()) return status;
    absl::Status copied = manifest_lost_ ? absl::DataLossError("its manifest is cut off") : Copy();
    if (absl::IsDataLoss(copied)) {
      if (absl::Status status = Mark(kNoManifestPath); !status.ok()) return NotCopied(status);
      Report("store", "metadata store",
             "its manifest cannot be used: made anew from the tables and logs that can be read");
      RocksEnv env(*fs_);
      if (absl::Status status = RebuildManifest(env.get(), kOldPath); !status.ok()) return status;
      RemoveAll(kStorePath);
      if (absl::Status status = fs_->Commit(); !status.ok()) return status;
      copied = Copy();
    }
    if (!copied.ok()) {
      const absl::Status undone = Undo();
      return undone.ok() ? copied : undone;
    }
    RemoveAll(kOldPath);
    for (const Problem& line : when_rebuilt_) did_(line);
    return RemoveMarks();
  }

  // The store is again what it was, damaged, and can be served from as well as then: not without
  // its own manifest.
  absl::Status Undo() {
    if (fs_->Find(kNoManifestPath).ok()) return absl::OkStatus();
    RemoveAll(kStorePath);
    if (absl::Status status = MoveAll(kOldPath, kStorePath); !status.ok()) return status;
    if (absl::Status status = RemoveMarks(); !status.ok()) return status;
    return fs_->Unmount();
  }

  absl::Status RemoveMarks() {
    for (const char* mark : {kNoManifestPath, kRebuildingPath}) {
      if (!fs_->Find(mark).ok()) continue;
      if (absl::Status status = fs_->Remove(mark); !status.ok()) return status;
    }
    return fs_->Commit();
  }

  absl::Status Mark(const char* path) {
    const auto mark = fs_->Create(path);
    if (!mark.ok()) return mark.status();
    metafs::TableWriter writer(*fs_, *mark);
    if (absl::Status status = writer.Append("rebuilding"); !status.ok()) return status;
    return writer.Finish();
  }

  absl::Status Copy() {
    room_bytes_ = fs_->FreeBytes();
    old_bytes_ = fs_->SizeBytes() - std::min(room_bytes_, fs_->SizeBytes());
    RocksEnv env(*fs_);
    auto db = MetaDb::Open(
        env.get(), {.cache_bytes = kCacheBytes,
                    .write_buffer_bytes = Store::WriteBufferBytes(64 * kMiB, fs_->SizeBytes()),
                    .create = true});
    if (!db.ok()) return NotCopied(db.status());
    RecordWriter writer(**db);
    absl::Status written;
    const auto salvage = SalvageRecords(env.get(), kOldPath, {.damaged_tables = damaged_tables_},
                                        [&](std::string_view key, std::string_view value) {
                                          written = writer.Take(key, value);
                                          return written;
                                        });
    if (!written.ok()) return NotCopied(written);
    if (!salvage.ok()) return salvage.status();
    written = writer.Finish(salvage->last_sequence);
    if (!written.ok()) return NotCopied(written);
    for (const auto& [start, end] : salvage->gaps) {
      Report("records-lost", "metadata store",
             absl::StrCat("records from ", KeyText(start), " to ", KeyText(end),
                          " could not be read; older ones were taken where there are any"));
    }
    Report("store", "metadata store",
           absl::StrCat("rebuilt from ", writer.records(), " records that could be read"));
    return absl::OkStatus();
  }
  // What could not be written. A LUN that fails is no lack of room.
  absl::Status NotCopied(const absl::Status& status) const {
    if (!fs_->WasFull()) {
      return {status.code(), absl::StrCat("the metadata store could not be copied: ",
                                          status.message(), "; run the repair again")};
    }
    return absl::ResourceExhaustedError(absl::StrCat(
        "the metadata store is too full to be rebuilt: a second copy of its records does not fit "
        "into the ",
        room_bytes_ / kMiB, " MiB that are free beside its ", old_bytes_ / kMiB, " MiB; ",
        fs_->Find(kNoManifestPath).ok()
            ? "without its manifest it cannot be served either: restore a backup"
            : "it is as it was: serve the volume, remove files, and run the repair again"));
  }

  absl::Status MoveAll(const std::string& from, const std::string& to) {
    for (const std::string& name : fs_->List(from)) {
      const std::string path = absl::StrCat(from, "/", name);
      if (!fs_->Find(path).ok()) continue;  // a directory: of what RocksDB put aside
      absl::Status status = fs_->Rename(path, absl::StrCat(to, "/", name));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  void RemoveAll(const std::string& directory) {
    for (const std::string& name : fs_->List(directory)) {
      const std::string path = absl::StrCat(directory, "/", name);
      if (fs_->Find(path).ok()) {
        fs_->Remove(path).IgnoreError();  // it was found; what cannot be written, Commit tells
      } else {
        RemoveAll(path);
      }
    }
    fs_->RemoveDirectory(directory);
  }

  const OpenVolume& volume_;
  metafs::PoolSpace space_;
  const StoreRepairOptions options_;
  const Did& did_;
  std::unique_ptr<MetaFs> fs_;
  std::vector<Problem> when_rebuilt_;       // what is to be told then
  std::set<std::uint64_t> damaged_tables_;  // file numbers
  bool must_rebuild_ = false, manifest_lost_ = false;
  std::uint64_t room_bytes_ = 0, old_bytes_ = 0;  // when the copy was begun
};

}  // namespace

absl::StatusOr<StoreRepair> RepairStore(OpenVolume& volume, const StoreRepairOptions& options,
                                        const std::function<void(const Problem&)>& did) {
  return StoreRepairer(volume, options, did).Run();
}

}  // namespace reel::mdc
