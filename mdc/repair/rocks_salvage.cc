#include "mdc/repair/rocks_salvage.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rocksdb/cache.h"
#include "rocksdb/db.h"
#include "rocksdb/env.h"
#include "rocksdb/sst_file_reader.h"
#include "rocksdb/table.h"
#include "volume/base/types.h"

namespace reel::mdc {
namespace {

// How much of a key is looked at to find the end of damage: all of most, and enough of long names.
constexpr std::size_t kKeyBytes = 48;

rocksdb::Options SalvageRocksOptions(rocksdb::Env* env) {
  rocksdb::BlockBasedTableOptions table;
  table.block_cache = rocksdb::NewLRUCache(64 * kMiB);
  table.cache_index_and_filter_blocks = true;
  rocksdb::Options options;
  options.env = env;
  options.paranoid_checks = false;
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  options.compression = rocksdb::kLZ4Compression;
  options.wal_recovery_mode = rocksdb::WALRecoveryMode::kSkipAnyCorruptedRecords;
  options.info_log_level = rocksdb::InfoLogLevel::FATAL_LEVEL;  // the damage is told by the caller
  return options;
}

absl::Status FromRocks(const rocksdb::Status& status, const char* what) {
  if (status.ok()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("metadata store: ", what, ": ", status.ToString()));
}

std::string_view ToView(const rocksdb::Slice& slice) {
  return {slice.data(), slice.size()};
}

// The first kKeyBytes bytes of a key as a number, zeros behind a shorter one: the order of keys is
// that of numbers, and a number that is larger than a key's is larger than the key.
class KeyNumber {
 public:
  explicit KeyNumber(std::string key) : bytes_(std::move(key)) { bytes_.resize(kKeyBytes, '\0'); }
  const std::string& key() const { return bytes_; }
  // this + 2^bit; false when that is too large.
  bool AddPowerOfTwo(std::size_t bit) {
    std::size_t at = kKeyBytes - 1 - bit / 8;
    unsigned carry = 1u << (bit % 8);
    for (;; --at) {
      const unsigned sum = static_cast<unsigned char>(bytes_[at]) + carry;
      bytes_[at] = static_cast<char>(sum & 0xff);
      carry = sum >> 8;
      if (carry == 0) return true;
      if (at == 0) return false;
    }
  }

 private:
  std::string bytes_;
};

class Reader {
 public:
  Reader(rocksdb::DB& db, const SalvageOptions& options, const RecordSink& sink, Salvage& salvage)
      : db_(db), options_(options), sink_(sink), salvage_(salvage) {}

  absl::Status Run() {
    std::string next;  // everything before it has been read, or is lost
    for (;;) {
      const std::unique_ptr<rocksdb::Iterator> records(NewIterator(/*whole_tables_only=*/false));
      for (records->Seek(next); records->Valid(); records->Next()) {
        next = records->key().ToString();
        absl::Status taken = sink_(next, ToView(records->value()));
        if (!taken.ok()) return taken;
        next.push_back('\0');
      }
      if (records->status().ok()) return absl::OkStatus();
      std::string end = EndOfDamage(next);
      if (absl::Status read = ReadGap(next, end); !read.ok()) return read;
      salvage_.gaps.emplace_back(next, end);
      if (end.empty()) return absl::OkStatus();
      next = std::move(end);
    }
  }

 private:
  std::unique_ptr<rocksdb::Iterator> NewIterator(bool whole_tables_only) const {
    rocksdb::ReadOptions read;
    read.fill_cache = false;
    if (whole_tables_only) {
      read.table_filter = [this](const rocksdb::TableProperties& table) {
        return !options_.damaged_tables.contains(table.orig_file_number);
      };
    }
    return std::unique_ptr<rocksdb::Iterator>(db_.NewIterator(read));
  }

  bool Readable(const std::string& key) const {
    const auto records = NewIterator(/*whole_tables_only=*/false);
    records->Seek(key);
    return records->status().ok();
  }

  // The first key behind the damage at `start` from which on records can be read; empty for none.
  // Keys in one damaged block cannot be sought and those behind it can, so it is found as a bound
  // is: in steps that double, then by halves.
  std::string EndOfDamage(const std::string& start) const {
    const std::size_t bits = kKeyBytes * 8;
    std::size_t bit = 0;
    KeyNumber damaged(start);
    for (;; ++bit) {
      if (bit == bits) return "";
      KeyNumber probe = KeyNumber(start);
      if (!probe.AddPowerOfTwo(bit)) return "";
      if (Readable(probe.key())) break;
      damaged = probe;
    }
    while (bit-- > 0) {
      KeyNumber probe = damaged;
      if (probe.AddPowerOfTwo(bit) && !Readable(probe.key())) damaged = probe;
    }
    KeyNumber end = damaged;
    return end.AddPowerOfTwo(0) ? end.key() : "";
  }

  absl::Status ReadGap(const std::string& start, const std::string& end) const {
    const auto records = NewIterator(/*whole_tables_only=*/true);
    for (records->Seek(start); records->Valid(); records->Next()) {
      if (!end.empty() && records->key().compare(end) >= 0) break;
      absl::Status taken = sink_(ToView(records->key()), ToView(records->value()));
      if (!taken.ok()) return taken;
    }
    return absl::OkStatus();  // what cannot be read here either is in the gap
  }

  rocksdb::DB& db_;
  const SalvageOptions& options_;
  const RecordSink& sink_;
  Salvage& salvage_;
};

// One of the top level that cannot be opened fails every read, and no filter is asked about it. (In
// the levels below, it fails those of its own keys.)
absl::Status OpenTopTables(rocksdb::DB& db, rocksdb::Env* env, const std::string& path,
                           const std::set<std::uint64_t>& damaged) {
  std::vector<rocksdb::LiveFileMetaData> tables;
  db.GetLiveFilesMetaData(&tables);
  for (const rocksdb::LiveFileMetaData& table : tables) {
    if (table.level != 0 || !damaged.contains(table.file_number)) continue;
    rocksdb::SstFileReader reader(SalvageRocksOptions(env));
    const std::string name = absl::StrCat(path, "/", table.relative_filename);
    if (const rocksdb::Status opened = reader.Open(name); !opened.ok()) {
      return FromRocks(opened, "open a table");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Salvage> SalvageRecords(rocksdb::Env* env, const std::string& path,
                                       const SalvageOptions& options, const RecordSink& sink) {
  rocksdb::DB* opened = nullptr;
  const rocksdb::Status status =
      rocksdb::DB::OpenForReadOnly(SalvageRocksOptions(env), path, &opened);
  if (!status.ok()) return FromRocks(status, "open");
  const std::unique_ptr<rocksdb::DB> db(opened);
  if (absl::Status tables = OpenTopTables(*db, env, path, options.damaged_tables); !tables.ok()) {
    return tables;
  }
  Salvage salvage;
  salvage.last_sequence = db->GetLatestSequenceNumber();
  if (absl::Status read = Reader(*db, options, sink, salvage).Run(); !read.ok()) return read;
  return salvage;
}

absl::Status RebuildManifest(rocksdb::Env* env, const std::string& path) {
  return FromRocks(rocksdb::RepairDB(path, SalvageRocksOptions(env)), "rebuild the manifest");
}

}  // namespace reel::mdc
