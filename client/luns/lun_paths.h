// The paths from this host to a volume's LUNs: which of them may be used, and by whom.
//
// Where a LUN for data has reservations, its path is registered with a key that the controller has
// granted to this session for it, and is usable only then. A path that was lost, or whose key is
// registered no longer, is mended here: opened anew, and registered under a new key, which the
// controller grants when nothing that was sent on the old path can land any more. Meanwhile
// requests wait, and are done again. So they do where a LUN says that it cannot now, or a device's
// driver has given them up, but not for ever. Invariants:
//   1. I/O of a session goes out only while that session is the current one and its lease holds:
//      looked at after the paths were entered.
//      A LUN has one number and one path, whatever places of whatever map it has; both stay.
//   2. A path of a LUN that has gone stays closed, and who still waits for it gets EIO.
//   3. A path gets another key only while nobody is in: nothing that was judged under the old
//      session, or before the old path was drained, goes out under the new key.
// Threads: all methods may be called concurrently, except that End comes last.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/base/worker_pool.h"
#include "client/luns/recall_watch.h"
#include "client/session/session.h"
#include "proto/time_histogram.h"
#include "volume/base/env.h"
#include "volume/base/mutex.h"
#include "volume/base/uuid.h"
#include "volume/format/lun_scan.h"

namespace reel::client {

// Under which session's layout I/O is done, and who can give it up.
struct IoPermit {
  std::uint64_t session = 0;  // 0: it changes no bytes, so any will do
  const Interrupt* interrupt = nullptr;
  // While there is a recall of that inode it does not wait for a lost path, but ends as if the
  // permit were over: what it has not sent it may send later. Null: it waits.
  const RecallWatch* yields_to = nullptr;
  // Some of it may have landed, where others may see it: it is done under this session or not at
  // all, and waits where the lease is over and the session may go on.
  bool landed = false;
  std::uint64_t inode = 0;
  std::uint32_t tree = 0;  // that the file belongs to, as far as is known
};

// What a request has been through that is done again: one object a request.
struct Rounds {
  std::uint64_t since_ms = 0;       // of the first round that failed
  std::uint64_t busy_since_ms = 0;  // of the first of those in a row that ended as busy or aborted
  std::uint32_t busy = 0;           // how many these are
  std::uint32_t doubts = 0;         // how often a device's driver has given it up
};

// True of the status of I/O that was not done, because the session or its lease is over, or because
// it gives way. (Not of an interrupt's, which has the same code.)
bool IsPermitOver(const absl::Status& status);
absl::Status PermitOver(const char* why);

class LunPaths {
 public:
  using LunList = absl::InlinedVector<std::uint32_t, 4>;
  struct Options {
    std::uint32_t soft_timeout_ms = 0;  // waits end with ETIMEDOUT after that; 0: never
    bool notes_times = false;           // of requests
  };

  // All of them outlive it.
  LunPaths(OpenVolume& volume, Session& session, const Clock& clock, const Options& options);
  ~LunPaths();
  LunPaths(const LunPaths&) = delete;
  LunPaths& operator=(const LunPaths&) = delete;

  // The volume's LUNs by this map, which outlive this object: the number of each, by the stripe
  // map's flat index. Those that came since get a path, which is registered like the others; of
  // those that have gone this host takes its registration away. REQUIRES: no layout names a LUN
  // that has gone.
  std::vector<std::uint32_t> TakeLuns(const OpenVolume& volume);
  // It is none of the volume's any more: nothing of it has to be durable.
  bool IsGone(std::uint32_t number) const;
  Lun& lun(std::uint32_t number) const { return *paths_[number]->lun; }
  // Waits until these may be used. UNAVAILABLE after a while: why one may not; it is tried on.
  absl::Status AwaitUsable(std::span<const std::uint32_t> luns);

  // There is a map of that generation, and it is being taken; or it has been.
  void AnnounceMap(std::uint64_t generation);
  void MapTaken(std::uint64_t generation);
  // Of a layout that does not lie in the map of that generation: OK when a later one has been
  // taken, which is waited for if one was announced. OUT_OF_RANGE: there is none; else as Enter.
  absl::Status AwaitMapAfter(std::uint64_t generation, const IoPermit& permit);

  // As Options::soft_timeout_ms, also for who waits already.
  void SetSoftTimeout(std::uint32_t soft_timeout_ms) { soft_ms_.store(soft_timeout_ms); }

  // What has gone over each, and how it is.
  std::vector<v1::LunReport> Report() const;
  // Requests to that LUN are done.
  void Count(std::uint32_t lun, bool writes, std::uint64_t requests, std::uint64_t bytes);
  bool notes_times() const { return notes_times_; }
  // One of them took so long. REQUIRES: it notes that.
  void NoteTook(std::uint32_t lun, bool writes, std::uint64_t us);
  struct LunTimes {
    Uuid lun;
    TimeHistogram reads, writes;
  };
  // None where it does not note them.
  std::vector<LunTimes> Times() const;

  // Waits until every path is registered for the session. The first error that waiting does not
  // mend; UNAVAILABLE after a while.
  absl::Status Begin();
  // A new session has begun; its keys replace the old one's. Does not block.
  void OnRegistered(std::uint64_t session, std::uint64_t key);

  // Waits until all these paths may be used, and holds them so until Leave. Not OK: nothing is
  // held. IsPermitOver, EINTR, ETIMEDOUT (soft), EIO (after GiveUpAt), ESHUTDOWN (after Stop).
  absl::Status Enter(std::span<const std::uint32_t> luns, const IoPermit& permit);
  enum class Then {
    kOver,   // done, or failed for good
    kAgain,  // what failed is worth doing again, from Enter on
    kLater,  // the same, after Pause
  };
  // `outcome` tells of each LUN what became of its requests. `writes`: they changed bytes.
  Then Leave(std::span<const std::uint32_t> luns, bool writes, Rounds& rounds,
             absl::FunctionRef<absl::Status(std::uint32_t)> outcome);
  // Waits as long as what failed so is worth waiting for. EIO: it has been tried long enough
  // (LunBusyLimitMs, kMaxDoubts); `why` it failed is said. Else as Enter.
  absl::Status Pause(Rounds& rounds, const IoPermit& permit, const absl::Status& why);

