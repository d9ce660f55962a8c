#include "tests/sim/meta_store.h"

#include <algorithm>
#include <utility>

namespace reel::sim {
namespace {

MetaStore* g_opening = nullptr;

}  // namespace

std::unique_ptr<mdc::MetaDb> MetaStore::Open() {
  g_opening = this;
  return *mdc::MetaDb::Open(nullptr, {});
}

void MetaStore::Apply(const mdc::WriteBatch& batch) {
  ++last_;
  for (const mdc::WriteBatch::Change& change : batch.changes()) {
    const auto found = records_.find(change.key);
    Undo& undo = undo_.emplace_back(Undo{last_, change.key, std::nullopt});
    if (found != records_.end()) undo.value = std::move(found->second);
    if (!change.remove) {
      if (found != records_.end()) {
        found->second = change.value;
      } else {
        records_.emplace(change.key, change.value);
      }
    } else if (found != records_.end()) {
      records_.erase(found);
    }
  }
}

void MetaStore::MakeDurable(std::uint64_t sequence) {
  while (!undo_.empty() && undo_.front().sequence <= sequence) undo_.pop_front();
}

std::size_t MetaStore::Crash() {
  if (undo_.empty()) return 0;
  const std::uint64_t first = undo_.front().sequence;
  const std::uint64_t kept = random_.Between(first - 1, last_);
  while (!undo_.empty() && undo_.back().sequence > kept) {
    Undo& undo = undo_.back();
    if (undo.value) {
      records_[undo.key] = *std::move(undo.value);
    } else {
      records_.erase(undo.key);
    }
    undo_.pop_back();
  }
  undo_.clear();
  return static_cast<std::size_t>(std::exchange(last_, kept) - kept);
}

}  // namespace reel::sim

namespace reel::mdc {

struct MetaDb::Engine {
  sim::MetaStore& store;
};

namespace {

class MapCursor final : public Cursor {
 public:
  MapCursor(const std::map<std::string, std::string, std::less<>>& records, std::string_view prefix,
            std::string_view start, ScanFrom from, bool missing)
      : records_(records), prefix_(prefix), missing_(missing), at_(records.end()) {
    if (missing) return;
    at_ = records_.lower_bound(std::max(prefix, start));
    if (from != ScanFrom::kAtOrBefore || (Valid() && at_->first == start)) return;
    if (at_ != records_.begin() && std::prev(at_)->first.starts_with(prefix_)) --at_;
  }
  bool Valid() const override { return at_ != records_.end() && at_->first.starts_with(prefix_); }
  void Next() override { ++at_; }
  std::string_view key() const override { return at_->first; }
  std::string_view value() const override { return at_->second; }
  absl::Status status() const override { return absl::OkStatus(); }
  bool not_in_memory() const override { return missing_; }

 private:
  const std::map<std::string, std::string, std::less<>>& records_;
  const std::string prefix_;
  const bool missing_;
  std::map<std::string, std::string, std::less<>>::const_iterator at_;
};

}  // namespace

MetaDb::MetaDb(std::unique_ptr<Engine> engine) : engine_(std::move(engine)) {}
MetaDb::~MetaDb() = default;

absl::StatusOr<std::unique_ptr<MetaDb>> MetaDb::Open(rocksdb::Env*, const Options&) {
  return std::unique_ptr<MetaDb>(new MetaDb(std::unique_ptr<Engine>(new Engine{*sim::g_opening})));
}

absl::StatusOr<Found> MetaDb::Get(std::string_view key, std::string* value, Tier tier) const {
  if (tier == Tier::kMemory && engine_->store.MissesNow()) return Found::kNotInMemory;
  const auto found = engine_->store.records().find(key);
  if (found == engine_->store.records().end()) return Found::kNo;
  *value = found->second;
  return Found::kYes;
}

std::unique_ptr<Cursor> MetaDb::Scan(std::string_view prefix, std::string_view start, Tier tier,
                                     ScanFrom from) const {
  const bool missing = tier == Tier::kMemory && engine_->store.MissesNow();
  return std::make_unique<MapCursor>(engine_->store.records(), prefix, start, from, missing);
}

absl::StatusOr<Sequence> MetaDb::Apply(const WriteBatch& batch) {
  engine_->store.Apply(batch);
  return last_applied();
}

absl::StatusOr<Sequence> MetaDb::Sync() {
  engine_->store.MakeDurable(engine_->store.last_applied());
  return last_applied();
}

absl::Status MetaDb::Compact(std::atomic<bool>&) {
  return absl::OkStatus();
}
std::uint64_t MetaDb::removals() const {
  return 0;
}
Sequence MetaDb::last_applied() const {
  return Sequence(engine_->store.last_applied());
}
absl::Status MetaDb::VerifyChecksums() const {
  return absl::OkStatus();
}
std::vector<std::pair<std::string, std::uint64_t>> MetaDb::Counters() const {
  return {};
}

}  // namespace reel::mdc
