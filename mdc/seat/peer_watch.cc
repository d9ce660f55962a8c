#include "mdc/seat/peer_watch.h"

#include <chrono>
#include <utility>

#include "mdc/seat/seat_times.h"

namespace reel::mdc {

PeerWatch::PeerWatch(PeerPort& port, const Clock& clock, std::string volume, std::uint64_t seat_ms)
    : port_(port), clock_(clock), volume_(std::move(volume)), seat_ms_(seat_ms), thread_([this] {
        Main();
      }) {}

PeerWatch::~PeerWatch() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  thread_.Join();
}

void PeerWatch::Follow(const std::string& address) {
  MutexLock lock(mutex_);
  if (address == address_) return;
  address_ = address;
  signs_ = PeerSigns();
  changed_.NotifyAll();
}

std::optional<PeerSuspicion> PeerWatch::Suspicion() const {
  MutexLock lock(mutex_);
  return signs_.Suspicion();
}

bool PeerWatch::HasPromise() const {
  MutexLock lock(mutex_);
  return signs_.promise().has_value();
}

void PeerWatch::Main() {
  for (;;) {
    std::string address;
    {
      MutexLock lock(mutex_);
      while (!stopping_ && address_.empty()) changed_.Wait(mutex_);
      if (stopping_) return;
      address = address_;
    }
    const std::uint64_t began_ms = clock_.NowMs();
    const PeerAnswer answer = port_.Ask(address, volume_, PeerSilentMs(seat_ms_));
    MutexLock lock(mutex_);
    if (address == address_) signs_.Note(answer, began_ms);
    const std::uint64_t due_ms = began_ms + PeerAskMs(seat_ms_);
    for (std::uint64_t now_ms = clock_.NowMs();
         !stopping_ && address == address_ && now_ms < due_ms; now_ms = clock_.NowMs()) {
      changed_.WaitFor(mutex_, std::chrono::milliseconds(due_ms - now_ms));
    }
    if (stopping_) return;
  }
}

}  // namespace reel::mdc
