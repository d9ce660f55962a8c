// A LUN as a target offers it to several hosts: paths, and persistent reservations (type 5).
//
// Each host opens a path of its own, a Lun. The target checks a write against the registrations
// when it comes in, as real ones do; held back (HoldWrites), it may land long after its host's path
// was lost or its key taken away, until a LUN reset ends it. Invariants:
//   1. A path that was cut stays so until its Reopen, and is then without registration.
//   2. What a path has sent before it was cut is carried out or not, but never told of.
// Threads: all methods may be called concurrently.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "volume/base/mutex.h"
#include "volume/lun/lun.h"
#include "volume/lun/reservation.h"

namespace reel {

class SharedLun {
 public:
  // `lun` holds the bytes and outlives this object, which outlives its paths.
  explicit SharedLun(Lun& lun) : lun_(lun) {}

  // `host` names it, for Cut.
  std::unique_ptr<Lun> NewPath(const std::string& host);
  // The path of one of several processes of that host, whose kernel keeps one for them all (a block
  // device): what is registered is registered for all of them, after one has claimed it.
  std::unique_ptr<Lun> NewPathOfProcess(const std::string& host, const std::string& process);

  // ---- what a test does to it
  void Cut(const std::string& host);
  // That host's kernel takes its device away, and leaves what is asked of it in doubt until Reopen,
  // which finds another one of that name.
  void RemoveDevice(const std::string& host);
  void Restart();  // all paths are lost, and all that was registered
  // Reopen fails as long as this holds.
  void SetUnreachable(bool unreachable);
  // Writes stay in that host's kernel, and are judged by the target when they are sent at last:
  // whatever has become of their process, and under the key that the host has by then.
  void HoldInHost(const std::string& host);
  void SendFromHost(const std::string& host);
  // Of that process nothing is left but what its kernel holds.
  void EndProcess(const std::string& host, const std::string& process);
  // The next change of reservations ends as unknown, carried out or not.
  void LoseNextChange(bool carried_out);
  void SetHasReset(bool has_reset);
  void HoldWrites();
  // What comes from now on is carried out; what was held back stays so.
  void HoldNoMore();
  // Carries out what was held back, in order.
  void ReleaseWrites();

  // ---- what a test asks it
  std::vector<std::uint64_t> Keys() const;  // in order
  std::uint64_t Holder() const;             // 0: none
  int resets() const;
  std::size_t held_writes() const;
  int claims_refused() const;
  // RESERVE by a path that does not have the key.
  int keyless_reserves() const;
  // REGISTER by a path that has a key.
  int registrations_refused() const;

 private:
  class Path;
  class Keeper;
  struct Held {
    LunRequest* request;  // null: its path is lost
    std::string host, process;
    bool in_host;  // not yet sent
    std::uint64_t offset_bytes;
    std::vector<std::byte> bytes;
  };
  struct Nexus {
    bool lost = false;
    bool removed = false;
    std::uint64_t key = 0;
    bool holds_writes = false;
    std::string claimed_by;  // a process
    std::set<std::string> ended;
  };

  void Start(const std::string& host, const std::string& process, LunRequest& request);
  absl::Status Claim(const std::string& host, const std::string& process);
  absl::Status Reopen(const std::string& host);
  absl::Status CheckPath(const std::string& host, bool writes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // `act`, under the lock, says whether the keys let it happen.
  template <typename Act>
  ReservationResult Perform(const std::string& host, Act act);
  void LosePath(const std::string& host, std::vector<LunRequest*>& unknown)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Lun& lun_;
  mutable Mutex mutex_;
  std::map<std::string, Nexus> paths_ ABSL_GUARDED_BY(mutex_);
  // Of connections that are gone, which a target remembers.
  std::vector<std::uint64_t> left_over_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t holder_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint32_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  bool unreachable_ ABSL_GUARDED_BY(mutex_) = false;
  bool has_reset_ ABSL_GUARDED_BY(mutex_) = true;
  bool holding_ ABSL_GUARDED_BY(mutex_) = false;
  int lose_changes_ ABSL_GUARDED_BY(mutex_) = 0;
  bool carry_out_ ABSL_GUARDED_BY(mutex_) = false;
  int resets_ ABSL_GUARDED_BY(mutex_) = 0;
  int claims_refused_ ABSL_GUARDED_BY(mutex_) = 0;
  int registrations_refused_ ABSL_GUARDED_BY(mutex_) = 0;
  int keyless_reserves_ ABSL_GUARDED_BY(mutex_) = 0;
  std::deque<Held> held_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel
