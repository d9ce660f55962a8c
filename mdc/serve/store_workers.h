// The threads that do a core's work at its store: one commits, some run jobs (fetches and the
// like).
//
// Invariants:
//   1. A commit begins after every order that it stands for; orders during a commit share the next.
//   2. A commit that was ordered before Stop is done before Stop returns, unless one has failed.
//   3. Jobs begin in the order of their orders. Those that none has begun are dropped by Stop.
// Bounded by what its core has under way. Threads: all methods may be called concurrently, except
// that Start comes first, and Stop last.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "volume/base/mutex.h"
#include "volume/base/thread.h"

namespace reel::mdc {

class StoreWorkers {
 public:
  // `commit` runs on the one thread; false: never again.
  void Start(std::function<bool()> commit, int readers);
  // A commit if `commits`, and the job that `to_job` makes of each of `orders`: under one lock.
  template <typename Orders, typename ToJob>
  void Order(bool commits, Orders& orders, ToJob to_job) {
    MutexLock lock(mutex_);
    if (commits) {
      wants_commit_ = true;
      commit_wanted_.NotifyOne();
    }
    for (auto& order : orders) {
      jobs_.push_back(to_job(order));
      job_wanted_.NotifyOne();
    }
  }
  // Dropped at once after Stop.
  void Add(std::function<void()> job);
  // That have been done.
  std::uint64_t commits() const { return commits_; }
  void Stop();

 private:
  void CommitMain(const std::function<bool()>& commit);
  void ReaderMain();

  Mutex mutex_;
  CondVar commit_wanted_;
  CondVar job_wanted_;
  bool wants_commit_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<std::function<void()>> jobs_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::atomic<std::uint64_t> commits_{0};
  std::vector<Thread> threads_;
};

}  // namespace reel::mdc
