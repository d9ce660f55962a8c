// Threads and mutexes of the machine. A simulator links others in place of this file.
#include "volume/base/thread.h"

#include <sched.h>

#include <thread>
#include <utility>

#include "volume/base/check.h"
#include "volume/base/mutex.h"

namespace reel {
namespace {

#ifdef __SANITIZE_THREAD__
using WaitClock = std::chrono::system_clock;  // GCC 12's TSan misses pthread_cond_clockwait
#else
using WaitClock = std::chrono::steady_clock;
#endif

}  // namespace

void Mutex::Lock() {
  mutex_.lock();
}

void Mutex::Unlock() {
  mutex_.unlock();
}

void CondVar::Wait(Mutex& mutex) {
  std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
  condition_.wait(lock);
  lock.release();
}

bool CondVar::WaitFor(Mutex& mutex, std::chrono::milliseconds timeout) {
  std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
  // On the clock that nobody sets: a lease is renewed in time also when the wall clock steps back.
  const bool notified =
      condition_.wait_until(lock, WaitClock::now() + timeout) == std::cv_status::no_timeout;
  lock.release();
  return notified;
}

void CondVar::NotifyOne() {
  condition_.notify_one();
}

void CondVar::NotifyAll() {
  condition_.notify_all();
}

struct Thread::Running {
  std::thread thread;
};

Thread::Thread() = default;
Thread::Thread(std::function<void()> main)
    : running_(std::make_unique<Running>(Running{std::thread(std::move(main))})) {}
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
  running_->thread.join();
  running_.reset();
}

void SleepFor(std::chrono::milliseconds time) {
  std::this_thread::sleep_for(time);
}

void RaisePriority() {
  sched_param lowest{};
  lowest.sched_priority = sched_get_priority_min(SCHED_RR);
  // Without the right to it, threads of a busy host may be late, and the seat be lost by that.
  (void)sched_setscheduler(0, SCHED_RR, &lowest);
}

AlignedBuffer& ThreadBuffer() {
  thread_local AlignedBuffer buffer;
  return buffer;
}

}  // namespace reel
