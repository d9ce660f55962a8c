#include "volume/scsi/block_reservations.h"

#include <linux/pr.h>
#include <scsi/sg.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <span>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "volume/base/check.h"
#include "volume/base/thread.h"
#include "volume/lun/device_fault.h"
#include "volume/lun/lun_fault.h"
#include "volume/scsi/lun_times.h"
#include "volume/scsi/scsi_outcome.h"

namespace reel {
namespace {

using Outcome = ReservationResult::Outcome;

constexpr int kMaxDeviceAttentions = 8;
constexpr int kNoEscalation = 0x100;  // the kernel's SG_SCSI_RESET_NO_ESCALATE, which glibc lacks
constexpr unsigned kTimeoutMs = 20'000;

std::string ErrorText(int error) {
  return std::generic_category().message(error);
}

// Errors of the call itself, before anything was sent.
bool NeverSent(int error) {
  return error == EOPNOTSUPP || error == ENOTTY || error == EPERM || error == EACCES ||
         error == EINVAL || error == EFAULT || error == EBADF;
}

// The driver knows no such call, so that the device takes no SCSI commands (loop: EINVAL).
bool TakesNoCommands(int error) {
  return error == ENOTTY || error == EOPNOTSUPP || error == EINVAL;
}

// What became of a question that the driver has taken. True: worth asking again at once.
bool TakeAnswer(const sg_io_hdr_t& request, std::span<const std::byte> sense,
                ScsiOutcome& outcome) {
  outcome = {};
  if (request.status == scsi::kCheckCondition) {
    const scsi::Sense said =
        scsi::DecodeSense(sense.first(std::min<std::size_t>(sense.size(), request.sb_len_wr)));
    return TakeSense(said.key, said.code, said.deferred, outcome);
  }
  if (request.status == scsi::kReservationConflict) {
    outcome.kind = ScsiOutcome::Kind::kConflict;
  } else if (request.status == scsi::kTaskAborted) {
    outcome.kind = ScsiOutcome::Kind::kAborted;
  } else if (request.status != scsi::kGood) {
    outcome.kind = ScsiOutcome::Kind::kBusy;
  } else if (request.host_status != 0) {
    outcome.kind = ScsiOutcome::Kind::kUnknown;
    outcome.text =
        absl::StrCat("the kernel has given it up, host status 0x", absl::Hex(request.host_status));
  } else {
    outcome.kind = ScsiOutcome::Kind::kDone;
  }
  return false;
}

// The status that the device answered with, out of what the kernel's calls for reservations return;
// what says something else stays as it is. Beside the status the kernel may note what it has made
// of it: Linux 5 in the host byte (DID_NEXUS_FAILURE), Linux 6 in the byte between.
int StatusOf(int result) {
  constexpr int kNexusFailure = 0x11;
  const int host = result >> 16 & 0xff, status = result & 0xff;
  const bool answered = result > 0 && (host == 0 || host == kNexusFailure) &&
                        (status == scsi::kReservationConflict || status == scsi::kCheckCondition);
  return answered ? status : result;
}

// What a person can do about a path on which the kernel has given the command up.
std::string GivenUp(int result) {
  if ((result >> 16 & 0xff) == 0) return "";
  return " (the kernel gave it up; with multipath all paths have to answer: connect the lost one, "
         "or take it out of the device)";
}

absl::Status CallFailure(const std::string& text, int error) {
  if (TakesNoCommands(error)) {
    return absl::UnimplementedError(absl::StrCat(
        text, ErrorText(error), "; only SCSI devices can be asked for their reservations"));
  }
  if (error == EPERM || error == EACCES) {
    return absl::PermissionDeniedError(
        absl::StrCat(text, ErrorText(error), "; run as root, or with CAP_SYS_RAWIO"));
  }
  const absl::Status failure = DeviceFailure(error);
  return WithText(failure, absl::StrCat(text, failure.message()));
}

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

}  // namespace

absl::StatusOr<std::unique_ptr<BlockReservations>> BlockReservations::Find(
    std::string name, Control control, ClaimDevice claim, std::chrono::milliseconds patience) {
  auto found =
      std::make_unique<BlockReservations>(std::move(name), std::move(control), std::move(claim));
  std::array<std::byte, 8> buffer{};
  const auto until = std::chrono::steady_clock::now() + patience;
  for (std::uint32_t tries = 0;; ++tries) {
    const absl::Status status =
        found->Ask(scsi::ReserveIn::kReadKeys, buffer, "READ KEYS").status();
    if (status.ok()) return found;
    if (absl::IsUnimplemented(status)) return nullptr;
    if (!IsWorthAnotherTry(status, tries) || std::chrono::steady_clock::now() >= until) {
      return ReservationsNotKnown(status);
    }
    SleepFor(std::chrono::milliseconds(LunBusyPauseMs(tries)));
  }
}

ReservationResult BlockReservations::Change(unsigned long request, void* argument,
                                            const std::string& what) {
  int result = scsi::kCheckCondition;
  // The kernel hands a SCSI status through as a positive result.
  // CHECK CONDITION says that it was not executed; after a unit attention it will be.
  for (int i = 0; i < kMaxDeviceAttentions && result == scsi::kCheckCondition; ++i) {
    result = StatusOf(control_(request, argument));
  }
  const std::string text = absl::StrCat(name_, ": ", what, ": ");
  if (result == 0) return {.outcome = Outcome::kDone, .status = absl::OkStatus()};
  if (result == scsi::kReservationConflict) {
    return {
        .outcome = Outcome::kConflict,
        .status = LunFaultStatus(LunFault::kFenced, absl::StrCat(text, "RESERVATION CONFLICT"))};
  }
  if (result == scsi::kCheckCondition) {
    return {.outcome = Outcome::kNotDone,
            .status = absl::UnknownError(absl::StrCat(
                text,
                "refused by the device with CHECK CONDITION; the kernel's log has its reason "
                "(dmesg); LIO: is there a directory /etc/rtslib-fb-target/pr?"))};
  }
  if (result < 0 && NeverSent(errno)) {
    return {.outcome = Outcome::kNotDone,
            .status = absl::UnknownError(absl::StrCat(text, ErrorText(errno)))};
  }
  const std::string reason =
      result < 0 ? ErrorText(errno) : absl::StrCat("result 0x", absl::Hex(result), GivenUp(result));
  return {.outcome = Outcome::kUnknown,
          .status = LunFaultStatus(LunFault::kUnknown,
                                   absl::StrCat(text, reason, "; whether it was done is unknown"))};
}

absl::Status BlockReservations::ClaimPath() {
  const absl::Status status = claim_();
  return status.ok() ? status : absl::AbortedError(status.message());
}

ReservationResult BlockReservations::Register(std::uint64_t key) {
  REEL_CHECK(key != 0, "0 stands for no key");
  if (absl::Status s = ClaimPath(); !s.ok()) return {.outcome = Outcome::kNotDone, .status = s};
  pr_registration argument{};
  argument.new_key = key;
  return Change(IOC_PR_REGISTER, &argument, "REGISTER");
}

ReservationResult BlockReservations::Unregister(std::uint64_t key) {
  pr_registration argument{};
  argument.old_key = key;
  return Change(IOC_PR_REGISTER, &argument, "REGISTER of no key");
}

ReservationResult BlockReservations::Reserve(std::uint64_t key) {
  pr_reservation argument{};
  argument.key = key;
  argument.type = PR_WRITE_EXCLUSIVE_REG_ONLY;
  return Change(IOC_PR_RESERVE, &argument, "RESERVE");
}

ReservationResult BlockReservations::Preempt(std::uint64_t key, std::uint64_t victim) {
  pr_preempt argument{};
  argument.old_key = key;
  argument.new_key = victim;
  argument.type = PR_WRITE_EXCLUSIVE_REG_ONLY;
  return Change(IOC_PR_PREEMPT, &argument, "PREEMPT");
}

ReservationResult BlockReservations::Clear(std::uint64_t key) {
  pr_clear argument{};
  argument.key = key;
  return Change(IOC_PR_CLEAR, &argument, "CLEAR");
}

absl::StatusOr<std::span<const std::byte>> BlockReservations::Ask(scsi::ReserveIn action,
                                                                  std::span<std::byte> buffer,
                                                                  const std::string& what) {
  const std::string text = absl::StrCat(name_, ": ", what, ": ");
  ScsiOutcome outcome;
  bool again = true;
  for (int i = 0; i < kMaxDeviceAttentions && again; ++i) {
    scsi::Cdb cdb = scsi::PersistentReserveIn(action, static_cast<std::uint16_t>(buffer.size()));
    std::array<std::byte, 32> sense{};
    sg_io_hdr_t request{};
    request.interface_id = 'S';
    request.dxfer_direction = SG_DXFER_FROM_DEV;
    request.cmd_len = cdb.size;
    request.cmdp = cdb.bytes.data();
    request.dxferp = buffer.data();
    request.dxfer_len = static_cast<unsigned>(buffer.size());
    request.sbp = reinterpret_cast<unsigned char*>(sense.data());
    request.mx_sb_len = sense.size();
    request.timeout = kTimeoutMs;
    if (control_(SG_IO, &request) != 0) return CallFailure(text, errno);
    again = TakeAnswer(request, sense, outcome);
    if (outcome.kind == ScsiOutcome::Kind::kDone) {
      const auto missing = static_cast<std::size_t>(std::max(0, request.resid));
      return buffer.first(buffer.size() - std::min(buffer.size(), missing));
    }
  }
  const absl::Status failure = FailureOf(outcome);
  if (IsUnsupported(outcome)) {
    return absl::UnimplementedError(absl::StrCat(text, failure.message()));
  }
  return WithText(failure, absl::StrCat(text, failure.message()));
}

absl::StatusOr<Registrations> BlockReservations::ReadKeys() {
  for (std::size_t size : {std::size_t{1024}, scsi::kMaxKeysBytes}) {
    std::vector<std::byte> buffer(size);
    const auto answer = Ask(scsi::ReserveIn::kReadKeys, buffer, "READ KEYS");
    if (!answer.ok()) return answer.status();
    const auto keys = scsi::DecodeKeys(*answer);
    if (!keys.ok()) {
      return absl::DataLossError(absl::StrCat(name_, ": ", keys.status().message()));
    }
    if (keys->length_bytes <= size) {
      return Registrations{.generation = keys->generation, .keys = keys->keys};
    }
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(name_, ": more registrations than an answer can hold"));
}

absl::StatusOr<std::optional<ReservationHolder>> BlockReservations::ReadHolder() {
  std::array<std::byte, 64> buffer{};
  const auto answer = Ask(scsi::ReserveIn::kReadReservation, buffer, "READ RESERVATION");
  if (!answer.ok()) return answer.status();
  const auto holder = scsi::DecodeHolder(*answer);
  if (!holder.ok()) {
    return absl::DataLossError(absl::StrCat(name_, ": ", holder.status().message()));
  }
  if (!holder->has_value()) return std::nullopt;
  return ReservationHolder{
      .key = (*holder)->key,
      .write_exclusive_registrants_only = (*holder)->type == scsi::kWriteExclusiveRegistrantsOnly};
}

ReservationResult BlockReservations::ResetLun() {
  // The kernel ends its own commands on the way, and tells us when the device has answered.
  int scope = SG_SCSI_RESET_DEVICE | kNoEscalation;
  if (control_(SG_SCSI_RESET, &scope) == 0) {
    return {.outcome = Outcome::kDone, .status = absl::OkStatus()};
  }
  const std::string text = absl::StrCat(name_, ": LOGICAL UNIT RESET: ", ErrorText(errno));
  if (NeverSent(errno)) {
    return {.outcome = Outcome::kNotDone, .status = absl::UnimplementedError(text)};
  }
  return {.outcome = Outcome::kUnknown,
          .status = LunFaultStatus(LunFault::kUnknown, text + "; whether it was done is unknown")};
}

}  // namespace reel
