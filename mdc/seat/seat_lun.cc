#include "mdc/seat/seat_lun.h"

#include <chrono>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "volume/base/coding.h"
#include "volume/base/thread.h"
#include "volume/format/label.h"
#include "volume/format/reservation_key.h"
#include "volume/lun/lun_fault.h"
#include "volume/lun/reservation.h"

namespace reel::mdc {
namespace {

// Of a look that other hosts' resets ended, or whose path was lost.
constexpr int kMaxSeatTries = 4;

}  // namespace

SeatLun::SeatLun(std::unique_ptr<Lun> lun, const Uuid& volume)
    : lun_(std::move(lun)), volume_(volume), reservations_(lun_->reservations()) {
  if (reservations_ != nullptr && absl::IsUnimplemented(reservations_->ReadKeys().status())) {
    reservations_ = nullptr;
  }
}

SeatLun::~SeatLun() {
  Unregister();
}

absl::StatusOr<std::unique_ptr<SeatLun>> SeatLun::Open(const std::string& name,
                                                       const Uuid& volume) {
  auto lun = OpenLun(name, LunAccess::kReadWrite);
  if (!lun.ok()) return lun.status();
  return absl::WrapUnique(new SeatLun(*std::move(lun), volume));
}

// OK: what failed can be done again.
absl::Status SeatLun::Retry(const absl::Status& status) {
  switch (FaultOf(status)) {
    case LunFault::kAborted:
    case LunFault::kBusy:
      return absl::OkStatus();
    case LunFault::kClosed:
    case LunFault::kUnknown:
    case LunFault::kInDoubt:  // a device that the kernel has removed
      return registered_ ? status : lun_->Reopen();
    default:
      return status;
  }
}

// A LUN that became another volume's never becomes this one's again: where it is this one's after
// the block was read, so was the block.
absl::StatusOr<std::string> SeatLun::ReadOnce() {
  auto bytes = ReadArbitration(*lun_);
  if (!bytes.ok()) return bytes;
  if (absl::Status s = CheckStillOf(*lun_, volume_); !s.ok()) return s;
  return bytes;
}

absl::StatusOr<std::string> SeatLun::Read() {
  auto bytes = ReadOnce();
  for (int i = 1; i < kMaxSeatTries && !bytes.ok() && Retry(bytes.status()).ok(); ++i) {
    bytes = ReadOnce();
  }
  return bytes;
}

ArbitrationResult SeatLun::Write(const ArbitrationBlock& block) {
  const absl::Status status = WriteArbitration(*lun_, block);
  if (status.ok()) return {ArbitrationOutcome::kDone, status};
  switch (FaultOf(status)) {
    case LunFault::kFenced:
      return {ArbitrationOutcome::kLost, absl::AbortedError("this controller was fenced")};
    case LunFault::kClosed:
    case LunFault::kBusy:
      return {ArbitrationOutcome::kNotDone, status};
    default:
      return {ArbitrationOutcome::kUnknown, status};
  }
}

void SeatLun::Wait(std::uint64_t ms) {
  SleepFor(std::chrono::milliseconds(ms));
}

absl::Status SeatLun::LookAtReservation(SeatLook& look) {
  if (reservations_ == nullptr) return absl::OkStatus();
  auto holder = reservations_->ReadHolder();
  if (!holder.ok() && Retry(holder.status()).ok()) holder = reservations_->ReadHolder();
  if (!holder.ok()) return holder.status();
  if (!holder->has_value()) return absl::OkStatus();
  look.reserved_by = (*holder)->key;
  const auto keys = reservations_->ReadKeys();
  if (!keys.ok()) return keys.status();
  for (const std::uint64_t key : keys->keys) {
    const auto parts = PartsOfKey(volume_, key);
    if (parts && parts->controller) look.last_reserved = std::max(look.last_reserved, parts->epoch);
  }
  return absl::OkStatus();
}

absl::StatusOr<SeatLook> SeatLun::Look(const Clock& clock) {
  SeatLook look;
  look.began_ms = clock.NowMs();
  if (absl::Status s = LookAtReservation(look); !s.ok()) return s;
  auto bytes = Read();
  if (!bytes.ok()) return bytes.status();
  look.bytes = *std::move(bytes);
  look.block = DecodeArbitration(AsBytes(look.bytes));
  look.ended_ms = clock.NowMs();
  return look;
}

absl::Status SeatLun::Register(std::uint64_t key) {
  if (reservations_ == nullptr) return absl::OkStatus();
  registered_ = true;  // or is about to be
  ReservationResult result;
  for (int i = 0; i < kMaxSeatTries; ++i) {
    result = reservations_->Register(key);
    if (result.outcome == ReservationResult::Outcome::kConflict) {
      // The path has a key: it is the controller's own, if the holder's word works on it.
      result = reservations_->Reserve(key);
      if (result.done()) return absl::OkStatus();  // and not this object's to take away
    } else if (result.done()) {
      key_ = key;
      return absl::OkStatus();
    }
  }
  return absl::UnavailableError(absl::StrCat(
      lun_->name(), ": the path for beats cannot be registered: ", result.status.message()));
}

void SeatLun::Unregister() {
  registered_ = false;
  if (key_ != 0) (void)reservations_->Unregister(std::exchange(key_, 0));
}

}  // namespace reel::mdc
