// An interrupt that a test raises, and that says when a call has begun to wait.
// Threads: any.
#pragma once

#include <atomic>
#include <thread>

#include "client/base/interrupt.h"

namespace reel::client {

class TestInterrupt final : public Interrupt {
 public:
  explicit TestInterrupt(bool raised = false) : raised_(raised) {}

  bool interrupted() const override {
    ++asked_;
    return raised_;
  }
  void Raise() { raised_ = true; }
  // How often a call that waits has looked.
  int asked() const { return asked_; }
  // Until one looks once more.
  void AwaitAsked() const {
    const int before = asked_;
    while (asked_ == before) std::this_thread::yield();
  }

 private:
  std::atomic<bool> raised_;
  mutable std::atomic<int> asked_{0};
};

}  // namespace reel::client
