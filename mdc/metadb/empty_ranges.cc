#include "mdc/metadb/empty_ranges.h"

#include <algorithm>
#include <iterator>
#include <vector>

namespace reel::mdc {
namespace {

// So many puts are remembered for the scans that run; one that began before them learns nothing.
constexpr std::size_t kMaxPuts = 4096;

// The first key after `key`.
std::string After(const std::string& key) {
  return key + '\0';
}

}  // namespace

EmptyRanges::Mark EmptyRanges::Begin() {
  MutexLock lock(mutex_);
  if (scans_++ == 0) puts_from_ = version_;
  return version_;
}

void EmptyRanges::End() {
  MutexLock lock(mutex_);
  if (--scans_ == 0) puts_.clear();
}

std::optional<EmptyRanges::Range> EmptyRanges::Find(Mark mark, std::string_view key) const {
  MutexLock lock(mutex_);
  auto it = ranges_.upper_bound(key);
  if (it != ranges_.begin() && std::prev(it)->second.to > key) --it;
  if (it == ranges_.end()) return std::nullopt;
  return Range{it->first, it->second.to, it->second.since <= mark};
}

void EmptyRanges::Learn(Mark mark, std::string from, std::string to) {
  MutexLock lock(mutex_);
  if (mark < puts_from_) return;
  // What was put after the scan's snapshot, it has not seen.
  std::vector<std::string> put;
  for (const auto& [version, key] : puts_) {
    if (version > mark && key >= from && key < to) put.push_back(key);
  }
  std::sort(put.begin(), put.end());
  for (const std::string& key : put) {
    Insert(from, key);
    from = After(key);
  }
  Insert(std::move(from), std::move(to));
}

void EmptyRanges::Applied(const WriteBatch& batch) {
  MutexLock lock(mutex_);
  ++version_;
  for (const WriteBatch::Range& range : batch.cleared()) Insert(range.from, range.to);
  for (const WriteBatch::Change& change : batch.changes()) {
    if (change.remove) {
      Remove(change.key);
    } else {
      Put(change.key);
    }
  }
}

void EmptyRanges::Insert(std::string from, std::string to) {
  if (from >= to) return;
  auto it = ranges_.upper_bound(from);
  if (it != ranges_.begin() && std::prev(it)->second.to >= from) --it;
  while (it != ranges_.end() && it->first <= to) {
    from = std::min(from, it->first);
    to = std::max(to, it->second.to);
    it = ranges_.erase(it);
  }
  ranges_.insert_or_assign(std::move(from), Rest{std::move(to), version_});
  Forget();
}

void EmptyRanges::Put(const std::string& key) {
  if (scans_ > 0) {
    puts_.emplace_back(version_, key);
    if (puts_.size() > kMaxPuts) {
      puts_from_ = puts_.front().first;
      puts_.pop_front();
    }
  }
  auto it = ranges_.upper_bound(key);
  if (it == ranges_.begin() || std::prev(it)->second.to <= key) return;
  --it;
  std::string after = After(key);
  std::optional<Rest> right;
  if (after < it->second.to) right = it->second;
  if (it->first == key) {
    ranges_.erase(it);
  } else {
    it->second.to = key;
  }
  if (!right) return;
  ranges_.insert_or_assign(std::move(after), *std::move(right));
  Forget();
}

// Where neither side is known, there is nothing to join: a lone tombstone costs little.
void EmptyRanges::Remove(const std::string& key) {
  auto right = ranges_.find(After(key));
  const auto next = ranges_.lower_bound(key);
  const bool joins =
      right != ranges_.end() || (next != ranges_.begin() && std::prev(next)->second.to == key);
  if (joins) Insert(key, After(key));
}

// In turn by their keys, so that none is forgotten for ever.
void EmptyRanges::Forget() {
  while (ranges_.size() > max_ranges_) {
    auto it = ranges_.lower_bound(forgotten_to_);
    if (it == ranges_.end()) it = ranges_.begin();
    forgotten_to_ = After(it->first);
    ranges_.erase(it);
  }
}

std::size_t EmptyRanges::size() const {
  MutexLock lock(mutex_);
  return ranges_.size();
}

}  // namespace reel::mdc
