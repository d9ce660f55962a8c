#include "mdc/qos/bandwidth_book.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "volume/bandwidth/stream_rate.h"
#include "volume/base/size.h"

namespace reel::mdc {
namespace {

std::string SetText(const VolumeDescriptor& descriptor, const LunSetId& set) {
  return absl::StrCat(descriptor.pools[set.pool].name, "/", set.stripe_set);
}

std::string Speed(std::uint64_t rate_bytes) {
  return absl::StrCat(FormatSize(rate_bytes), "/s");
}

absl::Status Damaged(std::string_view what) {
  return absl::DataLossError(
      absl::StrCat(std::string(what), " cannot be decoded; run fsck.reelfs"));
}

absl::Status ValidateRate(const v1::ReservationRecord& record) {
  if (record.rate_bytes() >= kLeastStreamRateBytes && record.rate_bytes() <= kMostStreamRateBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("a rate of ", Speed(record.rate_bytes()),
                                                 " cannot be reserved; from ",
                                                 Speed(kLeastStreamRateBytes), " on one can"));
}

}  // namespace

std::string ReservationText(const v1::ReservationRecord& record) {
  switch (record.kind()) {
    case v1::RESERVATION_CLIENT:
      return absl::StrCat("client ", record.name());
    case v1::RESERVATION_TREE:
      return absl::StrCat("tree ", record.name());
    case v1::RESERVATION_FILE:
      return absl::StrCat("file ", record.name());
    case v1::RESERVATION_STREAM:
      return absl::StrCat("the stream of inode ", record.inode());
    default:
      return "nobody";
  }
}

absl::Status BandwidthBook::Load(const MetaDb& db) {
  const std::string prefix = schema::Prefix(schema::Family::kBandwidth);
  auto cursor = db.Scan(prefix, prefix, Tier::kAll);
  for (; cursor->Valid(); cursor->Next()) {
    const auto key = schema::Parse(cursor->key());
    if (!key.ok()) return key.status();
    const std::string value(cursor->value());
    if (key->first == static_cast<std::uint64_t>(schema::BandwidthKind::kCapacity)) {
      const LunSetId set{static_cast<std::uint32_t>(key->second >> 32),
                         static_cast<std::uint32_t>(key->second)};
      if (!capacities_[set].ParseFromString(value)) return Damaged("the capacity of a LUN set");
      continue;
    }
    if (!reservations_[key->second].ParseFromString(value)) return Damaged("a reservation");
    last_ = std::max(last_, key->second);
  }
  return cursor->status();
}

bool BandwidthBook::IsOn(const v1::ReservationRecord& record, const LunSetId& set) {
  return record.pools().empty() ||
         std::find(record.pools().begin(), record.pools().end(), set.pool) != record.pools().end();
}

std::uint64_t BandwidthBook::ReservedOn(const LunSetId& set) const {
  std::uint64_t sum = 0;
  for (const auto& [id, record] : reservations_) {
    if (IsOn(record, set)) sum += record.rate_bytes();
  }
  return sum;
}

std::uint64_t BandwidthBook::Find(const v1::ReservationRecord& record) const {
  for (const auto& [id, known] : reservations_) {
    if (known.kind() != record.kind()) continue;
    const bool named = record.kind() == v1::RESERVATION_CLIENT;
    if (named ? known.name() == record.name()
              : known.tree() == record.tree() && known.inode() == record.inode() &&
                    known.session() == record.session()) {
      return id;
    }
  }
  return 0;
}

std::vector<std::uint64_t> BandwidthBook::StreamsOf(SessionId session) const {
  std::vector<std::uint64_t> streams;
  for (const auto& [id, record] : reservations_) {
    if (record.kind() == v1::RESERVATION_STREAM && record.session() == session.value())
      streams.push_back(id);
  }
  return streams;
}

absl::StatusOr<BandwidthBook::Change> BandwidthBook::SetCapacity(
    const VolumeDescriptor& descriptor, PoolId pool, std::optional<std::uint32_t> stripe_set,
    const v1::CapacityRecord& capacity) const {
  if (capacity.rate_bytes() > kMostStreamRateBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("no LUN set carries ", Speed(capacity.rate_bytes())));
  }
  Change change;
  for (const LunSetId& set : DataLunSets(descriptor)) {
    if (set.pool != pool.value() || (stripe_set && set.stripe_set != *stripe_set)) continue;
    const std::uint64_t reserved = ReservedOn(set);
    if (reserved > ReservableOf(capacity.rate_bytes())) {
      return absl::FailedPreconditionError(absl::StrCat(
          Speed(reserved), " are reserved on LUN set ", SetText(descriptor, set), ", and of ",
          Speed(capacity.rate_bytes()), " only ", Speed(ReservableOf(capacity.rate_bytes())),
          " could be; release some first (\"reeladm qos\" lists them)"));
    }
    change.capacities.emplace_back(set, capacity);
  }
  if (!change.capacities.empty()) return change;
  return absl::NotFoundError(
      absl::StrCat("pool ", descriptor.pools[pool.value()].name, " has no such LUN set for data"));
}

absl::StatusOr<BandwidthBook::Change> BandwidthBook::Reserve(const VolumeDescriptor& descriptor,
                                                             v1::ReservationRecord record) const {
  if (absl::Status valid = ValidateRate(record); !valid.ok()) return valid;
  const std::uint64_t known = Find(record);
  if (known == 0 && reservations_.size() >= kMaxReservations) {
    return absl::FailedPreconditionError(absl::StrCat(
        "there are ", kMaxReservations, " reservations, the most that a volume has; release one"));
  }
  for (const LunSetId& set : DataLunSets(descriptor)) {
    if (!IsOn(record, set)) continue;
    const auto capacity = capacities_.find(set);
    if (capacity == capacities_.end()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "it is not known what LUN set ", SetText(descriptor, set),
          " carries: measure it (reel-bench --qos) and store it (reeladm qos capacity ",
          descriptor.pools[set.pool].name, " RATE), or reserve on other pools alone"));
    }
    std::uint64_t others = ReservedOn(set);
    if (known != 0 && IsOn(reservations_.at(known), set))
      others -= reservations_.at(known).rate_bytes();
    const std::uint64_t most = ReservableOf(capacity->second.rate_bytes());
    if (others + record.rate_bytes() <= most) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "LUN set ", SetText(descriptor, set), " carries ", Speed(capacity->second.rate_bytes()),
        ", of which ", Speed(most), " may be reserved and ", Speed(others),
        " are: ", Speed(record.rate_bytes()), " for ", ReservationText(record),
        " are too much; ask for ", Speed(most - std::min(most, others)), " or release others"));
  }
  Change change;
  change.reservations.emplace_back(known != 0 ? known : last_ + 1, std::move(record));
  return change;
}

void BandwidthBook::Take(const Change& change) {
  for (const auto& [set, record] : change.capacities) {
    if (record.rate_bytes() == 0) {
      capacities_.erase(set);
    } else {
      capacities_[set] = record;
    }
  }
  for (const auto& [id, record] : change.reservations) {
    last_ = std::max(last_, id);
    if (record) {
      reservations_[id] = *record;
    } else {
      reservations_.erase(id);
    }
  }
}

}  // namespace reel::mdc
