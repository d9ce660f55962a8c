// What is known of a LUN request that failed, where the caller must know more than that it failed.
//
// The word travels inside the absl::Status, as a payload, and survives IoBatch. A status without
// one says only that the request failed. Nothing here is ever retried by the LUN: what follows is
// the session's to decide.
//
//   fault       done?                 over?               worth doing again
//   kUnknown    perhaps               no: drain first     on a new path
//   kInDoubt    perhaps               no: drain first     on the same one, if it answers
//   kFenced     no                    yes                 under another key
//   kClosed     no                    yes                 on a new path
//   kAborted    perhaps in part       yes                 yes
//   kBusy       no                    yes                 after a while
//   kNone       as the error says     yes                 no: it is final
#pragma once

#include <string>

#include "absl/status/status.h"

namespace reel {

enum class LunFault {
  kNone,     // OK, or a failure of which nothing more is known
  kUnknown,  // the path was lost with the request on its way: it may have been done, in part or
             // whole, and what the target holds of it may still be done later
  kFenced,   // RESERVATION CONFLICT: this path's key is gone. This command was not executed; what
             // that says of others on their way is for the session to ask
  kAborted,  // the target ended it (a LUN reset by some host, ABORTED COMMAND): it may have been
             // done in part, and is over
  kClosed,   // never sent: the path was lost before. Not done
  kBusy,     // the LUN cannot now, and says so: not done. It is becoming ready, changes its
             // controller, or has too much to do
  kInDoubt,  // a device's driver has given the request up: as kUnknown, but the driver keeps the
             // path, which may work again
};

// UNAVAILABLE, ABORTED or PERMISSION_DENIED (kFenced). REQUIRES: not kNone.
absl::Status LunFaultStatus(LunFault fault, const std::string& text);
LunFault FaultOf(const absl::Status& status);

inline bool IsFenced(const absl::Status& status) {
  return FaultOf(status) == LunFault::kFenced;
}
// True where the request may have taken effect although it failed: kUnknown, kInDoubt and kAborted.
bool IsOutcomeUnknown(const absl::Status& status);
// Whether it says that nothing of the request was done, nor will be.
bool IsNotDone(const absl::Status& status);
// Of several requests, or parts of one, whose failure matters more: what asks for most comes first
// (what may still be executing, a key, a path; then what is final; then what time mends).
bool IsWorse(const absl::Status& one, const absl::Status& other);

// `status` with another text and the same word.
absl::Status WithText(const absl::Status& status, const std::string& text);

}  // namespace reel
