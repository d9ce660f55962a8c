#include "client/fuse/request/direct_gate.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "client/fuse/request/pending_signals.h"
#include "spdlog/spdlog.h"

namespace reel::client {

DirectGate::DirectGate(const Options& options, Answer answer)
    : options_(options), answer_(std::move(answer)) {
  watcher_ = Thread([this] { Watch(); });
  looker_ = Thread([this] { WatchSignals(); });
}

DirectGate::~DirectGate() {
  Stop();
}

bool DirectGate::Enter(KernelRequest& request, Keeps keeps) {
  Parked parked{.unique = request.header().unique,
                .place = keeps == Keeps::kPlace ? &request : nullptr};
  if (request.over_uring()) parked.looked_at = static_cast<pid_t>(request.header().pid);
  {
    MutexLock lock(mutex_);
    while (served_ >= options_.max_served && IsFull() && !stopping_) changed_.Wait(mutex_);
    if (served_ < options_.max_served && !stopping_) {
      ++served_;
      return true;
    }
    if (std::erase(early_, parked.unique) == 0) {
      if (keeps == Keeps::kCopy) {
        const auto* bytes = reinterpret_cast<const std::byte*>(request.begin());
        parked.bytes.assign(bytes, bytes + request.length_bytes());
      }
      if (parked.looked_at > 0) looked_.NotifyOne();
      parked_.push_back(std::move(parked));
      if (IsFull()) watch_.NotifyOne();
      return false;
    }
  }
  answer_(parked, EINTR);
  return false;
}

std::optional<DirectGate::Parked> DirectGate::Leave() {
  MutexLock lock(mutex_);
  ++ended_;
  changed_.NotifyOne();
  if (parked_.empty() || stopping_) {
    --served_;
    return std::nullopt;
  }
  Parked next = std::move(parked_.front());
  parked_.pop_front();
  return next;
}

bool DirectGate::Interrupt(std::uint64_t unique) {
  Parked parked;
  {
    MutexLock lock(mutex_);
    const auto found = std::ranges::find(parked_, unique, &Parked::unique);
    if (found == parked_.end()) {
      // Another worker may be about to bring it, and the kernel says this once.
      early_.push_back(unique);
      if (early_.size() > kMostEarly) early_.pop_front();
      return false;
    }
    parked = std::move(*found);
    parked_.erase(found);
    changed_.NotifyOne();
  }
  answer_(parked, EINTR);
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
    looked_.NotifyAll();
  }
  if (watcher_.joinable()) watcher_.Join();
  if (looker_.joinable()) looker_.Join();
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
    for (const Parked& one : stalled) answer_(one, EAGAIN);
  }
}

void DirectGate::WatchSignals() {
  const auto is_looked_at = [](const Parked& one) { return one.looked_at > 0; };
  for (;;) {
    {
      MutexLock lock(mutex_);
      while (!stopping_ && std::ranges::none_of(parked_, is_looked_at)) looked_.Wait(mutex_);
      if (!stopping_) {
        looked_.WaitFor(mutex_, std::chrono::milliseconds(PendingSignals::kLookMs));
      }
      if (stopping_) return;
    }
    LookForSignals();
  }
}

void DirectGate::LookForSignals() {
  std::vector<std::pair<std::uint64_t, pid_t>> callers;
  {
    MutexLock lock(mutex_);
    for (const Parked& one : parked_) callers.emplace_back(one.unique, one.looked_at);
  }
  for (const auto& [unique, thread] : callers) {
    const bool seen = thread > 0 && HasPendingSignal(thread, SignalKind::kFatal);
    Parked given_up;
    {
      MutexLock lock(mutex_);
      const auto found = std::ranges::find(parked_, unique, &Parked::unique);
      if (found == parked_.end() || !(std::exchange(found->signal_seen, seen) && seen)) continue;
      given_up = std::move(*found);
      parked_.erase(found);
      changed_.NotifyOne();
    }
    answer_(given_up, EINTR);
  }
}

}  // namespace reel::client
