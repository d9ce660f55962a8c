// One volume in this daemon, until it serves it: looks at the seat, stands by while others have it,
// and takes it over when they are gone.
//
// A process that starts on the machine of one that was killed need not wait until that one's term
// is over: its claim of the seat LUN (Lun::ClaimForThisProcess) can be had only by who comes after
// its end. A LUN that was made another volume's is left alone; where that has the name by now, it
// is the one that this is a candidate of from then on. Threads: Open, Begin and StandBy from one;
// Stop and Order from any.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "mdc/seat/peer_watch.h"
#include "mdc/serve/takeover.h"
#include "mdc/serve/volume_role.h"

namespace reel::mdc {

class Candidate {
 public:
  // Finds and opens the LUNs. NOT_FOUND: no such volume, or a LUN of it is missing. `role` is kept
  // up to date about who is active; it and `clock` outlive the candidate.
  // `peers`, which outlives it too, is how it hears of an active controller that it stands by for;
  // null: each one's term is waited for.
  static absl::StatusOr<std::unique_ptr<Candidate>> Open(VolumeServerOptions options,
                                                         SeatOptions seat, VolumeRole& role,
                                                         const Clock& clock,
                                                         PeerPort* peers = nullptr);

  // Looks until it is clear whether somebody has the seat; takes it, if nobody has. Null: somebody
  // has, and StandBy is next. FAILED_PRECONDITION: a tool of this machine is at work on the volume.
  absl::StatusOr<std::unique_ptr<VolumeServer>> Begin();
  // Waits until the seat can be taken, and takes it. Null: Stop was called. An error is the end: it
  // had the seat, and could not serve.
  absl::StatusOr<std::unique_ptr<VolumeServer>> StandBy();
  void Stop();
  // The seat that it has was taken within the term of the last holder.
  bool took_early() const { return contest_.early.has_value(); }
  // An administrator wants this process to take the seat, if nobody has it: for some seconds, and
  // as long as nobody beats there, although the volume is stopped or in maintenance. From any
  // thread.
  void Order();

 private:
  Candidate(VolumeServerOptions options, SeatOptions seat, VolumeRole& role, const Clock& clock)
      : options_(std::move(options)), seat_(std::move(seat)), role_(role), clock_(clock) {}

  // Finds and opens the volume that has the name now.
  absl::Status Find();

  absl::StatusOr<SeatWatch::Verdict> Look();
  absl::StatusOr<SeatLook> LookAtLun();
  void LetGo(const absl::Status& why);
  void Announce();
  // From the takeover on it is this controller that serves: the seat is looked at no more.
  std::unique_ptr<VolumeServer> AnnounceOurs(std::unique_ptr<VolumeServer> server);
  // FAILED_PRECONDITION: this program cannot follow the one that has, or had, the seat.
  absl::Status CheckProtocol() const;
  // Not OK: what administrators want is in the way.
  absl::Status Wanted();
  // Whether the claim of this machine, or the lack of it, lets the seat be taken.
  bool MayTake(SeatWatch::Verdict verdict);
  bool HolderIsDead() const;
  absl::Status ReopenLun();
  // Of a seat that is held: whether its holder can be fenced now.
  std::optional<EarlyClaim> Early();
  void FollowHolder();
  Takeover TakeTheSeat();
  bool WaitForNextLook();  // false: Stop was called

  VolumeServerOptions options_;
  SeatOptions seat_;
  VolumeRole& role_;
  const Clock& clock_;
  std::optional<SeatWatch> watch_;
  Contest contest_;
  std::string lun_name_;
  std::optional<std::uint64_t> changes_at_order_;  // that `watch_` had seen
  bool warned_ = false;
  std::uint64_t find_at_ms_ = 0;     // not before: the next try to find the volume
  std::optional<PeerWatch> holder_;  // of a standby that can reach others

  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::uint64_t ordered_until_ms_ ABSL_GUARDED_BY(mutex_) = 0;
  bool order_is_new_ ABSL_GUARDED_BY(mutex_) = false;
};

// The seat of a volume that no other controller serves, and a server for it: what Open and Begin do
// in one. UNAVAILABLE: another one is active.
absl::StatusOr<std::unique_ptr<VolumeServer>> TakeAndServe(VolumeServerOptions options,
                                                           const SeatOptions& seat,
                                                           const Clock& clock);

}  // namespace reel::mdc
