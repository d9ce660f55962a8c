// The simulated cluster of one history: disks, network, controllers and machines, and what can
// befall them.
//
// Machines are host 1 and up; one that crashed comes back as another host. Threads: fibers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/daemon.h"
#include "tests/sim/data_model.h"
#include "tests/sim/heap.h"
#include "tests/sim/lock_model.h"
#include "tests/sim/luns.h"
#include "tests/sim/machine.h"
#include "tests/sim/meta_store.h"
#include "tests/sim/moments.h"
#include "tests/sim/network.h"
#include "tests/sim/scheduler.h"
#include "tests/sim/term_watch.h"
#include "tests/sim/volume.h"

namespace reel::sim {

class Cluster {
 public:
  static constexpr std::uint32_t kLeaseMs = 2000;
  static constexpr std::uint32_t kSeatMs = 600;

  struct Options {
    bool reservations = false;
    int controllers = 2;
    mdc::NameReplies names = mdc::NameReplies::kDurable;
    std::uint32_t small_file_bytes = 0;  // else all programs are of this release
    bool changing_leases = false;        // no two controllers are configured alike
    Shape shape = Shape::kOnePool;
    bool verbose = false;
  };
  Cluster(Scheduler& scheduler, const Options& options);

  // Starts the controllers.
  void Start();
  // Stops them all, and looks at what they leave.
  void Stop();

  // A new host, mounted; null when it crashed before, or could not (which is a violation).
  Machine* AddMachine();
  const std::vector<std::unique_ptr<Machine>>& machines() const { return machines_; }
  bool alive(const Machine& machine) const { return scheduler_.alive(machine.host()); }

  // Whether it waits for a LUN.
  bool HasIo(const Machine& machine) const;

  // Who serves, or the next one that will; null while none runs.
  Daemon* Active() const;
  const std::vector<std::unique_ptr<Daemon>>& controllers() const { return controllers_; }
  // Nothing is left to be done but to stop, by one host at most.
  bool Quiet() const;
  // Sessions whose end is recorded, and not yet over.
  std::uint64_t ending_sessions() const;

  // ---- what befalls them
  void CrashMachine(Machine& machine);
  // False: not now.
  bool Pause(Daemon& controller);
  // Everything at once: hosts, controller, and the disks' caches.
  void FailPower(Micros down_for);
  // mkfs.reelfs --force, with nobody serving: hosts that have the volume mounted are of another one
  // from now on, and nothing of theirs may reach the LUNs.
  void Remake();

  // ---- the record
  // Prints what happens, when asked to; `text` is only called then.
  template <typename Text>
  void Log(Text text) {
    if (!options_.verbose) return;
    const OtherHeap other_heap;
    Print(text());
  }
  void Violate(std::string what);
  // All that the models found, too.
  std::vector<std::string> Violations() const;

  Scheduler& scheduler() { return scheduler_; }
  Random& random() { return scheduler_.random(); }
  Network& network() { return network_; }
  Moments& moments() { return moments_; }
  DataModel& data() { return data_; }
  LockModel& locks() { return locks_; }
  const TermWatch& terms() const { return terms_; }
  bool reservations() const { return options_.reservations; }
  // The data pool is filled from now on, or was.
  void NoteFull(bool full) {
    full_ = full;
    last_full_ = scheduler_.now();
  }
  // (What was there may take a while to be free again.)
  bool FullSince(Micros time) const {
    constexpr Micros kFreed = 5 * kLeaseMs * kMs;
    return full_ || (last_full_ != 0 && last_full_ + kFreed >= time);
  }
  // Of the metadata store: below kFull nothing that makes it grow is taken, below kExhausted what
  // was granted is not completed either.
  enum class StoreRoom : std::uint8_t { kAmple, kFull, kExhausted };
  void SetStoreRoom(StoreRoom room);
  bool StoreIsFull() const { return store_room_ != StoreRoom::kAmple; }
  bool StoreFullSince(Micros time) const {
    return StoreIsFull() || (last_store_full_ != 0 && last_store_full_ + kLeaseMs * kMs >= time);
  }
  // Whether some host has lost the SAN that cannot tell its controller of it, or has a longer
  // lease.
  bool CutHostIsSlow() const;
  // Whether some host has been off the SAN since then.
  bool AnyCutSince(Micros time) const;
  std::uint64_t lost_blocks() const { return lost_blocks_; }
  // How often the volume's map has changed, as it was found at the end.
  std::uint64_t map_changes() const { return map_changes_; }
  struct Totals {
    std::uint64_t refused_writes = 0, preemptions = 0, unknowns = 0;
  };
  Totals totals() const;

  // Told when the controllers give a session up; `since`: when the host's one before was.
  void SetOnSessionOver(std::function<void(int host, Micros since)> on_session_over) {
    on_session_over_ = std::move(on_session_over);
  }

 private:
  void CheckVolume();
  absl::StatusOr<OpenVolume> OpenAtEnd() const;
  std::uint64_t FreeStoreBytes(const metafs::MetaFs& fs) const;
  void OnSessions(const StoreEvents::Sessions& sessions);
  void OnSessionOver(int host);
  void OnNoticed(int host);

  void CheckSession(const Machine& machine, std::uint64_t session, const char* what);
  std::vector<Disk*> Disks() const;
  void Print(const std::string& text);

  Scheduler& scheduler_;
  const Options options_;
  const std::vector<std::unique_ptr<Disk>> disks_;
  std::vector<std::vector<std::byte>> remade_;  // by disk: the data when it was; else empty
  Moments moments_;
  Network network_;
  DataModel data_;
  LockModel locks_;
  TermWatch terms_;
  std::vector<std::unique_ptr<Daemon>> controllers_;
  const Path::FaultRates calm_{};
  StoreEvents::Sessions sessions_;
  std::set<std::uint64_t> noticed_;  // their hosts know of their end, and it is not recorded yet
  std::vector<std::unique_ptr<Machine>> machines_;
  std::vector<std::string> violations_;
  std::uint64_t lost_blocks_ = 0;
  std::uint64_t map_changes_ = 0;
  bool full_ = false;
  Micros last_full_ = 0;
  StoreRoom store_room_ = StoreRoom::kAmple;
  Micros last_store_full_ = 0;
  std::function<void(int host, Micros since)> on_session_over_;
};

}  // namespace reel::sim
