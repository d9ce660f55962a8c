// A controller's hold on the LUNs that have reservations, and the means to cut others off them.
//
// On each such LUN this controller is registered with a key of its own, and holds the type 5
// reservation: who is not registered cannot write. Invariants:
//   1. A key of ours is used for one path, once; a path that was opened anew gets another.
//   2. What is unknown is asked for, and is never taken for done.
//   3. A LUN with metadata is never opened anew: what was sent to it on a lost path decides whether
//      a commit is durable, and that is recovery's to find out. Its loss is the end of the seat.
// Threads: one at a time. Everything waits for the LUNs.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mdc/core/core.h"
#include "volume/format/lun_scan.h"
#include "volume/lun/reservation.h"

namespace reel::mdc {

class Fencer {
 public:
  // `volume` outlives it.
  explicit Fencer(OpenVolume& volume);

  // The volume by a later map, or back to the one before: LUNs that came are taken as by Take, and
  // those that went are let go. Not OK: all is as it was. It outlives this object.
  // FAILED_PRECONDITION also: the first LUN with reservations would come to sessions without keys.
  absl::Status TakeMap(OpenVolume& volume, std::uint64_t* quarantine_ms);
  const OpenVolume& volume() const { return *volume_; }

  // Some LUN, all LUNs have reservations that can be used.
  bool any() const { return used_ > 0; }
  bool all() const { return used_ == volume_->luns.size(); }
  // For so long LUNs with data that have none, or none that can be used, may still execute what a
  // session sent. 0: there are no such LUNs, or they are image files.
  std::uint64_t keyless_quarantine_ms() const;

  // The seat LUN has reservations: who has the seat is decided by them.
  bool seat_key_rules() const;
  // Takes the reservation of the seat LUN from `expected` (0: nobody), who is cut off by that: a
  // compare-and-swap. The key that it is held by from now on. ABORTED: somebody else was faster,
  // and nothing of ours stays there; else as Take.
  absl::StatusOr<std::uint64_t> TakeSeatLun(Epoch epoch, std::uint64_t expected,
                                            std::uint64_t* quarantine_ms);

  // Takes the seat on every LUN: registers, takes the reservation from an earlier controller, and
  // waits for what that one had sent. FAILED_PRECONDITION: something that is not of this volume is
  // registered there, or a controller of a later epoch; else why it could not be done.
  // `*quarantine_ms`: so long the caller has to wait still before it reads (LUNs without reset).
  absl::Status Take(Epoch epoch, std::uint64_t* quarantine_ms);
  // Takes session keys away that are not in `known`, and waits for what was sent under them.
  // `*quarantine_ms` as above.
  absl::Status Sweep(const std::map<std::uint64_t, SessionId>& known, std::uint64_t* quarantine_ms);

  FenceOutcome Fence(const CoreOutputs::Fence& order);
  // Waits for what was sent to the LUNs before, whoever sent it: for who has cleared registrations
  // there, so that Take found nobody to wait for. UNAVAILABLE: a LUN does not answer.
  // `*quarantine_ms` as above.
  absl::Status AwaitSent(std::uint64_t* quarantine_ms);

  // Looks whether all is as Take left it, and mends LUNs without metadata. Not OK: the seat is
  // lost, and this process must end. Session keys that it saw go to `seen`; what is wrong and will
  // be tried again to `problems`.
  absl::Status Watch(std::vector<std::uint64_t>& seen, std::vector<std::string>& problems);
  // The LUNs that it could not reach.
  const std::vector<Uuid>& lost() const { return lost_; }

  // Gives the LUNs up on which nobody else is registered: after the last session.
  void Leave();

  // What the LUNs say now.
  struct LunKeys {
    absl::Status status;
    Registrations registrations;
    std::uint64_t holder = 0;  // 0: none
  };
  std::vector<LunKeys> List();  // by LUN

 private:
  struct LunState {
    Reservations* reservations = nullptr;  // null: none, or not usable; or `first` has them
    // It is the LUN of an earlier place, which has grown: all that is done to it is done there.
    std::optional<std::size_t> first;
    Lun* lun = nullptr;
    bool metadata = false, data = false;
    std::uint64_t key = 0;  // of this path; 0: not registered, as far as is known
  };
  struct View {
    std::vector<std::uint64_t> keys;
    std::uint64_t holder = 0;
    bool Has(std::uint64_t key) const;
  };

  void Describe();
  absl::StatusOr<View> Look(std::size_t lun);
  // As Look; opens a lost path anew where that is allowed.
  absl::StatusOr<View> LookAnew(std::size_t lun, bool reopen);
  bool IsHeld(const LunState& state, const View& view) const;
  // Does that on all LUNs with reservations at once; the first one's error.
  absl::Status OnEachLun(
      std::uint64_t* quarantine_ms,
      const std::function<absl::Status(std::size_t lun, std::uint64_t* quarantine_ms)>& work) const;
  absl::Status Hold(std::size_t lun, bool reopen, std::uint64_t* quarantine_ms);
  std::size_t SeatIndex() const;
  // Does the next thing that is missing. OK, and `*settled` when nothing is.
  absl::Status Step(LunState& state, const View& view, bool* complete, bool* preempted);
  absl::Status CheckOwners(std::size_t lun, const View& view) const;
  ReservationResult RegisterAnew(LunState& state, const View& view);
  ReservationResult Adopt(LunState& state, const View& view) const;
  FenceOutcome FenceOn(std::size_t lun, const std::vector<std::uint64_t>& victims, bool drain);
  absl::Status Drain(LunState& state, std::uint64_t* quarantine_ms) const;

  OpenVolume* volume_;
  std::vector<LunState> states_;  // by LUN
  std::size_t used_ = 0;
  std::vector<Uuid> ids_;  // by LUN
  std::vector<Uuid> lost_;
  Epoch epoch_;
  // While a reservation is taken from one holder only: from whom (0: nobody).
  std::optional<std::uint64_t> expected_;
};

// Of LUNs that cannot be reset: what an earlier controller, or a session, had sent is over after
// that.
void WaitOut(const std::string& volume, std::uint64_t quarantine_ms);

}  // namespace reel::mdc
