// What happens in a history, as it happens: a fault that strikes at any time seldom meets the one
// moment at which a promise matters.
//
// Nothing is changed by being noted. One waits at a time. Threads: fibers and timers.
#pragma once

#include <cstdint>
#include <optional>

#include "tests/sim/scheduler.h"

namespace reel::sim {

enum class Moment : std::uint8_t {
  // ---- a host has just sent that
  kRenewal,
  kCommit,
  kReturn,
  kClose,
  kResize,
  kNameChange,
  kReclaim,
  // ---- a controller has
  kRecall,
  kAnswer,  // that names an inode
  // ----
  kEviction,  // the end of a session is recorded
  kLanded,    // a host's write on a LUN, and it has no answer yet
  kLocked,    // a program was granted a lock
  kSynced,    // … was told that its file is safe
};
inline constexpr int kMoments = 13;
const char* NameOf(Moment moment);

class Moments {
 public:
  explicit Moments(Scheduler& scheduler) : scheduler_(scheduler) {}

  // `host`: of the client concerned.
  void Note(Moment moment, int host) {
    if (awaited_ != moment) return;
    awaited_.reset();
    host_ = host;
    scheduler_.WakeAll(this);
  }
  // The host of the next one; none: there was none within that time. From a fiber.
  std::optional<int> Await(Moment moment, Micros most) {
    awaited_ = moment;
    const bool met = scheduler_.Park(this, scheduler_.now() + most);
    awaited_.reset();
    return met ? std::optional(host_) : std::nullopt;
  }

 private:
  Scheduler& scheduler_;
  std::optional<Moment> awaited_;
  int host_ = 0;
};

}  // namespace reel::sim
