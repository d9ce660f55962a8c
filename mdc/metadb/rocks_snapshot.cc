#include "mdc/metadb/rocks_snapshot.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "rocksdb/db.h"

namespace reel::mdc {
namespace {

absl::Status SnapshotStatus(const rocksdb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = absl::StrCat("metadata store: read of a snapshot: ", status.ToString());
  return status.IsCorruption() ? absl::DataLossError(text) : absl::UnavailableError(text);
}

class SnapshotCursor final : public Cursor {
 public:
  SnapshotCursor(rocksdb::DB& db, rocksdb::ReadOptions options, std::string_view prefix)
      : prefix_(prefix) {
    options.total_order_seek = true;
    iterator_.reset(db.NewIterator(options));
    iterator_->Seek(prefix_);
  }
  bool Valid() const override {
    return iterator_->Valid() && iterator_->key().starts_with(prefix_);
  }
  void Next() override { iterator_->Next(); }
  std::string_view key() const override { return View(iterator_->key()); }
  std::string_view value() const override { return View(iterator_->value()); }
  absl::Status status() const override { return SnapshotStatus(iterator_->status()); }
  bool not_in_memory() const override { return false; }

 private:
  static std::string_view View(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }
  const std::string prefix_;
  std::unique_ptr<rocksdb::Iterator> iterator_;
};

class RocksSnapshot final : public Snapshot {
 public:
  explicit RocksSnapshot(rocksdb::DB& db) : db_(db), snapshot_(db.GetSnapshot()) {}
  ~RocksSnapshot() override { db_.ReleaseSnapshot(snapshot_); }
  RocksSnapshot(const RocksSnapshot&) = delete;
  RocksSnapshot& operator=(const RocksSnapshot&) = delete;

  absl::StatusOr<Found> Get(std::string_view key, std::string* value) const override {
    const rocksdb::Status s = db_.Get(Options(), {key.data(), key.size()}, value);
    if (s.ok()) return Found::kYes;
    if (s.IsNotFound()) return Found::kNo;
    return SnapshotStatus(s);
  }
  std::unique_ptr<Cursor> Scan(std::string_view prefix) const override {
    return std::make_unique<SnapshotCursor>(db_, Options(), prefix);
  }

 private:
  rocksdb::ReadOptions Options() const {
    rocksdb::ReadOptions options;
    options.snapshot = snapshot_;
    options.fill_cache = false;
    return options;
  }

  rocksdb::DB& db_;
  const rocksdb::Snapshot* const snapshot_;
};

}  // namespace

std::unique_ptr<Snapshot> SnapshotOf(rocksdb::DB& db) {
  return std::make_unique<RocksSnapshot>(db);
}

}  // namespace reel::mdc
