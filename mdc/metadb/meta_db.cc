#include "mdc/metadb/meta_db.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "absl/strings/str_cat.h"
#include "mdc/metadb/empty_ranges.h"
#include "mdc/metadb/rocks_snapshot.h"
#include "mdc/metadb/rocks_tables.h"
#include "rocksdb/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/filter_policy.h"
#include "rocksdb/listener.h"
#include "rocksdb/perf_context.h"
#include "rocksdb/perf_level.h"
#include "rocksdb/slice_transform.h"
#include "rocksdb/statistics.h"
#include "rocksdb/table.h"
#include "rocksdb/utilities/table_properties_collectors.h"
#include "rocksdb/write_batch.h"
#include "volume/base/mutex.h"

namespace reel::mdc {
namespace {

constexpr char kName[] = "/meta";
// A sync takes at least this much of the log, however small its batch is.
constexpr std::uint64_t kSyncBytes = 4 * kKiB;
// The log is cut when it takes this many times the write buffer: small batches fill it faster on
// the LUN than RocksDB, which counts their bytes, believes.
constexpr std::uint64_t kLogToWriteBuffer = 4;
// An edit of the manifest is some 150 bytes to RocksDB, and a sync on the LUN: so it begins anew
// when it takes about twice a write buffer there.
constexpr std::uint64_t kManifestInWriteBuffer = 16;
constexpr std::uint64_t kLeastManifestBytes = 32 * kKiB;
// A table in which half of so many neighbours are deletions is compacted before its turn: what was
// deleted gives its space back, and lists of what is left do not wade through it.
constexpr std::size_t kDeletionWindow = 128;
// A scan that has stepped over so many entries at once, most of them tombstones, tells where: there
// is nothing for the next one to look for …
constexpr std::uint64_t kWorthKnowing = 16;
// … and one with Tier::kMemory steps over so many at most: a reader thread finds the way.
constexpr std::uint64_t kMaxStepsInMemory = 256;
// Some 200 bytes each.
constexpr std::size_t kMaxEmptyRanges = 1 << 16;

absl::Status FromRocks(const rocksdb::Status& status, const char* what) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = absl::StrCat("metadata store: ", what, ": ", status.ToString());
  if (status.IsCorruption()) return absl::DataLossError(text);
  return absl::UnavailableError(text);
}

rocksdb::Slice ToSlice(std::string_view text) {
  return {text.data(), text.size()};
}
std::string_view ToView(const rocksdb::Slice& slice) {
  return {slice.data(), slice.size()};
}

rocksdb::ReadOptions ReadOptionsFor(Tier tier) {
  rocksdb::ReadOptions options;
  options.read_tier = tier == Tier::kMemory ? rocksdb::kBlockCacheTier : rocksdb::kReadAllTier;
  return options;
}

// Entries that this thread's iterators have stepped over: older versions of keys, and tombstones.
class SteppedOver {
 public:
  SteppedOver() : before_(Now()) {}
  bool IsWorthKnowing() const { return Now() - before_ >= kWorthKnowing; }
  static std::uint64_t Tombstones() {
    return rocksdb::get_perf_context()->internal_delete_skipped_count;
  }

 private:
  static std::uint64_t Now() {
    return Tombstones() + rocksdb::get_perf_context()->internal_key_skipped_count;
  }
  const std::uint64_t before_;
};

class RocksCursor final : public Cursor {
 public:
  RocksCursor(rocksdb::DB& db, EmptyRanges& empty, std::atomic<std::uint64_t>& tombstones,
              std::string_view prefix, std::string_view start, Tier tier, ScanFrom from)
      : empty_(empty),
        mark_(empty.Begin()),
        tombstones_(tombstones),
        prefix_(prefix),
        prefix_slice_(prefix_),
        end_(EndOfPrefix(prefix)),
        end_slice_(end_) {
    if (rocksdb::GetPerfLevel() < rocksdb::kEnableCount) {
      rocksdb::SetPerfLevel(rocksdb::kEnableCount);
    }
    tombstones_before_ = SteppedOver::Tombstones();
    rocksdb::ReadOptions options = ReadOptionsFor(tier);
    options.iterate_lower_bound = &prefix_slice_;
    if (!end_.empty()) options.iterate_upper_bound = &end_slice_;
    if (tier == Tier::kMemory) options.max_skippable_internal_keys = kMaxStepsInMemory;
    iterator_.reset(db.NewIterator(options));
    if (from != ScanFrom::kAtOrBefore || !SeekAtOrBefore(start)) {
      SeekFrom(std::string(std::max(prefix, start)));
    }
    Count();
  }
  ~RocksCursor() override { empty_.End(); }
  RocksCursor(const RocksCursor&) = delete;
  RocksCursor& operator=(const RocksCursor&) = delete;

