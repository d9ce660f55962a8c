#include "tests/sim/scheduler.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <algorithm>
#include <csetjmp>

#include "volume/base/check.h"

namespace reel::sim {
namespace {

constexpr std::size_t kStackBytes = 256 << 10;
// Turns at one moment after which nothing is to be expected any more: a loop that never waits.
constexpr std::uint64_t kMaxTurnsAtOnce = 200'000;
// What the wall clock shows when a history begins.
constexpr std::int64_t kBirthSeconds = 1'700'000'000;
// What every turn costs, so that time passes for those who only take turns.
constexpr Micros kTurnCost = 1;

Scheduler* g_scheduler = nullptr;

}  // namespace

class Fiber {
 public:
  int host = 0;
  std::function<void()> main;
  bool started = false;
  bool done = false;
  const void* key = nullptr;  // what it is parked on
  bool woken = false;
  std::uint64_t timer = 0;  // of its bounded wait
  std::uint64_t waits = 0;  // counts them: a timer of an earlier one is void
  AlignedBuffer buffer;
  void* stack = nullptr;
  ucontext_t context;  // for the start
  jmp_buf jump;        // for every later switch: no system call
};

namespace {
jmp_buf g_main_loop;
}  // namespace

Scheduler::Scheduler(std::uint64_t seed) : random_(seed) {
  g_scheduler = this;
  hosts_.resize(kMaxHosts);
}

Scheduler::~Scheduler() = default;

Scheduler& Scheduler::Get() {
  return *g_scheduler;
}

// ---- fibers -----------------------------------------------------------------------------------

Fiber* Scheduler::Spawn(int host, std::function<void()> main) {
  Fiber* fiber = nullptr;
  if (!unused_.empty()) {
    fiber = unused_.back();
    unused_.pop_back();
  } else {
    fiber = fibers_.emplace_back(std::make_unique<Fiber>()).get();
    fiber->stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REEL_CHECK(fiber->stack != MAP_FAILED, "there is memory for a stack");
    mprotect(fiber->stack, 4096, PROT_NONE);  // an overflow ends the process
  }
  fiber->host = host;
  fiber->main = std::move(main);
  fiber->started = fiber->done = false;
  MakeReady(fiber);
  return fiber;
}

void Scheduler::Entry() {
  Scheduler& self = Get();
  Fiber* const fiber = self.current_;
  fiber->main();
  fiber->main = nullptr;
  fiber->done = true;
  self.WakeAll(fiber);
  _longjmp(g_main_loop, 1);
}

void Scheduler::SwitchTo(Fiber* fiber) {
  current_ = fiber;
  ++switches_;
  if (_setjmp(g_main_loop) == 0) {
    if (fiber->started) _longjmp(fiber->jump, 1);
    fiber->started = true;
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = kStackBytes;
    fiber->context.uc_link = nullptr;
    makecontext(&fiber->context, &Scheduler::Entry, 0);
    setcontext(&fiber->context);
  }
  current_ = nullptr;
}

void Scheduler::SwitchOut() {
  if (_setjmp(current_->jump) == 0) _longjmp(g_main_loop, 1);
}

void Scheduler::MakeReady(Fiber* fiber) {
  Host& host = hosts_[static_cast<std::size_t>(fiber->host)];
  if (host.dead) return;
  (host.paused ? host.held : ready_).push_back(fiber);
}

void Scheduler::Join(Fiber* fiber) {
  while (!fiber->done) Park(fiber);
  unused_.push_back(fiber);
}

// ---- the loop ---------------------------------------------------------------------------------

void Scheduler::RunTimers() {
  while (!timers_.empty() && timers_.begin()->first.first <= now_) {
    const std::function<void()> action = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    action();
  }
}

bool Scheduler::Run(std::function<void()> main, Micros limit) {
  main_ = Spawn(0, std::move(main));
  while (!main_->done) {
    RunTimers();
    if (now_ > limit) return false;
    if (ready_.empty()) {
      if (timers_.empty()) return false;
      now_ = std::max(now_, timers_.begin()->first.first);
      turns_without_time_ = 0;
      continue;
    }
    if (++turns_without_time_ > kMaxTurnsAtOnce) return false;
    const std::size_t chosen = ready_.size() == 1 ? 0 : random_.Below(ready_.size());
    Fiber* const fiber = ready_[chosen];
    ready_[chosen] = ready_.back();
    ready_.pop_back();
    if (!alive(fiber->host)) continue;
    if (hosts_[static_cast<std::size_t>(fiber->host)].paused) {
      MakeReady(fiber);
      continue;
    }
    Trace(chosen);
    now_ += kTurnCost;
    SwitchTo(fiber);
  }
  return true;
}

// ---- time -------------------------------------------------------------------------------------

std::uint64_t Scheduler::NowMs() const {
  return 100'000 + now_ / 1000;
}

WallTime Scheduler::WallNow() const {
  return {kBirthSeconds + static_cast<std::int64_t>(now_ / 1'000'000),
          static_cast<std::uint32_t>(now_ % 1'000'000 * 1000)};
}

void Scheduler::At(Micros when, std::function<void()> action) {
  timers_.emplace(std::pair(std::max(when, now_), ++next_timer_), std::move(action));
}

// ---- waiting ----------------------------------------------------------------------------------

bool Scheduler::Park(const void* key, Micros until) {
  Fiber* const fiber = current_;
  fiber->key = key;
  fiber->woken = false;
  const std::uint64_t wait = ++fiber->waits;
  if (key != nullptr) parked_[key].push_back(fiber);
  std::pair<Micros, std::uint64_t> timer{0, 0};
  if (until != kNever) {
    timer = {std::max(until, now_), ++next_timer_};
    timers_.emplace(timer, [this, fiber, wait] {
      if (fiber->waits != wait || fiber->woken) return;
      if (fiber->key != nullptr) {
        auto& waiting = parked_[fiber->key];
        waiting.erase(std::find(waiting.begin(), waiting.end(), fiber));
        if (waiting.empty()) parked_.erase(fiber->key);
      }
      MakeReady(fiber);
    });
  }
  SwitchOut();
  ++fiber->waits;
  if (fiber->woken && until != kNever) timers_.erase(timer);
  return fiber->woken;
}

void Scheduler::WakeOne(const void* key) {
  const auto found = parked_.find(key);
  if (found == parked_.end()) return;
  std::vector<Fiber*>& waiting = found->second;
  const std::size_t chosen = waiting.size() == 1 ? 0 : random_.Below(waiting.size());
  Fiber* const fiber = waiting[chosen];
  waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(chosen));
  if (waiting.empty()) parked_.erase(found);
  fiber->woken = true;
  MakeReady(fiber);
}

