#include "mdc/metadb/txn.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/metadb/schema.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

constexpr std::size_t kMaxAlso = 1024;  // of one fetch

}  // namespace

void InFlight::Applied(const WriteBatch& batch, Sequence sequence, SessionId seen_by) {
  for (const WriteBatch::Change& change : batch.changes()) {
    by_key_[change.key] = {sequence, seen_by};
    order_.emplace_back(sequence, change.key);
  }
}

void InFlight::Durable(Sequence sequence) {
  for (; order_head_ < order_.size() && order_[order_head_].first <= sequence; ++order_head_) {
    const auto it = by_key_.find(order_[order_head_].second);
    // A later change of the same key keeps it in flight.
    if (it != by_key_.end() && it->second.sequence <= sequence) by_key_.erase(it);
  }
  if (order_head_ == order_.size()) {
    order_.clear();
    order_head_ = 0;
  } else if (order_head_ > 1024 && order_head_ > order_.size() / 2) {
    order_.erase(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(order_head_));
    order_head_ = 0;
  }
}

Sequence InFlight::SequenceOf(std::string_view key, SessionId viewer) const {
  if (by_key_.empty()) return Sequence();
  const auto it = by_key_.find(absl::string_view(key.data(), key.size()));
  if (it == by_key_.end()) return Sequence();
  const bool knows = viewer != SessionId() && it->second.seen_by == viewer;
  return knows ? Sequence() : it->second.sequence;
}

absl::Status Txn::Missed(Miss miss) {
  // The first miss is the one to fetch: what follows it was decided without knowing. (An operation
  // that only looks goes on, so that it need not miss once for each.)
  if (!miss_.has_value()) {
    miss_ = std::move(miss);
  } else if (miss_->also.size() < kMaxAlso) {
    miss_->also.push_back(std::move(miss));
  }
  return absl::UnavailableError("not in memory");
}

void Txn::Saw(std::string_view key) {
  ++reads_;
  seen_ = std::max(seen_, in_flight_.SequenceOf(key, viewer_));
}

absl::StatusOr<std::optional<std::string>> Txn::Get(const std::string& key) {
  if (const auto it = staged_.find(key); it != staged_.end()) return it->second;
  std::string value;
  const absl::StatusOr<Found> found = db_.Get(key, &value, tier_);
  if (!found.ok()) return found.status();
  if (*found == Found::kNotInMemory)
    return Missed({.key = key, .scan = false, .prefix = {}, .from = ScanFrom::kAt});
  Saw(key);  // absence is seen too: it may be a deletion that is not durable
  if (*found == Found::kNo) return std::optional<std::string>();
  return std::optional<std::string>(std::move(value));
}

absl::StatusOr<std::optional<std::string>> Txn::GetCounts(const std::string& key) {
  const Sequence seen = seen_;
  auto value = Get(key);
  seen_ = seen;
  return value;
}

void Txn::Put(std::string key, std::string value) {
  staged_.insert_or_assign(std::move(key), std::move(value));
}

void Txn::Delete(std::string key) {
  staged_.insert_or_assign(std::move(key), std::nullopt);
}

void Txn::Cleared(std::string from, std::string to) {
  cleared_.push_back({std::move(from), std::move(to)});
}

absl::StatusOr<v1::InodeRecord*> Txn::Inode(InodeNumber inode) {
  const auto stale = [inode] {
    return ErrnoStatus(ESTALE, absl::StrCat("inode ", inode.value(), " does not exist (any more)"));
  };
  if (const auto it = inodes_.find(inode); it != inodes_.end()) {
    if (it->second.deleted) return stale();
    return &it->second.record;
  }
  const std::string key = schema::InodeKey(inode);
  std::string value;
  const absl::StatusOr<Found> found = db_.Get(key, &value, tier_);
  if (!found.ok()) return found.status();
  if (*found == Found::kNotInMemory)
    return Missed({.key = key, .scan = false, .prefix = {}, .from = ScanFrom::kAt});
  Saw(key);
  if (*found == Found::kNo) return stale();
  CachedInode& cached = inodes_[inode];
  if (!cached.record.ParseFromString(value)) {
    inodes_.erase(inode);
    return absl::DataLossError(
        absl::StrCat("record of inode ", inode.value(), " cannot be decoded; run fsck.reelfs"));
  }
  cached.before = UseOf(cached.record);
  return &cached.record;
}

void Txn::Changed(InodeNumber inode) {
  if (const auto it = inodes_.find(inode); it != inodes_.end()) it->second.changed = true;
}

v1::InodeRecord* Txn::NewInode(InodeNumber inode) {
  CachedInode& cached = inodes_[inode];
  cached.changed = true;
  return &cached.record;
}

void Txn::DeleteInode(InodeNumber inode) {
  inodes_[inode].deleted = true;
}

std::vector<InodeNumber> Txn::ChangedInodes() const {
  std::vector<InodeNumber> inodes;
  for (const auto& [inode, cached] : inodes_) {
    if (cached.changed && !cached.deleted) inodes.push_back(inode);
  }
  std::sort(inodes.begin(), inodes.end());
  return inodes;
}

std::vector<InodeNumber> Txn::DeletedInodes() const {
  std::vector<InodeNumber> inodes;
  for (const auto& [inode, cached] : inodes_) {
    if (cached.deleted) inodes.push_back(inode);
  }
  std::sort(inodes.begin(), inodes.end());
  return inodes;
}

Txn::InodeUse Txn::UseOf(const v1::InodeRecord& record) {
  return {.owner = {record.uid(), record.gid(), record.project()},
          .blocks = record.allocated_blocks()};
}

std::vector<Txn::UseChange> Txn::UseChanges() const {
  std::vector<UseChange> changes;
  for (const auto& [inode, cached] : inodes_) {
    if (!cached.changed && !cached.deleted) continue;
    UseChange change{.inode = inode, .before = cached.before, .after = std::nullopt};
    if (!cached.deleted) change.after = UseOf(cached.record);
    if (change.before != change.after) changes.push_back(change);
  }
  std::sort(changes.begin(), changes.end(),
            [](const auto& a, const auto& b) { return a.inode < b.inode; });
  return changes;
}

WriteBatch Txn::TakeBatch() {
  std::vector<WriteBatch::Change> changes;
  changes.reserve(staged_.size() + inodes_.size());
  for (auto& [key, value] : staged_) {
    changes.push_back({key, value.has_value() ? std::move(*value) : std::string(), !value});
  }
  for (auto& [inode, cached] : inodes_) {
    if (cached.deleted) {
      changes.push_back({schema::InodeKey(inode), {}, true});
    } else if (cached.changed) {
      changes.push_back({schema::InodeKey(inode), cached.record.SerializeAsString(), false});
    }
  }
  staged_.clear();
  inodes_.clear();
  // Hash order differs from process to process; a batch is a function of the operation alone.
  std::sort(changes.begin(), changes.end(),
            [](const auto& a, const auto& b) { return a.key < b.key; });
  WriteBatch batch;
  for (WriteBatch::Change& change : changes) {
    if (change.remove) {
      batch.Delete(std::move(change.key));
    } else {
      batch.Put(std::move(change.key), std::move(change.value));
    }
  }
  for (WriteBatch::Range& range : cleared_) {
    batch.Cleared(std::move(range.from), std::move(range.to));
  }
  cleared_.clear();
  return batch;
}

}  // namespace reel::mdc