  bool Valid() const override { return !over_ && iterator_->Valid(); }
  void Next() override {
    tombstones_before_ = SteppedOver::Tombstones();
    after_.assign(key()).push_back('\0');
    if (KnowsEmpty(after_)) {
      SeekFrom(after_);
    } else {
      const SteppedOver stepped;
      iterator_->Next();
      if (stepped.IsWorthKnowing()) LearnUpToHere(after_);
    }
    Count();
  }
  std::string_view key() const override { return ToView(iterator_->key()); }
  std::string_view value() const override { return ToView(iterator_->value()); }
  absl::Status status() const override {
    return not_in_memory() ? absl::OkStatus() : FromRocks(iterator_->status(), "scan");
  }
  bool not_in_memory() const override { return !over_ && iterator_->status().IsIncomplete(); }

 private:
  // Whether nothing is at `key`, and up to next_->to.
  bool KnowsEmpty(const std::string& key) {
    if (!looked_ || (next_ && next_->to <= key)) {
      next_ = empty_.Find(mark_, key);
      looked_ = true;
    }
    return next_ && next_->usable && next_->from <= key;
  }

  void SeekFrom(const std::string& start) {
    const bool jumps = KnowsEmpty(start);
    const std::string& from = jumps ? next_->to : start;
    if (!end_.empty() && from >= end_) {
      over_ = true;
      return;
    }
    const SteppedOver stepped;
    iterator_->Seek(from);
    if (stepped.IsWorthKnowing()) LearnUpToHere(from);
  }

  // False: nothing is there.
  bool SeekAtOrBefore(std::string_view start) {
    std::string at(start);
    if (KnowsEmpty(at)) at = next_->from;
    looked_ = false;
    if (at < prefix_) return false;
    const SteppedOver stepped;
    iterator_->SeekForPrev(at);
    if (!iterator_->Valid() && !iterator_->status().ok()) return true;
    if (stepped.IsWorthKnowing()) {
      empty_.Learn(mark_, iterator_->Valid() ? std::string(key()) + '\0' : prefix_, at + '\0');
    }
    return iterator_->Valid();
  }

  void LearnUpToHere(const std::string& from) {
    if (iterator_->Valid()) {
      empty_.Learn(mark_, from, std::string(key()));
    } else if (iterator_->status().ok() && !end_.empty()) {
      empty_.Learn(mark_, from, end_);
    }
    looked_ = false;
  }

  void Count() {
    const std::uint64_t now = SteppedOver::Tombstones();
    if (now != tombstones_before_) tombstones_ += now - tombstones_before_;
  }

  EmptyRanges& empty_;
  const EmptyRanges::Mark mark_;
  std::atomic<std::uint64_t>& tombstones_;
  std::uint64_t tombstones_before_ = 0;
  const std::string prefix_;
  const rocksdb::Slice prefix_slice_;
  const std::string end_;
  const rocksdb::Slice end_slice_;
  bool over_ = false;    // nothing more, which the iterator has not been asked
  bool looked_ = false;  // next_ is what is known of the next keys
  std::optional<EmptyRanges::Range> next_;
  std::string after_;
  std::unique_ptr<rocksdb::Iterator> iterator_;
};

}  // namespace

// Bytes that the log has grown by on the LUN since RocksDB began it.
using LogGrowth = std::shared_ptr<std::atomic<std::uint64_t>>;

struct MetaDb::Engine {
  absl::Status Usable() const {
    MutexLock lock(mutex);
    return broken;
  }
  absl::Status Broken(absl::Status why) {
    MutexLock lock(mutex);
    if (broken.ok()) broken = why;
    return why;
  }
  // The last keys of the tables of the lowest level, ascending. A compaction from one to the next
  // needs little space for what it makes; one of everything may need as much as there is.
  std::vector<std::string> LowestTableEnds() const;

  const Options options;
  const std::shared_ptr<rocksdb::Statistics> statistics;
  const LogGrowth log_bytes;
  const std::unique_ptr<rocksdb::DB> db;
  EmptyRanges empty{kMaxEmptyRanges};
  mutable std::atomic<std::uint64_t> tombstones{0};  // that scans have stepped over
  std::atomic<std::uint64_t> removals{0};
  mutable Mutex mutex{};
  absl::Status broken ABSL_GUARDED_BY(mutex){};
};