  // Whether one is lost. Takes no lock.
  bool AnyLost() const { return lost_.load(std::memory_order_relaxed) > 0; }
  // Of a wait for a lost path that began at `since_ms`, elsewhere than here: OK as long as it goes
  // on, else as Enter.
  absl::Status GoesOn(const Interrupt* interrupt, std::uint64_t since_ms) const;
  // Whether one has been lost since before the session began. Takes no lock.
  bool BeganWithout() const { return begun_without_.load(std::memory_order_relaxed) > 0; }
  // Waits until none is. As Enter.
  absl::Status AwaitAll(const Interrupt* interrupt);
  // The path that has been lost for longest.
  struct Lost {
    std::string problem;
    Uuid lun;
    std::uint64_t since_ms = 0;
  };
  std::optional<Lost> LongestLost() const;

  // From then on no wait goes on.
  void GiveUpAt(std::uint64_t when_ms) { give_up_ms_ = when_ms; }
  void Stop();
  // Takes the registrations away. False: something that was sent on a lost path may still be
  // executed, or a key may still be there. Without keys it waits until that is over (QuarantineMs).
  // REQUIRES: Stop.
  bool End();

 private:
  struct Path {
    Lun* lun = nullptr;
    Uuid uuid;
    // Reads need no key: neither a volume that is only read nor a LUN with nothing but metadata is
    // registered for. (So no fault of a client can reach these.)
    bool may_write = false;
    bool joins =
        false;  // it has come with a later map, and has not been usable yet: none misses it
    // How many are in, and kClosed while nobody may come in.
    std::atomic<std::uint32_t> users{0};
    // Under mutex_.
    bool mending = false;
    bool again = false;    // something changed while it was being mended
    bool rekey = false;    // it may not be used under the key that it has
    bool suspect = false;  // another one was lost: whether this one answers is looked at first
    // Where no key keeps it out: until then a write of unknown outcome may still be executed.
    std::uint64_t quiet_ms = 0;
    bool gone = false;              // it is none of the volume's any more
    std::uint32_t failures = 0;     // of mending, in a row
    std::uint64_t lost_ms = 0;      // since then; 0: it is not
    bool begun_without = false;     // it was when the session began
    std::uint64_t granted_for = 0;  // the session whose first key was used here
    absl::Status problem;           // of the last try
    // Under no lock.
    std::atomic<std::uint64_t> reads{0}, read_bytes{0}, writes{0}, written_bytes{0};
    SharedTimeHistogram read_times, write_times;
    // Of who mends it.
    std::uint64_t key = 0;  // registered, as far as is known
    // Granted to that session, and refused by the LUN, which has another one of this host yet.
    struct {
      std::uint64_t key = 0, session = 0;
      std::uint32_t tries = 0;
    } spare;
  };
  static constexpr std::uint32_t kClosed = 1U << 31;

  void AddPath(const OpenVolume& volume, std::size_t index, const Pool& pool, const Uuid& uuid)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LetGo(Path& path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool NeedsKey(const Path& path) const;
  void Close(Path& path);
  void StartMending(Path& path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SayBusy(std::uint64_t now_ms, const absl::Status& why);
  void NoteLost(Path& path, const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LookAtOthers(const Path& lost) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Answers(Path& path);
  void Open(Path& path) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Mend(Path& path);
  absl::Status TryMend(Path& path, bool rekey, std::uint64_t* session);
  bool IsQuiet(const Path& path) const;
  bool IsTooLong(std::uint64_t waited_ms) const {
    const std::uint32_t soft_ms = soft_ms_.load();
    return soft_ms != 0 && waited_ms >= soft_ms;
  }
  absl::Status WaitEnds(const IoPermit& permit, std::uint64_t since_ms,
                        const std::string& why) const;
  absl::StatusOr<std::uint64_t> KeyFor(Path& path, std::uint64_t session);
  absl::Status Register(Path& path, std::uint64_t key) const;
  bool AwaitEmpty(const Path& path, std::uint64_t limit_ms);
  void Exit(Path& path);
  bool PermitHolds(const IoPermit& permit) const;
  // It does not hold, and will not.
  bool IsOver(const IoPermit& permit) const;
  absl::Status AwaitOpen(std::span<const std::uint32_t> luns, const IoPermit& permit,
                         std::uint64_t since_ms);

  Session& session_;
  const Clock& clock_;
  std::atomic<std::uint32_t> soft_ms_;  // as Options::soft_timeout_ms
  const bool notes_times_;
  // By number. There is room for all that a volume may have: it grows under mutex_, while others
  // use what they know of it.
  std::vector<std::unique_ptr<Path>> paths_;
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint64_t> give_up_ms_{0};  // 0: not
  std::atomic<std::uint64_t> busy_said_ms_{0};
  std::atomic<std::uint32_t> lost_{0};           // how many are, and how many of them …
  std::atomic<std::uint32_t> begun_without_{0};  // … since before the session began

  mutable Mutex mutex_;
  CondVar changed_;
  std::uint64_t granted_session_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t granted_key_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t announced_map_ ABSL_GUARDED_BY(mutex_) = 0, taken_map_ ABSL_GUARDED_BY(mutex_) = 0;
  WorkerPool menders_;
};

}  // namespace reel::client
