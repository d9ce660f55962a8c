// SCSI-3 persistent reservations of one LUN, for the path that its I/O takes: how a host is cut
// off.
//
// ReelFS uses type 5 (Write Exclusive, Registrants Only): a path whose key is registered may write,
// everybody may read. A key (never 0) is registered for the *path*: a session of one initiator with
// one port of the target. A path that was lost and opened again has none, and nothing here ever
// registers by itself. (After a PREEMPT of its key a host can register again, with the old key too,
// and write: keys are never used twice, and the session alone decides when to register.)
//
// Each change has one of four outcomes. Where it is kUnknown, ReadKeys and ReadHolder tell what is
// so *now*, once a path answers: a change on its way may still be done after that, unless it was
// sent on a path that the target has seen end.
//
// Threads: all methods may be called concurrently. They wait for the target, within the LUN's
// command timeout.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace reel {

struct ReservationResult {
  enum class Outcome {
    kDone,
    kConflict,  // RESERVATION CONFLICT: not done, because of the keys as they are
    kNotDone,   // refused for another reason, or never sent
    kUnknown,   // the path was lost, or the answer says neither
  };
  Outcome outcome = Outcome::kNotDone;
  absl::Status status;  // OK when done; else names the LUN and the reason

  bool done() const { return outcome == Outcome::kDone; }
};

struct Registrations {
  std::uint32_t generation = 0;  // counts the target's changes of them
  // One for each path: a key stands here as often as it is registered.
  std::vector<std::uint64_t> keys;
};

struct ReservationHolder {
  std::uint64_t key = 0;
  bool write_exclusive_registrants_only = false;  // type 5; else somebody else's reservation
};

class Reservations {
 public:
  virtual ~Reservations() = default;

  // Where the processes of a host share one path (the kernel's, to a block device): makes it this
  // process's alone, once no command that another one has sent can be sent again. ABORTED: it is
  // another's yet. OK where each has a path of its own.
  virtual absl::Status ClaimPath() { return absl::OkStatus(); }

  // Registers `key` for this path, which it claims first. kConflict: the path has a key already. A
  // device of several paths has one when each of them has; else it gets it on those that lack it.
  // REQUIRES: key != 0.
  virtual ReservationResult Register(std::uint64_t key) = 0;
  // Takes this path's registration away. kConflict: it is not `key`.
  virtual ReservationResult Unregister(std::uint64_t key) = 0;
  // Makes this path the holder of the type 5 reservation; done again by its holder, it changes
  // nothing. kConflict: this path's key is not `key`, or somebody else holds one.
  virtual ReservationResult Reserve(std::uint64_t key) = 0;
  // Takes every registration of `victim` away; if that was the holder's, this path holds the
  // reservation from then on. kConflict: this path's key is not `key`, or nobody's is `victim`: of
  // several that preempt the same holder, exactly one succeeds. What the victim had sent before may
  // still be executing: ResetLun.
  virtual ReservationResult Preempt(std::uint64_t key, std::uint64_t victim) = 0;
  // Takes the reservation and all registrations away. kConflict: this path's key is not `key`.
  virtual ReservationResult Clear(std::uint64_t key) = 0;

  // UNIMPLEMENTED where the device cannot be asked.
  virtual absl::StatusOr<Registrations> ReadKeys() = 0;
  // nullopt: there is none. UNIMPLEMENTED as above.
  virtual absl::StatusOr<std::optional<ReservationHolder>> ReadHolder() = 0;

  // LOGICAL UNIT RESET: when it is done, no command that any host had sent before is still
  // executing. Registrations and the reservation stay. Other hosts' commands may end as kAborted
  // (volume/lun/lun_fault.h), or without an answer. UNIMPLEMENTED where the device cannot.
  virtual ReservationResult ResetLun() = 0;
};

}  // namespace reel
