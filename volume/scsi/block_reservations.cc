#include "volume/scsi/block_reservations.h"

#include <linux/pr.h>

#include <algorithm>
#include <array>
#include <span>
#include <vector>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"
#include "volume/base/check.h"
#include "volume/base/thread.h"
#include "volume/lun/lun_fault.h"
#include "volume/scsi/lun_times.h"
#include "volume/scsi/scsi_outcome.h"

namespace reel {
namespace {

using Outcome = ReservationResult::Outcome;

// The kernel has tried for long by itself before it gives anything up.
bool IsWorthAnotherTry(const absl::Status& status, std::uint32_t tries) {
  switch (FaultOf(status)) {
    case LunFault::kBusy:
    case LunFault::kAborted:
      return true;
    case LunFault::kInDoubt:
    case LunFault::kUnknown:
      return tries + 1 < kMaxDoubts;
    default:
      return false;
  }
}

// Whether it answers READ KEYS: asked again for `patience`, as long as time may mend it.
absl::Status Question(const DevicePath& path, std::chrono::milliseconds patience) {
  std::array<std::byte, 8> buffer{};
  const auto until = std::chrono::steady_clock::now() + patience;
  for (std::uint32_t tries = 0;; ++tries) {
    absl::Status status = path.Ask(scsi::ReserveIn::kReadKeys, buffer, "READ KEYS").status();
    if (status.ok() || !IsWorthAnotherTry(status, tries) ||
        std::chrono::steady_clock::now() >= until) {
      return status;
    }
    SleepFor(std::chrono::milliseconds(LunBusyPauseMs(tries)));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<BlockReservations>> BlockReservations::Find(
    DevicePath device, PathsOfDevice paths, ClaimDevice claim, std::chrono::milliseconds patience) {
  const absl::Status status = Question(device, patience);
  if (absl::IsUnimplemented(status)) return nullptr;
  if (!status.ok()) return ReservationsNotKnown(status);
  return std::make_unique<BlockReservations>(std::move(device), std::move(paths), std::move(claim));
}

// From 0: the path has none yet; to 0: it is to have none.
ReservationResult BlockReservations::ChangeKey(const DevicePath& path, std::uint64_t from,
                                               std::uint64_t to) {
  pr_registration argument{};
  argument.old_key = from;
  argument.new_key = to;
  ReservationResult result =
      path.Change(IOC_PR_REGISTER, &argument, to != 0 ? "REGISTER" : "REGISTER of no key");
  if (result.outcome == Outcome::kUnknown) {
    MutexLock lock(mutex_);
    in_doubt_.insert(path.name());
  }
  return result;
}

absl::Status BlockReservations::ClaimPath() {
  const absl::Status status = claim_();
  return status.ok() ? status : absl::AbortedError(status.message());
}

absl::StatusOr<BlockReservations::Answering> BlockReservations::LookForPaths() {
  std::vector<DevicePath> paths = paths_();
  if (paths.empty()) return Answering{.paths = {device_}, .count = 1, .silent = {}};
  Answering found{.paths = {}, .count = paths.size(), .silent = {}};
  for (DevicePath& path : paths) {
    const absl::Status status = Question(path, std::chrono::seconds(1));
    MutexLock lock(mutex_);
    if (status.ok()) {
      in_doubt_.erase(path.name());
      found.paths.push_back(std::move(path));
      continue;
    }
    const absl::Status named = WithText(
        status,
        absl::StrCat(device_.name(), ": one of its paths does not answer: ", status.message()));
    const LunFault fault = FaultOf(status);
    const bool lost = fault == LunFault::kInDoubt || fault == LunFault::kUnknown;
    if (!lost || in_doubt_.contains(path.name())) return named;
    found.silent = named;
  }
  if (found.paths.empty()) return found.silent;
  return found;
}

ReservationResult BlockReservations::Register(std::uint64_t key) {
  REEL_CHECK(key != 0, "0 stands for no key");
  if (absl::Status s = ClaimPath(); !s.ok()) return {.outcome = Outcome::kNotDone, .status = s};
  const auto found = LookForPaths();
  if (!found.ok()) return {.outcome = Outcome::kNotDone, .status = found.status()};
  std::vector<const DevicePath*> added;
  ReservationResult last;
  for (const DevicePath& path : found->paths) {
    last = ChangeKey(path, 0, key);
    if (last.done()) {
      added.push_back(&path);
      continue;
    }
    if (last.outcome == Outcome::kConflict && found->paths.size() > 1) {
      // It may be this very key, of a registration while another path was lost.
      ReservationResult same = ChangeKey(path, key, key);
      if (same.done()) continue;
      last = std::move(same);
    }
    for (const DevicePath* other : added) (void)ChangeKey(*other, key, 0);
    return last;
  }
  if (added.empty()) return last;  // each has it already: kConflict
  if (!found->silent.ok()) {
    spdlog::warn("{}; registered by {} of {} paths, and refused by the LUN if it comes back",
                 std::string(found->silent.message()), found->paths.size(), found->count);
  }
  return {.outcome = Outcome::kDone, .status = absl::OkStatus()};
}

ReservationResult BlockReservations::Unregister(std::uint64_t key) {
  const auto found = LookForPaths();
  if (!found.ok()) return {.outcome = Outcome::kNotDone, .status = found.status()};
  ReservationResult last;
  bool taken_away = false;
  for (const DevicePath& path : found->paths) {
    last = ChangeKey(path, key, 0);
    if (!last.done() && last.outcome != Outcome::kConflict) return last;
    taken_away = taken_away || last.done();
  }
  // A path that does not answer may have it still.
  if (!found->silent.ok()) {
    const auto left = ReadKeys();
    if (!left.ok()) return {.outcome = Outcome::kUnknown, .status = left.status()};
    if (std::ranges::find(left->keys, key) != left->keys.end()) {
      return {.outcome = Outcome::kUnknown, .status = found->silent};
    }
  }
  if (taken_away) return {.outcome = Outcome::kDone, .status = absl::OkStatus()};
  return last;
}

ReservationResult BlockReservations::Reserve(std::uint64_t key) {
  pr_reservation argument{};
  argument.key = key;
  argument.type = PR_WRITE_EXCLUSIVE_REG_ONLY;
  return device_.Change(IOC_PR_RESERVE, &argument, "RESERVE");
}

ReservationResult BlockReservations::Preempt(std::uint64_t key, std::uint64_t victim) {
  pr_preempt argument{};
  argument.old_key = key;
  argument.new_key = victim;
  argument.type = PR_WRITE_EXCLUSIVE_REG_ONLY;
  return device_.Change(IOC_PR_PREEMPT, &argument, "PREEMPT");
}

ReservationResult BlockReservations::Clear(std::uint64_t key) {
  pr_clear argument{};
  argument.key = key;
  return device_.Change(IOC_PR_CLEAR, &argument, "CLEAR");
}

absl::StatusOr<Registrations> BlockReservations::ReadKeys() {
  for (std::size_t size : {std::size_t{1024}, scsi::kMaxKeysBytes}) {
    std::vector<std::byte> buffer(size);
    const auto answer = device_.Ask(scsi::ReserveIn::kReadKeys, buffer, "READ KEYS");
    if (!answer.ok()) return answer.status();
    const auto keys = scsi::DecodeKeys(*answer);
    if (!keys.ok()) {
      return absl::DataLossError(absl::StrCat(device_.name(), ": ", keys.status().message()));
    }
    if (keys->length_bytes <= size) {
      return Registrations{.generation = keys->generation, .keys = keys->keys};
    }
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(device_.name(), ": more registrations than an answer can hold"));
}

absl::StatusOr<std::optional<ReservationHolder>> BlockReservations::ReadHolder() {
  std::array<std::byte, 64> buffer{};
  const auto answer = device_.Ask(scsi::ReserveIn::kReadReservation, buffer, "READ RESERVATION");
  if (!answer.ok()) return answer.status();
  const auto holder = scsi::DecodeHolder(*answer);
  if (!holder.ok()) {
    return absl::DataLossError(absl::StrCat(device_.name(), ": ", holder.status().message()));
  }
  if (!holder->has_value()) return std::nullopt;
  return ReservationHolder{
      .key = (*holder)->key,
      .write_exclusive_registrants_only = (*holder)->type == scsi::kWriteExclusiveRegistrantsOnly};
}

ReservationResult BlockReservations::ResetLun() {
  return device_.ResetLun();
}

}  // namespace reel
