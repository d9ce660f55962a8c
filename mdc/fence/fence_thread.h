// The thread on which a Fencer works: it fences what the core orders, watches the LUNs in between,
// and answers questions about them.
//
// Threads: all methods may be called concurrently, except that Stop comes last; the events are
// called on this thread.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "mdc/fence/fencer.h"
#include "volume/base/env.h"
#include "volume/base/mutex.h"
#include "volume/base/thread.h"

namespace reel::mdc {

class FenceThread {
 public:
  struct Events {
    std::function<void(FenceId, const FenceOutcome&)> fenced;
    std::function<void(std::vector<std::uint64_t>)> keys_seen;  // of sessions, on the LUNs
    std::function<void(const absl::Status&)> seat_lost;         // at most once
    std::function<void(std::vector<Uuid>)> luns_seen;           // those that were not reached
  };
  using Action = std::function<void(Fencer&)>;

  // `clock` outlives it.
  FenceThread(std::unique_ptr<Fencer> fencer, const Clock& clock, Events events);
  ~FenceThread() { Stop(); }

  // Bounded by the core: one a session and LUN is under way.
  void Order(CoreOutputs::Fence fence);
  // False when it is stopping, and `action` never runs.
  bool Run(Action action);
  // Fencer::TakeMap; waits for it. Fencer::keyless_quarantine_ms by that map. UNAVAILABLE: it is
  // stopping.
  absl::StatusOr<std::uint64_t> TakeMap(OpenVolume& volume);
  // What is wrong with the LUNs' reservations as of the last look, one line each.
  std::vector<std::string> Problems() const;
  // Answers what was asked and drops what was ordered; then `last` runs, if there is one.
  void Stop(const Action& last = {});

  bool any() const { return any_; }
  bool all() const { return all_; }

 private:
  void Main();
  void Watch();

  const std::unique_ptr<Fencer> fencer_;  // of the thread, and of Stop after it
  const Clock& clock_;
  const Events events_;
  const bool any_;
  std::atomic<bool> all_;
  bool lost_ = false;  // of the thread

  mutable Mutex mutex_;
  CondVar wake_;
  std::deque<Action> actions_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> problems_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace reel::mdc
