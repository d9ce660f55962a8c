#include "mdc/metadb/rocks_snapshot.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "rocksdb/db.h"

namespace reel::mdc {
namespace {

rocksdb::Slice ToSlice(std::string_view text) {
  return {text.data(), text.size()};
}

absl::Status SnapshotStatus(const rocksdb::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string text = absl::StrCat("metadata store: read of a snapshot: ", status.ToString());
  return status.IsCorruption() ? absl::DataLossError(text) : absl::UnavailableError(text);
}

// Of the size, so that not every table is asked.
constexpr double kSizeErrorMargin = 0.1;

class SnapshotCursor final : public Cursor {
 public:
  SnapshotCursor(rocksdb::DB& db, rocksdb::ReadOptions options, std::string_view from,
                 std::string_view to)
      : end_(to), end_slice_(end_) {
    options.total_order_seek = true;
    if (!end_.empty()) options.iterate_upper_bound = &end_slice_;
    iterator_.reset(db.NewIterator(options));
    iterator_->Seek(ToSlice(from));
  }
  SnapshotCursor(const SnapshotCursor&) = delete;
  SnapshotCursor& operator=(const SnapshotCursor&) = delete;
  bool Valid() const override { return iterator_->Valid(); }
  void Next() override { iterator_->Next(); }
  std::string_view key() const override { return View(iterator_->key()); }
  std::string_view value() const override { return View(iterator_->value()); }
  absl::Status status() const override { return SnapshotStatus(iterator_->status()); }
  bool not_in_memory() const override { return false; }

 private:
  static std::string_view View(const rocksdb::Slice& slice) { return {slice.data(), slice.size()}; }
  const std::string end_;
  const rocksdb::Slice end_slice_;
  std::unique_ptr<rocksdb::Iterator> iterator_;
};

class RocksSnapshot final : public Snapshot {
 public:
  explicit RocksSnapshot(rocksdb::DB& db) : db_(db), snapshot_(db.GetSnapshot()) {}
  ~RocksSnapshot() override { db_.ReleaseSnapshot(snapshot_); }
  RocksSnapshot(const RocksSnapshot&) = delete;
  RocksSnapshot& operator=(const RocksSnapshot&) = delete;

  absl::StatusOr<Found> Get(std::string_view key, std::string* value) const override {
    const rocksdb::Status s = db_.Get(Options(), ToSlice(key), value);
    if (s.ok()) return Found::kYes;
    if (s.IsNotFound()) return Found::kNo;
    return SnapshotStatus(s);
  }
  std::unique_ptr<Cursor> ScanRange(std::string_view from, std::string_view to) const override {
    return std::make_unique<SnapshotCursor>(db_, Options(), from, to);
  }
  std::uint64_t ApproximateBytes(std::string_view from, std::string_view to) const override {
    rocksdb::SizeApproximationOptions options;
    options.include_memtables = true;
    options.files_size_error_margin = kSizeErrorMargin;
    const rocksdb::Range range(ToSlice(from), ToSlice(to));
    std::uint64_t bytes = 0;
    const rocksdb::Status s =
        db_.GetApproximateSizes(options, db_.DefaultColumnFamily(), &range, 1, &bytes);
    return s.ok() ? bytes : 0;
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