void Scheduler::WakeAll(const void* key) {
  const auto found = parked_.find(key);
  if (found == parked_.end()) return;
  const std::vector<Fiber*> waiting = std::move(found->second);
  parked_.erase(found);
  for (Fiber* fiber : waiting) {
    fiber->woken = true;
    MakeReady(fiber);
  }
}

void Scheduler::Yield() {
  if (random_.OneIn(32)) {
    Sleep(random_.Between(10, random_.OneIn(8) ? 20'000 : 500));
  } else {
    ready_.push_back(current_);
    SwitchOut();
  }
}

void Scheduler::MaybeYield() {
  if (current_ != nullptr && random_.OneIn(16)) Yield();
}

void Scheduler::Sleep(Micros time) {
  Park(nullptr, now_ + time);
}

// ---- hosts ------------------------------------------------------------------------------------

void Scheduler::Pause(int host) {
  hosts_[static_cast<std::size_t>(host)].paused = true;
}

void Scheduler::Resume(int host) {
  Host& resumed = hosts_[static_cast<std::size_t>(host)];
  resumed.paused = false;
  for (Fiber* fiber : std::exchange(resumed.held, {})) MakeReady(fiber);
}

void Scheduler::Kill(int host) {
  hosts_[static_cast<std::size_t>(host)].dead = true;
}

bool Scheduler::alive(int host) const {
  return !hosts_[static_cast<std::size_t>(host)].dead;
}

int Scheduler::current_host() const {
  return current_ == nullptr ? 0 : current_->host;
}

AlignedBuffer& Scheduler::current_buffer() {
  return current_->buffer;
}

}  // namespace reel::sim
