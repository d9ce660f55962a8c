// The metadata controller of the simulated volume: the real core, and around it what
// mdc/volume_server does with threads, done with timers: events in, outputs out, syncs that take
// their time, ticks. It can crash at any moment and start again in a new epoch.
// Threads: timers only.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "mdc/core.h"
#include "mdc/fencer.h"
#include "tests/sim/luns.h"
#include "tests/sim/meta_store.h"
#include "tests/sim/network.h"
#include "tests/sim/scheduler.h"

namespace reel::sim {

class Controller final : public StreamServer {
 public:
  struct Options {
    VolumeDescriptor descriptor;
    std::uint32_t session_lease_ms = 2000;
    std::vector<Disk*> disks;  // on which it fences, where they have reservations
    // Told of each session that is over, in the moment in which its tokens may go to others.
    std::function<void(int host)> on_session_over;
    std::function<void(const std::string&)> log{};  // when each message is to be told
  };
  Controller(Scheduler& scheduler, Network& network, Options options);

  // Takes the seat on the LUNs first; served from some time after on.
  void Start();
  // Loses what was not durable (some of it), and all streams.
  void Crash();

  bool up() const override { return core_ != nullptr; }
  void OnOpened(std::uint64_t stream) override;
  void OnFrame(std::uint64_t stream, v1::ClientFrame frame) override;
  void OnEnded(std::uint64_t stream) override;

  // Whether the session was not evicted, as of the last event that may have done so.
  bool HasSession(std::uint64_t session) const { return sessions_.contains(session); }
  std::uint64_t Counter(const std::string& name) const;
  // For the end of a history: nothing is left to be done but to stop.
  bool Quiet() const;
  void Stop();
  MetaStore& store() { return store_; }
  // Not OK: the core has failed, or did not start.
  const absl::Status& failure() const { return failure_; }

  struct Totals {
    std::uint64_t crashes = 0, lost_batches = 0, evictions = 0, recalls = 0, replays = 0,
                  blocked = 0, misses = 0, reaped = 0, fences = 0;
  };
  Totals totals() const;

 private:
  template <typename Message>
  void Log(const char* what, std::uint64_t stream, const Message& message) const;
  void Boot(std::uint64_t life);
  void FenceOrdered(std::uint64_t life);
  void Tick(std::uint64_t life);
  void Deliver();
  void Sync();
  void NoteSessions();

  Scheduler& scheduler_;
  Network& network_;
  const Options options_;
  MetaStore store_;
  std::unique_ptr<mdc::MetaDb> db_;
  std::unique_ptr<mdc::Core> core_;
  std::uint64_t life_ = 0;  // counts starts: timers of an earlier one are void
  int host_ = 0;            // of this life: what it had under way dies with it
  OpenVolume volume_;       // its paths to the LUNs
  const Path::Weather weather_{};
  std::unique_ptr<mdc::Fencer> fencer_;
  std::deque<mdc::CoreOutputs::Fence> orders_;
  bool syncing_ = false;
  bool wants_sync_ = false;
  std::map<std::uint64_t, int> sessions_;  // and their hosts
  Totals totals_;
  absl::Status failure_;
};

}  // namespace reel::sim
