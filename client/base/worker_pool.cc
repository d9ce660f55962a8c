#include "client/base/worker_pool.h"

#include <utility>

#include "client/base/cpu_binding.h"

namespace reel::client {

void WorkerPool::Run(std::function<void()> work) {
  MutexLock lock(mutex_);
  if (!stopping_) Add(std::move(work));
}

bool WorkerPool::RunIfFree(std::function<void()> work) {
  MutexLock lock(mutex_);
  if (stopping_ || (idle_ <= queue_.size() && !MayGrow())) return false;
  Add(std::move(work));
  return true;
}

void WorkerPool::Add(std::function<void()> work) {
  queue_.push_back(std::move(work));
  if (idle_ >= queue_.size() || !MayGrow()) {
    wake_.NotifyOne();
  } else {
    threads_.emplace_back([this] { Main(); });
  }
}

void WorkerPool::Lend() {
  MutexLock lock(mutex_);
  ++lent_;
  if (!stopping_ && queue_.size() > idle_ && MayGrow()) threads_.emplace_back([this] { Main(); });
}

void WorkerPool::TakeBack() {
  MutexLock lock(mutex_);
  --lent_;
}

void WorkerPool::Main() {
  CpuBinding::Forget();  // of the worker of names that started it
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (queue_.empty()) {
      ++idle_;
      wake_.Wait(mutex_);
      --idle_;
      continue;
    }
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    mutex_.Unlock();
    work();
    work = nullptr;
    mutex_.Lock();
  }
}

void WorkerPool::Stop() {
  std::vector<Thread> threads;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    threads.swap(threads_);
    wake_.NotifyAll();
  }
  for (Thread& thread : threads) thread.Join();
}

}  // namespace reel::client
