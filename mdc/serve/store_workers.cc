#include "mdc/serve/store_workers.h"

#include <utility>

namespace reel::mdc {

void StoreWorkers::Start(std::function<bool()> commit, int readers) {
  threads_.emplace_back([this, commit = std::move(commit)] { CommitMain(commit); });
  for (int i = 0; i < readers; ++i) threads_.emplace_back([this] { ReaderMain(); });
}

void StoreWorkers::Add(std::function<void()> job) {
  MutexLock lock(mutex_);
  if (stopping_) return;
  jobs_.push_back(std::move(job));
  job_wanted_.NotifyOne();
}

void StoreWorkers::CommitMain(const std::function<bool()>& commit) {
  for (;;) {
    {
      MutexLock lock(mutex_);
      while (!wants_commit_ && !stopping_) commit_wanted_.Wait(mutex_);
      if (!wants_commit_) return;
      wants_commit_ = false;
    }
    if (!commit()) return;
    ++commits_;
  }
}

void StoreWorkers::ReaderMain() {
  for (;;) {
    std::function<void()> job;
    {
      MutexLock lock(mutex_);
      while (jobs_.empty() && !stopping_) job_wanted_.Wait(mutex_);
      if (stopping_) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    job();
  }
}

void StoreWorkers::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    commit_wanted_.NotifyAll();
    job_wanted_.NotifyAll();
  }
  for (Thread& thread : threads_) thread.Join();
  threads_.clear();
  std::deque<std::function<void()>> dropped;  // destroyed under no lock
  MutexLock lock(mutex_);
  dropped.swap(jobs_);
}

}  // namespace reel::mdc
