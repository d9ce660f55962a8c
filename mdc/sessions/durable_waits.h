// Who is answered when a commit is durable: administration, which waits for no stream.
//
// Each is told once: that it is durable, or that nobody will know (Close). Threads: the core
// thread.
#pragma once

#include <deque>
#include <functional>
#include <utility>

#include "volume/base/types.h"

namespace reel::mdc {

class DurableWaits {
 public:
  using Then = std::function<void(bool durable)>;

  // REQUIRES: no earlier commit than that of the last one who waits.
  void Await(Sequence sequence, Then then) {
    if (closed_) return then(false);
    waits_.emplace_back(sequence, std::move(then));
  }
  void Durable(Sequence sequence) {
    while (!waits_.empty() && waits_.front().first <= sequence) TellFirst(true);
  }
  void Close() {
    closed_ = true;
    while (!waits_.empty()) TellFirst(false);
  }

 private:
  void TellFirst(bool durable) {
    const Then then = std::move(waits_.front().second);
    waits_.pop_front();
    then(durable);
  }

  std::deque<std::pair<Sequence, Then>> waits_;
  bool closed_ = false;
};

}  // namespace reel::mdc
