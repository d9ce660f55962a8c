#include "volume/iscsi/iscsi_reservations.h"

#include <array>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "volume/base/check.h"
#include "volume/lun/lun_fault.h"

namespace reel {
namespace {

using Kind = ScsiOutcome::Kind;
using Outcome = ReservationResult::Outcome;

Outcome OutcomeOf(Kind kind) {
  switch (kind) {
    case Kind::kDone:
      return Outcome::kDone;
    case Kind::kConflict:
      return Outcome::kConflict;
    case Kind::kCheck:
    case Kind::kBusy:
    case Kind::kClosed:
      return Outcome::kNotDone;
    case Kind::kAborted:
    case Kind::kUnknown:
      break;
  }
  return Outcome::kUnknown;
}

}  // namespace

ReservationResult IscsiReservations::ResultOf(const ScsiOutcome& outcome,
                                              const std::string& what) const {
  return {.outcome = OutcomeOf(outcome.kind), .status = lun_.StatusOf(outcome, what)};
}

ReservationResult IscsiReservations::Change(scsi::ReserveOut action, std::uint64_t key,
                                            std::uint64_t action_key, const std::string& what) {
  auto parameters = scsi::ReserveOutKeys(key, action_key);
  return ResultOf(
      lun_.Execute(scsi::PersistentReserveOut(action), IscsiCommand::Data::kOut, parameters), what);
}

// With 0 for the key that the path has now: a path that has one is refused.
ReservationResult IscsiReservations::Register(std::uint64_t key) {
  REEL_CHECK(key != 0, "0 stands for no key");
  return Change(scsi::ReserveOut::kRegister, 0, key, "REGISTER");
}

ReservationResult IscsiReservations::Unregister(std::uint64_t key) {
  return Change(scsi::ReserveOut::kRegister, key, 0, "REGISTER of no key");
}

ReservationResult IscsiReservations::Reserve(std::uint64_t key) {
  return Change(scsi::ReserveOut::kReserve, key, 0, "RESERVE");
}

ReservationResult IscsiReservations::Preempt(std::uint64_t key, std::uint64_t victim) {
  return Change(scsi::ReserveOut::kPreempt, key, victim, "PREEMPT");
}

ReservationResult IscsiReservations::Clear(std::uint64_t key) {
  return Change(scsi::ReserveOut::kClear, key, 0, "CLEAR");
}

absl::StatusOr<Registrations> IscsiReservations::ReadKeys() {
  // A second time where the first answer says that there is more than fitted.
  std::vector<std::byte> answer(1024);
  for (;;) {
    const auto size = static_cast<std::uint16_t>(answer.size());
    const ScsiOutcome outcome =
        lun_.Execute(scsi::PersistentReserveIn(scsi::ReserveIn::kReadKeys, size),
                     IscsiCommand::Data::kIn, answer);
    if (outcome.kind != Kind::kDone) return lun_.StatusOf(outcome, "READ KEYS");
    const auto keys = scsi::DecodeKeys(std::span(answer).first(outcome.transferred_bytes));
    if (!keys.ok()) {
      return absl::DataLossError(absl::StrCat(lun_.name(), ": ", keys.status().message()));
    }
    if (keys->length_bytes <= answer.size()) {
      return Registrations{.generation = keys->generation, .keys = keys->keys};
    }
    if (answer.size() == scsi::kMaxKeysBytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat(lun_.name(), ": more registrations than an answer can hold"));
    }
    answer.resize(scsi::kMaxKeysBytes);
  }
}

absl::StatusOr<std::optional<ReservationHolder>> IscsiReservations::ReadHolder() {
  std::array<std::byte, 64> answer{};
  const ScsiOutcome outcome =
      lun_.Execute(scsi::PersistentReserveIn(scsi::ReserveIn::kReadReservation, answer.size()),
                   IscsiCommand::Data::kIn, answer);
  if (outcome.kind != Kind::kDone) return lun_.StatusOf(outcome, "READ RESERVATION");
  const auto holder = scsi::DecodeHolder(std::span(answer).first(outcome.transferred_bytes));
  if (!holder.ok()) {
    return absl::DataLossError(absl::StrCat(lun_.name(), ": ", holder.status().message()));
  }
  if (!holder->has_value()) return std::nullopt;
  return ReservationHolder{
      .key = (*holder)->key,
      .write_exclusive_registrants_only = (*holder)->type == scsi::kWriteExclusiveRegistrantsOnly};
}

ReservationResult IscsiReservations::ResetLun() {
  const ScsiOutcome outcome = lun_.ResetLun();
  if (outcome.kind == Kind::kCheck) {
    return {.outcome = Outcome::kNotDone,
            .status = absl::UnimplementedError(
                absl::StrCat(lun_.name(), ": the target has no LOGICAL UNIT RESET"))};
  }
  return ResultOf(outcome, "LOGICAL UNIT RESET");
}

}  // namespace reel
