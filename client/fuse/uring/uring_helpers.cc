#include "client/fuse/uring/uring_helpers.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "client/base/cpu_binding.h"
#include "spdlog/spdlog.h"

namespace reel::client {

UringHelpers::UringHelpers(const Options& options, std::function<void(const Work&)> serve)
    : options_(options), serve_(std::move(serve)) {}

bool UringHelpers::Start() {
  MutexLock lock(mutex_);
  return StartThread();
}

void UringHelpers::Run(const Work& work) {
  MutexLock lock(mutex_);
  if (stopping_) return;
  waiting_.push_back(work);
  if (waiting_.size() > idle_ && running_ < options_.max) StartThread();
  wake_.NotifyOne();
}

bool UringHelpers::StartThread() {
  for (const std::thread::id id : std::exchange(ended_, {})) {
    const auto thread = std::ranges::find(threads_, id, &std::thread::get_id);
    thread->join();
    threads_.erase(thread);
  }
  try {
    threads_.emplace_back([this] { Main(); });
  } catch (const std::system_error& error) {
    spdlog::warn("starting another worker: {}", error.what());
    return false;
  }
  ++running_;
  return true;
}

void UringHelpers::Main() {
  pthread_setname_np(pthread_self(), "reel-fuse");
  CpuBinding::Forget();
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (waiting_.empty()) {
      if (idle_ >= options_.idle) break;
      ++idle_;
      while (waiting_.empty() && !stopping_) wake_.Wait(mutex_);
      --idle_;
      continue;
    }
    const Work work = waiting_.front();
    waiting_.pop_front();
    mutex_.Unlock();
    serve_(work);
    mutex_.Lock();
  }
  --running_;
  ended_.push_back(std::this_thread::get_id());
}

void UringHelpers::Stop() {
  MutexLock lock(mutex_);
  stopping_ = true;
  wake_.NotifyAll();
}

bool UringHelpers::IsIdle() {
  MutexLock lock(mutex_);
  return running_ == 0;
}

void UringHelpers::Join() {
  std::vector<std::thread> threads;
  {
    MutexLock lock(mutex_);
    threads.swap(threads_);
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace reel::client
