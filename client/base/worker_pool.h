// Threads for work that may wait: as many as there is work at once, up to a bound.
//
// Work queues beyond the bound; its callers bound the queue (one piece per inode recalled).
// Threads: all methods may be called concurrently.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "volume/base/mutex.h"
#include "volume/base/thread.h"

namespace reel::client {

class WorkerPool {
 public:
  explicit WorkerPool(std::size_t max_threads) : max_threads_(max_threads) {}
  ~WorkerPool() { Stop(); }

  void Run(std::function<void()> work);
  // The same, where a thread begins it at once; false: none is free, nothing is queued.
  bool RunIfFree(std::function<void()> work);
  // One of its threads is going to wait for what may need another piece of its work: until TakeBack
  // it does not count.
  void Lend();
  void TakeBack();
  // Lets running work finish, drops what has not begun, and ends the threads.
  void Stop();

 private:
  void Main();
  void Add(std::function<void()> work) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  bool MayGrow() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return threads_.size() < max_threads_ + lent_;
  }

  const std::size_t max_threads_;
  Mutex mutex_;
  CondVar wake_;
  std::deque<std::function<void()>> queue_ ABSL_GUARDED_BY(mutex_);
  std::size_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  std::size_t lent_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<Thread> threads_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel::client