namespace {

class Listener final : public rocksdb::EventListener {
 public:
  explicit Listener(LogGrowth log_bytes) : log_bytes_(std::move(log_bytes)) {}
  // A new memtable comes with a new log.
  void OnMemTableSealed(const rocksdb::MemTableInfo&) override { *log_bytes_ = 0; }
  // A compaction for which the store has no room has changed nothing, and left what flushes need:
  // RocksDB tries it again a second later.
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override {
    if (reason == rocksdb::BackgroundErrorReason::kCompaction && error->IsNoSpace()) {
      *error = rocksdb::Status::OK();
    }
  }

 private:
  const LogGrowth log_bytes_;
};

rocksdb::Options RocksOptions(rocksdb::Env* env, const MetaDb::Options& options,
                              const LogGrowth& log_bytes) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(options.cache_bytes);
  table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
  table.cache_index_and_filter_blocks = true;
  table.pin_l0_filter_and_index_blocks_in_cache = true;
  table.format_version = 5;

  rocksdb::Options rocks;
  rocks.env = env;
  rocks.create_if_missing = options.create;
  rocks.error_if_exists = options.create;
  rocks.paranoid_checks = true;
  rocks.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  rocks.write_buffer_size = options.write_buffer_bytes;
  rocks.target_file_size_base = options.write_buffer_bytes;
  // The lowest level weighs as much as the files above it that a compaction merges into it.
  rocks.max_bytes_for_level_base =
      options.write_buffer_bytes * static_cast<unsigned>(rocks.level0_file_num_compaction_trigger);
  // A table overlaps so much of the level below: what a compaction makes has to fit into the space
  // that the store keeps free (store.cc).
  rocks.max_compaction_bytes = 2 * options.write_buffer_bytes;
  rocks.level0_slowdown_writes_trigger = rocks.level0_file_num_compaction_trigger + 2;
  rocks.level0_stop_writes_trigger = 2 * rocks.level0_file_num_compaction_trigger;
  rocks.table_properties_collector_factories.push_back(
      rocksdb::NewCompactOnDeletionCollectorFactory(kDeletionWindow, kDeletionWindow / 2));
  // After an error the process ends: nothing is to be retried behind its back.
  rocks.max_bgerror_resume_count = 0;
  rocks.max_background_jobs = 2;
  rocks.level_compaction_dynamic_level_bytes = true;
  rocks.compression = rocksdb::kLZ4Compression;
  // metafs cuts off a torn tail and refuses damage before it; a log may only end within a record.
  rocks.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  rocks.max_manifest_file_size =
      std::max(options.write_buffer_bytes / kManifestInWriteBuffer, kLeastManifestBytes);
  // Nothing below reads ahead: there is no page cache under a raw LUN.
  rocks.compaction_readahead_size = 2 * kMiB;
  rocks.log_readahead_size = 2 * kMiB;
  // Only one thread ever writes: so the place of the last key of the same family is where the
  // search for the next one's begins, which makes a log's recovery several times faster.
  rocks.allow_concurrent_memtable_write = false;
  rocks.memtable_insert_with_hint_prefix_extractor.reset(rocksdb::NewFixedPrefixTransform(1));
  rocks.info_log_level = rocksdb::InfoLogLevel::WARN_LEVEL;
  rocks.stats_dump_period_sec = 0;
  rocks.stats_persist_period_sec = 0;
  rocks.statistics = rocksdb::CreateDBStatistics();
  rocks.listeners.push_back(std::make_shared<Listener>(log_bytes));
  if (options.listener != nullptr) rocks.listeners.push_back(options.listener);
  return rocks;
}

}  // namespace

