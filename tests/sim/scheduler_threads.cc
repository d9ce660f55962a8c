// The seam of threads, mutexes, waits for I/O, time and chance, as the simulator has it: linked in
// place of volume/base/thread.cc, volume/lun/io_batch_wait.cc and volume/base/env.cc.
#include <utility>

#include "tests/sim/scheduler.h"
#include "volume/base/check.h"
#include "volume/base/env.h"
#include "volume/base/mutex.h"
#include "volume/base/thread.h"
#include "volume/lun/io_batch.h"

namespace reel {

using sim::Fiber;
using sim::Scheduler;

// A std::mutex that is never waited for: on the one real thread, try_lock tells whether a fiber
// holds it.
void Mutex::Lock() {
  Scheduler& scheduler = Scheduler::Get();
  scheduler.MaybeYield();
  while (!mutex_.try_lock()) scheduler.Park(&mutex_);
}

void Mutex::Unlock() {
  mutex_.unlock();
  Scheduler::Get().WakeOne(&mutex_);
}

void CondVar::Wait(Mutex& mutex) {
  mutex.Unlock();
  Scheduler::Get().Park(this);
  mutex.Lock();
}

bool CondVar::WaitFor(Mutex& mutex, std::chrono::milliseconds timeout) {
  Scheduler& scheduler = Scheduler::Get();
  mutex.Unlock();
  const bool notified =
      scheduler.Park(this, scheduler.now() + static_cast<sim::Micros>(timeout.count()) * sim::kMs);
  mutex.Lock();
  return notified;
}

void CondVar::NotifyOne() {
  Scheduler::Get().WakeOne(this);
}

void CondVar::NotifyAll() {
  Scheduler::Get().WakeAll(this);
}

struct Thread::Running {
  Fiber* fiber;
};

Thread::Thread() = default;
Thread::Thread(std::function<void()> main)
    : running_(new Running{Scheduler::Get().Spawn(std::move(main))}) {}
Thread::Thread(Thread&&) noexcept = default;
Thread& Thread::operator=(Thread&& other) noexcept {
  REEL_CHECK(!joinable(), "a thread is joined before its place is taken");
  running_ = std::move(other.running_);
  return *this;
}
Thread::~Thread() {
  REEL_CHECK(!joinable(), "a thread is joined before it is destroyed");
}

void Thread::Join() {
  Scheduler::Get().Join(running_->fiber);
  running_.reset();
}

void SleepFor(std::chrono::milliseconds time) {  // tidy: sleep: in simulated time
  Scheduler::Get().Sleep(static_cast<sim::Micros>(time.count()) * sim::kMs);
}

void RaisePriority() {}

AlignedBuffer& ThreadBuffer() {
  return Scheduler::Get().current_buffer();
}

void LunRequest::Complete(absl::Status outcome) {
  status = std::move(outcome);
  if (batch->outstanding_.fetch_sub(1) == 1) Scheduler::Get().WakeAll(&batch->outstanding_);
}

void IoBatch::Await() {
  while (outstanding_.load() != 0) Scheduler::Get().Park(&outstanding_);
}

const Clock& SystemClock() {
  return Scheduler::Get();
}

std::uint64_t RandomU64() {
  return Scheduler::Get().random().Next();
}

}  // namespace reel
