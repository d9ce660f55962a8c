#include "volume/scsi/device_path.h"

#include <scsi/sg.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "volume/lun/device_fault.h"
#include "volume/lun/lun_fault.h"
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

}  // namespace

ReservationResult DevicePath::Change(unsigned long request, void* argument,
                                     const std::string& what) const {
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
      result < 0 ? ErrorText(errno) : absl::StrCat("result 0x", absl::Hex(result));
  return {.outcome = Outcome::kUnknown,
          .status = LunFaultStatus(LunFault::kUnknown,
                                   absl::StrCat(text, reason, "; whether it was done is unknown"))};
}

absl::StatusOr<std::span<const std::byte>> DevicePath::Ask(scsi::ReserveIn action,
                                                           std::span<std::byte> buffer,
                                                           const std::string& what) const {
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

ReservationResult DevicePath::ResetLun() const {
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