MetaDb::MetaDb(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
MetaDb::~MetaDb() = default;

absl::StatusOr<std::unique_ptr<MetaDb>> MetaDb::Open(rocksdb::Env* env, const Options& options) {
  auto log_bytes = std::make_shared<std::atomic<std::uint64_t>>(0);
  const rocksdb::Options rocks = RocksOptions(env, options, log_bytes);
  rocksdb::DB* db = nullptr;
  const rocksdb::Status opened = options.read_only ? rocksdb::DB::OpenForReadOnly(rocks, kName, &db)
                                                   : rocksdb::DB::Open(rocks, kName, &db);
  if (!opened.ok()) return FromRocks(opened, "open");
  return std::unique_ptr<MetaDb>(
      new MetaDb(std::unique_ptr<Engine>(new Engine{.options = options,
                                                    .statistics = rocks.statistics,
                                                    .log_bytes = std::move(log_bytes),
                                                    .db = std::unique_ptr<rocksdb::DB>(db)})));
}

absl::Status MetaDb::RemoveLeftovers(rocksdb::Env* env, const Options& options) {
  std::set<std::string> live;
  {
    rocksdb::DB* opened = nullptr;
    const rocksdb::Options rocks =
        RocksOptions(env, options, std::make_shared<std::atomic<std::uint64_t>>(0));
    rocksdb::Status s = rocksdb::DB::OpenForReadOnly(rocks, kName, &opened);
    if (!s.ok()) return FromRocks(s, "open for a look");
    const std::unique_ptr<rocksdb::DB> db(opened);
    std::vector<std::string> files;  // each begins with a slash
    std::uint64_t manifest_bytes = 0;
    s = db->GetLiveFiles(files, &manifest_bytes, /*flush_memtable=*/false);
    if (!s.ok()) return FromRocks(s, "live files");
    live.insert(files.begin(), files.end());
  }
  std::vector<std::string> files;
  if (const rocksdb::Status s = env->GetChildren(kName, &files); !s.ok()) {
    return FromRocks(s, "list");
  }
  for (const std::string& file : files) {
    const std::string path = absl::StrCat(kName, "/", file);
    bool leftover = false;
    if (file.ends_with(".sst") || file.starts_with("MANIFEST-")) {
      leftover = !live.contains("/" + file);
    } else if (file.ends_with(".log")) {
      // One that was begun, and nothing written to it.
      std::uint64_t bytes = 0;
      const rocksdb::Status s = env->GetFileSize(path, &bytes);
      if (!s.ok()) return FromRocks(s, "size");
      leftover = bytes == 0;
    }
    if (!leftover) continue;
    if (const rocksdb::Status s = env->DeleteFile(path); !s.ok()) return FromRocks(s, "remove");
  }
  return absl::OkStatus();
}

absl::StatusOr<Found> MetaDb::Get(std::string_view key, std::string* value, Tier tier) const {
  if (absl::Status s = engine_->Usable(); !s.ok()) return s;
  const rocksdb::Status s = engine_->db->Get(ReadOptionsFor(tier), ToSlice(key), value);
  if (s.ok()) return Found::kYes;
  if (s.IsNotFound()) return Found::kNo;
  if (s.IsIncomplete()) return Found::kNotInMemory;
  return FromRocks(s, "read");
}

std::unique_ptr<Cursor> MetaDb::Scan(std::string_view prefix, std::string_view start, Tier tier,
                                     ScanFrom from) const {
  return std::make_unique<RocksCursor>(*engine_->db, engine_->empty, engine_->tombstones, prefix,
                                       start, tier, from);
}

std::unique_ptr<Snapshot> MetaDb::TakeSnapshot() const {
  return SnapshotOf(*engine_->db);
}

absl::StatusOr<Sequence> MetaDb::Apply(const WriteBatch& batch) {
  if (absl::Status s = engine_->Usable(); !s.ok()) return s;
  rocksdb::WriteBatch changes;
  std::uint64_t bytes = 0, removals = 0;
  for (const WriteBatch::Change& change : batch.changes()) {
    const rocksdb::Status s =
        change.remove ? changes.Delete(change.key) : changes.Put(change.key, change.value);
    if (!s.ok()) return engine_->Broken(FromRocks(s, "batch"));
    bytes += change.key.size() + change.value.size();
    removals += change.remove ? 1 : 0;
  }
  const rocksdb::Status s = engine_->db->Write(rocksdb::WriteOptions(), &changes);
  if (!s.ok()) return engine_->Broken(FromRocks(s, "apply"));
  engine_->empty.Applied(batch);
  *engine_->log_bytes += bytes;
  engine_->removals += removals;
  return last_applied();
}

absl::StatusOr<Sequence> MetaDb::Sync() {
  if (absl::Status s = engine_->Usable(); !s.ok()) return s;
  const Sequence durable = last_applied();
  if (const rocksdb::Status s = engine_->db->SyncWAL(); !s.ok())
    return engine_->Broken(FromRocks(s, "sync"));
  const std::uint64_t most_bytes = kLogToWriteBuffer * engine_->options.write_buffer_bytes;
  if ((*engine_->log_bytes += kSyncBytes) > most_bytes) {
    *engine_->log_bytes = 0;
    rocksdb::FlushOptions flush;
    flush.wait = false;
    flush.allow_write_stall = true;
    const rocksdb::Status s = engine_->db->Flush(flush);
    if (s.IsTryAgain()) {
      // RocksDB takes no writes just now, which have to wait for its flushes: the next sync.
      *engine_->log_bytes += most_bytes;
    } else if (!s.ok()) {
      return engine_->Broken(FromRocks(s, "cut the log"));
    }
  }
  return durable;
}

absl::Status MetaDb::Compact(std::atomic<bool>& cancelled) {
  if (absl::Status s = engine_->Usable(); !s.ok()) return s;
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  options.canceled = &cancelled;
  const std::vector<std::string> ends = engine_->LowestTableEnds();
  for (std::size_t i = 0; i <= ends.size() && !cancelled; ++i) {
    const rocksdb::Slice begin = ToSlice(i == 0 ? std::string_view() : ends[i - 1]);
    const rocksdb::Slice end = ToSlice(i == ends.size() ? std::string_view() : ends[i]);
    const rocksdb::Status s = engine_->db->CompactRange(options, i == 0 ? nullptr : &begin,
                                                        i == ends.size() ? nullptr : &end);
    if (s.IsNoSpace()) return absl::ResourceExhaustedError(FromRocks(s, "compact").message());
    if (!s.ok() && !cancelled) return engine_->Broken(FromRocks(s, "compact"));
  }
  if (cancelled) return absl::CancelledError("metadata store: compaction was cancelled");
  return absl::OkStatus();
}

std::vector<std::string> MetaDb::Engine::LowestTableEnds() const {
  std::vector<rocksdb::LiveFileMetaData> tables;
  db->GetLiveFilesMetaData(&tables);
  int lowest = 0;
  for (const rocksdb::LiveFileMetaData& table : tables) lowest = std::max(lowest, table.level);
  std::vector<std::string> ends;
  for (const rocksdb::LiveFileMetaData& table : tables) {
    if (table.level == lowest) ends.push_back(table.largestkey);
  }
  std::sort(ends.begin(), ends.end());
  return ends;
}

// The memtables, level 0 and the level below it may go into one compaction; a table of that with
// what it overlaps further down, into the next.
std::uint64_t MetaDb::CompactionBytes() const {
  std::vector<rocksdb::LiveFileMetaData> tables;
  engine_->db->GetLiveFilesMetaData(&tables);
  std::map<int, std::uint64_t> levels;
  for (const rocksdb::LiveFileMetaData& table : tables) levels[table.level] += table.size;
  std::uint64_t bytes = 0;
  engine_->db->GetIntProperty(rocksdb::DB::Properties::kCurSizeAllMemTables, &bytes);
  bytes += levels[0];
  if (const auto base = levels.upper_bound(0); base != levels.end()) bytes += base->second;
  return bytes + 3 * engine_->options.write_buffer_bytes;
}

std::uint64_t MetaDb::removals() const {
  return engine_->removals;
}

Sequence MetaDb::last_applied() const {
  return Sequence(engine_->db->GetLatestSequenceNumber());
}

absl::Status MetaDb::VerifyChecksums(std::size_t threads) const {
  return FromRocks(VerifyTables(*engine_->db, threads), "verify checksums");
}

std::vector<std::pair<std::string, std::uint64_t>> MetaDb::Counters() const {
  const auto ticker = [&](std::uint32_t which) {
    return engine_->statistics->getTickerCount(which);
  };
  const auto property = [&](const std::string& name) {
    std::uint64_t value = 0;
    engine_->db->GetIntProperty(name, &value);
    return value;
  };
  return {
      {"cache_hits", ticker(rocksdb::BLOCK_CACHE_HIT)},
      {"cache_misses", ticker(rocksdb::BLOCK_CACHE_MISS)},
      {"compacted_read_bytes", ticker(rocksdb::COMPACT_READ_BYTES)},
      {"compacted_written_bytes", ticker(rocksdb::COMPACT_WRITE_BYTES)},
      {"flushed_bytes", ticker(rocksdb::FLUSH_WRITE_BYTES)},
      {"log_synced", ticker(rocksdb::WAL_FILE_SYNCED)},
      {"stall_us", ticker(rocksdb::STALL_MICROS)},
      {"memtable_bytes", property(rocksdb::DB::Properties::kCurSizeAllMemTables)},
      {"table_bytes", property(rocksdb::DB::Properties::kTotalSstFilesSize)},
      {"removed_keys_passed", engine_->tombstones},
      {"keys_estimated", property(rocksdb::DB::Properties::kEstimateNumKeys)},
  };
}

}  // namespace reel::mdc
