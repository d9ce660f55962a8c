#include "volume/scsi/scsi_outcome.h"

#include "absl/strings/str_cat.h"
#include "volume/lun/lun_fault.h"
#include "volume/scsi/scsi.h"

namespace reel {

using Kind = ScsiOutcome::Kind;

bool TakeSense(std::uint8_t key, std::uint16_t code, bool deferred, ScsiOutcome& outcome) {
  outcome.sense = true;
  outcome.key = key;
  outcome.code = code;
  const scsi::Verdict verdict = scsi::VerdictOf(key, code, deferred);
  switch (verdict) {
    case scsi::Verdict::kDone:
      outcome.kind = Kind::kDone;
      break;
    case scsi::Verdict::kNotYet:
    case scsi::Verdict::kNotNow:
      outcome.kind = Kind::kBusy;
      break;
    case scsi::Verdict::kAborted:
      outcome.kind = Kind::kAborted;
      break;
    case scsi::Verdict::kRefused:
      outcome.kind = Kind::kCheck;
      break;
  }
  return verdict == scsi::Verdict::kNotYet;
}

bool IsUnsupported(const ScsiOutcome& outcome) {
  return outcome.kind == Kind::kCheck && outcome.key == scsi::kIllegalRequest &&
         (outcome.code == scsi::kInvalidCommand || outcome.code == scsi::kInvalidField);
}

absl::Status FailureOf(const ScsiOutcome& outcome) {
  switch (outcome.kind) {
    case Kind::kDone:
      return absl::UnknownError(
          absl::StrCat("only ", outcome.transferred_bytes, " bytes were transferred"));
    case Kind::kCheck:
      return absl::UnknownError(scsi::SenseText(outcome.key, outcome.code));
    case Kind::kConflict:
      return LunFaultStatus(LunFault::kFenced,
                            "RESERVATION CONFLICT: this path has no key registered there");
    case Kind::kAborted:
      return LunFaultStatus(LunFault::kAborted, outcome.sense
                                                    ? scsi::SenseText(outcome.key, outcome.code)
                                                    : "ended by a reset of the LUN");
    case Kind::kBusy:
      return LunFaultStatus(LunFault::kBusy, outcome.sense
                                                 ? scsi::SenseText(outcome.key, outcome.code)
                                                 : "the target is busy");
    case Kind::kUnknown:
      return LunFaultStatus(LunFault::kUnknown,
                            absl::StrCat(outcome.text, "; whether it was done is unknown"));
    case Kind::kClosed:
      break;
  }
  return LunFaultStatus(LunFault::kClosed, absl::StrCat(outcome.text, "; not sent"));
}

absl::Status ReservationsNotKnown(const absl::Status& failure) {
  return WithText(failure, absl::StrCat(failure.message(),
                                        "; not opened, as it may have reservations: try again, and "
                                        "if that lasts, check the LUN"));
}

}  // namespace reel
