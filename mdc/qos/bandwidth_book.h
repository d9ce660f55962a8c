// What LUN sets carry, and what of it is reserved: family 'B' of the store, in memory.
//
// Invariants:
//   1. On no LUN set more is reserved than ReservableOf its capacity: what would break that is
//      refused, be it a reservation or a lower capacity.
//   2. A client, a tree, a file, and a session's stream of a file have one reservation each.
// A change is made in two steps: it is worked out and staged with a transaction, and taken when
// that has been committed. Errors are one line and have the numbers. Threads: the core thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mdc/metadb/meta_db.h"
#include "mdc/metadb/schema.h"
#include "proto/records.pb.h"
#include "volume/bandwidth/lun_sets.h"
#include "volume/base/types.h"
#include "volume/format/descriptor.h"

namespace reel::mdc {

class BandwidthBook {
 public:
  static constexpr std::size_t kMaxReservations = 64;
  // The rest is for what has no reservation, and for LUNs that are not always as fast as measured.
  static std::uint64_t ReservableOf(std::uint64_t rate_bytes) { return rate_bytes / 10 * 9; }

  struct Change {
    std::vector<std::pair<LunSetId, v1::CapacityRecord>> capacities{};  // rate 0: it goes
    // Without a record, it goes.
    std::vector<std::pair<std::uint64_t, std::optional<v1::ReservationRecord>>> reservations{};

    // Batch: a WriteBatch or a Txn.
    template <typename Batch>
    void Stage(Batch& batch) const;
  };

  // DATA_LOSS names a damaged record.
  absl::Status Load(const MetaDb& db);

  const std::map<LunSetId, v1::CapacityRecord>& capacities() const { return capacities_; }
  const std::map<std::uint64_t, v1::ReservationRecord>& reservations() const {
    return reservations_;
  }
  static bool IsOn(const v1::ReservationRecord& record, const LunSetId& set);
  // In a second.
  std::uint64_t ReservedOn(const LunSetId& set) const;
  // The one that is about the same as `record`; 0: none is.
  std::uint64_t Find(const v1::ReservationRecord& record) const;
  // Those of the session's streams.
  std::vector<std::uint64_t> StreamsOf(SessionId session) const;

  // FAILED_PRECONDITION: more is reserved there. NOT_FOUND: the pool has no such set.
  absl::StatusOr<Change> SetCapacity(const VolumeDescriptor& descriptor, PoolId pool,
                                     std::optional<std::uint32_t> stripe_set,
                                     const v1::CapacityRecord& capacity) const;
  // FAILED_PRECONDITION: it cannot be kept; INVALID_ARGUMENT. The change has its number.
  absl::StatusOr<Change> Reserve(const VolumeDescriptor& descriptor,
                                 v1::ReservationRecord record) const;
  void Take(const Change& change);

 private:
  std::map<LunSetId, v1::CapacityRecord> capacities_;
  std::map<std::uint64_t, v1::ReservationRecord> reservations_;
  std::uint64_t last_ = 0;  // no reservation of this epoch has had a higher number
};

template <typename Batch>
void BandwidthBook::Change::Stage(Batch& batch) const {
  for (const auto& [set, record] : capacities) {
    const std::string key = schema::CapacityKey(PoolId(set.pool), set.stripe_set);
    if (record.rate_bytes() == 0) {
      batch.Delete(key);
    } else {
      batch.Put(key, record.SerializeAsString());
    }
  }
  for (const auto& [id, record] : reservations) {
    if (record) {
      batch.Put(schema::ReservationKey(id), record->SerializeAsString());
    } else {
      batch.Delete(schema::ReservationKey(id));
    }
  }
}

// "client ws1", "the stream of inode 12": for messages.
std::string ReservationText(const v1::ReservationRecord& record);

}  // namespace reel::mdc
