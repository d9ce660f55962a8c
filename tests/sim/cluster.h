// The simulated cluster of one history: disks, network, controller and machines, and what can
// befall them.
//
// Machines are host 1 and up; one that crashed comes back as another host. Threads: fibers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/controller.h"
#include "tests/sim/data_model.h"
#include "tests/sim/lock_model.h"
#include "tests/sim/luns.h"
#include "tests/sim/machine.h"
#include "tests/sim/network.h"
#include "tests/sim/scheduler.h"

namespace reel::sim {

class Cluster {
 public:
  static constexpr std::uint32_t kLeaseMs = 2000;

  Cluster(Scheduler& scheduler, bool reservations, bool verbose);

  // A new host, mounted; null when it crashed before, or could not (which is a violation).
  Machine* AddMachine();
  const std::vector<std::unique_ptr<Machine>>& machines() const { return machines_; }
  bool alive(const Machine& machine) const { return scheduler_.alive(machine.host()); }

  // Whether it waits for a LUN.
  bool HasIo(const Machine& machine) const;

  // ---- what befalls them
  void CrashMachine(Machine& machine);
  void CrashController(Micros down_for);
  // Everything at once: hosts, controller, and the disks' caches.
  void FailPower(Micros down_for);

  // ---- the record
  // Prints what happens, when asked to; `text` is only called then.
  template <typename Text>
  void Log(Text text) {
    if (verbose_) Print(text());
  }
  void Violate(std::string what);
  // All that the models found, too.
  std::vector<std::string> Violations() const;

  Scheduler& scheduler() { return scheduler_; }
  Random& random() { return scheduler_.random(); }
  Network& network() { return network_; }
  Controller& controller() { return controller_; }
  DataModel& data() { return data_; }
  LockModel& locks() { return locks_; }
  const VolumeDescriptor& descriptor() const { return descriptor_; }
  std::uint64_t lost_blocks() const { return lost_blocks_; }

 private:
  void OnSessionOver(int host);
  void CheckSession(const Machine& machine, std::uint64_t session, const char* what);
  static std::vector<std::unique_ptr<Disk>> MakeDisks(const VolumeDescriptor& descriptor,
                                                      bool reservations);
  std::vector<Disk*> Disks() const;
  void Print(const std::string& text);

  Scheduler& scheduler_;
  const bool verbose_;
  const VolumeDescriptor descriptor_;
  const bool reservations_;
  const std::vector<std::unique_ptr<Disk>> disks_;
  Network network_;
  DataModel data_;
  LockModel locks_;
  Controller controller_;
  std::vector<std::unique_ptr<Machine>> machines_;
  std::vector<std::string> violations_;
  std::uint64_t lost_blocks_ = 0;
};

}  // namespace reel::sim
