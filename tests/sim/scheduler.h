// Threads that take turns, and time that passes only between them.
//
// A simulated thread (a *fiber*) runs until it waits; then a seeded choice among those that can go
// on says who is next, and when there are none the clock jumps to the next timer. So a run is a
// function of its seed. Behind the seam of volume/base/mutex.h and volume/base/thread.h
// (scheduler_threads.cc) the client's own threads are fibers; the world around them (network, LUNs,
// controller) is made of timers, which run on no fiber and never wait.
//
// A fiber belongs to a *host*. A paused host's fibers do not run until it goes on; a dead host's
// never do again, and nothing of them is taken down: the process of a history ends with it.
// Threads: one real one. There is one scheduler in a process.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tests/sim/random.h"
#include "volume/base/aligned_buffer.h"
#include "volume/base/env.h"

namespace reel::sim {

class Fiber;

// Microseconds of simulated time since the start of the history.
using Micros = std::uint64_t;
inline constexpr Micros kNever = std::numeric_limits<Micros>::max();
inline constexpr Micros kMs = 1000;

class Scheduler final : public Clock {
 public:
  explicit Scheduler(std::uint64_t seed);
  ~Scheduler() override;
  static Scheduler& Get();
  // Hosts are numbers below this; 0 is no machine but the world around them.
  static constexpr int kMaxHosts = 512;

  // ---- running
  // `main` as a fiber of host 0, until it returns. False when the system hangs before that: nothing
  // can ever happen any more, or nothing but turns does, or it is later than `limit`.
  bool Run(std::function<void()> main, Micros limit);
  Fiber* Spawn(int host, std::function<void()> main);
  // From a fiber.
  Fiber* Spawn(std::function<void()> main) { return Spawn(current_host(), std::move(main)); }
  void Join(Fiber* fiber);

  // ---- time
  Micros now() const { return now_; }
  std::uint64_t NowMs() const override;
  WallTime WallNow() const override;
  // Runs `action` then, on no fiber.
  void At(Micros when, std::function<void()> action);
  void After(Micros delay, std::function<void()> action) { At(now_ + delay, std::move(action)); }

  // ---- waiting, from a fiber
  // Until somebody wakes `key`, or until the time; true when woken.
  bool Park(const void* key, Micros until = kNever);
  void WakeOne(const void* key);
  void WakeAll(const void* key);
  // Lets others run first, now and then for as long as a busy machine may stop a thread.
  void Yield();
  // Yield, every few times that it is called.
  void MaybeYield();
  void Sleep(Micros time);

  // ---- hosts
  void Pause(int host);
  void Resume(int host);
  void Kill(int host);
  bool alive(int host) const;
  bool paused(int host) const { return hosts_[static_cast<std::size_t>(host)].paused; }
  int current_host() const;
  AlignedBuffer& current_buffer();

  Random& random() { return random_; }
  std::uint64_t switches() const { return switches_; }
  // Changes with every choice that was made: equal when two runs were the same.
  std::uint64_t trace_hash() const { return trace_hash_; }
  void Trace(std::uint64_t value) { trace_hash_ = MixHash(trace_hash_, value); }

 private:
  struct Host {
    bool paused = false;
    bool dead = false;
    std::vector<Fiber*> held;  // that could run
  };
  void MakeReady(Fiber* fiber);
  void SwitchTo(Fiber* fiber);
  void SwitchOut();
  void RunTimers();
  static void Entry();

  Random random_;
  Micros now_ = 0;
  std::uint64_t switches_ = 0;
  std::uint64_t trace_hash_ = 0;
  std::uint64_t turns_without_time_ = 0;
  Fiber* current_ = nullptr;
  Fiber* main_ = nullptr;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> unused_;  // ended, with a stack to use again
  std::vector<Fiber*> ready_;
  std::vector<Host> hosts_;
  std::uint64_t next_timer_ = 0;
  std::map<std::pair<Micros, std::uint64_t>, std::function<void()>> timers_;
  std::unordered_map<const void*, std::vector<Fiber*>> parked_;
};

}  // namespace reel::sim
