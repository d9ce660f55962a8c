// What befalls a cluster in the course of a history, and when: by chance, some at once.
// Threads: a fiber of host 0.
#pragma once

#include <array>
#include <cstdint>
#include <functional>

#include "tests/sim/cluster.h"

namespace reel::sim {

enum class Fault : std::uint8_t {
  kCutStream,
  kHoldBack,      // a host's messages stand still, within its lease
  kHoldBackLong,  // … beyond it
  kCrashMachine,
  kPause,      // a host stands still, within its lease
  kPauseLong,  // … beyond it
  kCrashController,
  kSlowLuns,
  kFailPower,
};
inline constexpr int kFaults = 9;
const char* NameOf(Fault fault);

class Faults {
 public:
  // `on_new_machine` is called with each machine that takes the place of a crashed one.
  Faults(Cluster& cluster, std::function<void(Machine&)> on_new_machine)
      : cluster_(cluster), on_new_machine_(std::move(on_new_machine)) {}

  // So many, one after the other; each may outlast the next. Returns when all have passed.
  void Run(int count);

  const std::array<std::uint32_t, kFaults>& counts() const { return counts_; }

 private:
  Fault Any();
  void Befall(Fault fault);
  Machine* AnyMachine();
  void Replace();
  Random& random() { return cluster_.random(); }
  Scheduler& scheduler() { return cluster_.scheduler(); }

  Cluster& cluster_;
  const std::function<void(Machine&)> on_new_machine_;
  std::array<std::uint32_t, kFaults> counts_{};
  int under_way_ = 0;
};

}  // namespace reel::sim
