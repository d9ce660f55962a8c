#include "client/fuse/direct_gate.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "spdlog/spdlog.h"

namespace reel::client {

DirectGate::DirectGate(const Options& options, Answer answer)
    : options_(options), answer_(std::move(answer)) {
  watcher_ = Thread([this] { Watch(); });
}

DirectGate::~DirectGate() {
  Stop();
}

bool DirectGate::Enter(std::uint64_t unique, std::span<const std::byte> request) {
  {
    MutexLock lock(mutex_);
    while (served_ >= options_.max_served && IsFull() && !stopping_) changed_.Wait(mutex_);
    if (served_ < options_.max_served && !stopping_) {
      ++served_;
      return true;
    }
    if (std::erase(early_, unique) == 0) {
      parked_.push_back({unique, {request.begin(), request.end()}});
      if (IsFull()) watch_.NotifyOne();
      return false;
    }
  }
  answer_(unique, EINTR);
  return false;
}

std::optional<std::vector<std::byte>> DirectGate::Leave() {
  MutexLock lock(mutex_);
  ++ended_;
  changed_.NotifyOne();
  if (parked_.empty() || stopping_) {
    --served_;
    return std::nullopt;
  }
  std::vector<std::byte> next = std::move(parked_.front().request);
  parked_.pop_front();
  return next;
}

bool DirectGate::Interrupt(std::uint64_t unique) {
  {
    MutexLock lock(mutex_);
    const auto found = std::ranges::find(parked_, unique, &Parked::unique);
    if (found == parked_.end()) {
      // Another worker may be about to bring it, and the kernel says this once.
      early_.push_back(unique);
      if (early_.size() > kMostEarly) early_.pop_front();
      return false;
    }
    parked_.erase(found);
    changed_.NotifyOne();
  }
  answer_(unique, EINTR);
  return true;
}

void DirectGate::BeginInvalidation() {
  MutexLock lock(mutex_);
  ++invalidations_;
}

void DirectGate::EndInvalidation() {
  MutexLock lock(mutex_);
  --invalidations_;
}

void DirectGate::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
    watch_.NotifyAll();
  }
  if (watcher_.joinable()) watcher_.Join();
}

void DirectGate::AnswerParked(int error) {
  std::deque<Parked> parked;
  {
    MutexLock lock(mutex_);
    parked.swap(parked_);
    changed_.NotifyAll();
  }
  for (const Parked& one : parked) answer_(one.unique, error);
}

std::deque<DirectGate::Parked> DirectGate::TakeStalled() {
  const std::uint64_t ended = ended_;
  const bool invalidates = invalidations_ > 0;
  watch_.WaitFor(mutex_, std::chrono::milliseconds(options_.stall_ms));
  if (stopping_ || !IsFull() || !invalidates || invalidations_ == 0 || ended_ != ended) return {};
  changed_.NotifyAll();
  return std::exchange(parked_, {});
}

void DirectGate::Watch() {
  for (;;) {
    std::deque<Parked> stalled;
    {
      MutexLock lock(mutex_);
      while (!stopping_ && !IsFull()) watch_.Wait(mutex_);
      if (stopping_) return;
      stalled = TakeStalled();
    }
    if (stalled.empty()) continue;
    spdlog::warn(
        "{} direct reads and writes fail with EAGAIN: they fill the kernel's queue, and another "
        "host waits for pages that cannot be written back meanwhile",
        stalled.size());
    for (const Parked& one : stalled) answer_(one.unique, EAGAIN);
  }
}

}  // namespace reel::client
