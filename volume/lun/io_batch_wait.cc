// How the runner of a batch and the completions of its requests meet. A simulator links others in
// place of this file, where the runner gives its turn to others.
#include <utility>

#include "volume/lun/io_batch.h"

namespace reel {

void LunRequest::Complete(absl::Status outcome) {
  status = std::move(outcome);
  IoBatch* const owner = batch;
  if (owner->notes_times_) {
    const auto took = std::chrono::steady_clock::now() - owner->began_;
    took_us = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::microseconds>(took).count());
  }
  if (owner->outstanding_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    // The waiter may have seen zero and gone by now. Notifying uses the address alone, never the
    // value, and a wake-up too many at a reused address is harmless: all waits are loops.
    owner->outstanding_.notify_all();
  }
}

void IoBatch::Await() {
  for (std::uint32_t left; (left = outstanding_.load(std::memory_order_acquire)) != 0;) {
    outstanding_.wait(left, std::memory_order_acquire);
  }
}

}  // namespace reel
