// A thin annotated mutex over std::mutex: clang's -Wthread-safety checks GUARDED_BY, and TSan
// understands it (it does not understand Debian's uninstrumented absl::Mutex).
//
// With volume/base/thread.h this is a seam at link time: what the methods do stands in
// volume/base/thread.cc, and a simulator links a scheduler of its own in its place, under which
// simulated threads take turns. The lock order of the whole system is in
// docs/internals/lock-order.md. No lock is held across an RPC, LUN I/O or a FUSE reply.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "absl/base/thread_annotations.h"

namespace reel {

class ABSL_LOCKABLE Mutex {
 public:
  void Lock() ABSL_EXCLUSIVE_LOCK_FUNCTION();
  void Unlock() ABSL_UNLOCK_FUNCTION();
  // Tells the analysis that the caller holds it (in lambdas and callbacks).
  void AssertHeld() const ABSL_ASSERT_EXCLUSIVE_LOCK() {}

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class ABSL_SCOPED_LOCKABLE MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) ABSL_EXCLUSIVE_LOCK_FUNCTION(mutex) : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() ABSL_UNLOCK_FUNCTION() { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Waits release the mutex and take it again before they return; wake-ups may be spurious, so wait
// in a loop on the condition.
class CondVar {
 public:
  void Wait(Mutex& mutex) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  // False when the time ran out.
  bool WaitFor(Mutex& mutex, std::chrono::milliseconds timeout)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex);
  void NotifyOne();
  void NotifyAll();

 private:
  std::condition_variable condition_;
};

}  // namespace reel
