// Where the store is known to hold nothing: what a scan jumps over.
//
// A removed key leaves a tombstone in the store until a compaction takes it away, and a scan has to
// step over each of them. So that what was removed long ago costs nothing, a scan that has stepped
// over many tells where they were, and the next one begins behind them.
//
// Invariants:
//   1. No key of a range is in the store, as of the last change that Applied was told of. A put
//      splits the range that it falls into; a removal joins the ranges on either side of its key.
//   2. Ranges are disjoint, and do not touch.
//   3. A range holds for every snapshot that is not older than its last growth. A scan whose
//      snapshot may be older does not get it.
// What is not known costs time, never bytes: above the limit ranges are forgotten one by one.
// Threads: any. Applied is called once for each batch, after the batch is visible to new scans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "mdc/metadb/meta_db.h"
#include "volume/base/mutex.h"

namespace reel::mdc {

class EmptyRanges {
 public:
  explicit EmptyRanges(std::size_t max_ranges) : max_ranges_(max_ranges) {}

  // A scan's place among the changes.
  using Mark = std::uint64_t;
  // Before the scan takes its snapshot; End follows when it learns nothing more.
  Mark Begin();
  void End();

  struct Range {
    std::string from;     // inclusive
    std::string to;       // exclusive
    bool usable = false;  // for the scan that asked
  };
  // The first range that ends after `key`.
  std::optional<Range> Find(Mark mark, std::string_view key) const;
  // The scan has found nothing in [from, to).
  void Learn(Mark mark, std::string from, std::string to);
  void Applied(const WriteBatch& batch);

  std::size_t size() const;

 private:
  struct Rest {
    std::string to;
    Mark since = 0;
  };
  using Ranges = std::map<std::string, Rest, std::less<>>;

  void Insert(std::string from, std::string to) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Put(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remove(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Forget() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::size_t max_ranges_;
  mutable Mutex mutex_;
  Ranges ranges_ ABSL_GUARDED_BY(mutex_);  // by `from`
  std::string forgotten_to_ ABSL_GUARDED_BY(mutex_);
  Mark version_ ABSL_GUARDED_BY(mutex_) = 0;  // grows with each batch
  std::size_t scans_ ABSL_GUARDED_BY(mutex_) = 0;
  // What was put since the oldest scan began, or since puts_from_ at least.
  std::deque<std::pair<Mark, std::string>> puts_ ABSL_GUARDED_BY(mutex_);
  Mark puts_from_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace reel::mdc
