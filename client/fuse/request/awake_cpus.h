// Keeps idle CPUs from sleeping while requests come close together.
//
// A call goes from its program to a thread of ours and back, and the scheduler likes to have each
// of them run where nothing else does. A CPU of a virtual machine that sleeps takes some 35 µs to
// wake, twice as long as the whole call otherwise. So during a burst of requests the kernel is
// asked for a latency of 0: idle CPUs wait awake. (PM QoS,
// Documentation/power/pm_qos_interface.rst.) A burst begins with kBurst requests in kBurstMs, and
// ends when kLookMs bring fewer than kBurst. Threads: NoteRequest may be called concurrently.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>

#include "client/fuse/request/fuse_choices.h"
#include "volume/base/mutex.h"
#include "volume/base/thread.h"
#include "volume/lun/fd_lun.h"

namespace reel::client {

class AwakeCpus {
 public:
  static constexpr std::uint32_t kBurst = 16;
  static constexpr std::chrono::milliseconds kBurstMs{4};
  static constexpr std::chrono::milliseconds kLookMs{10};
  // What is written: microseconds, as the kernel has them. kAnyLatency is its own default.
  static constexpr std::int32_t kNoLatency = 0;
  static constexpr std::int32_t kAnyLatency = 2'000'000'000;

  // Null: they sleep as they like, by choice, or because the kernel does not let us.
  static std::unique_ptr<AwakeCpus> Create(AwakeChoice choice);
  // `latency`: /dev/cpu_dma_latency.
  explicit AwakeCpus(UniqueFd latency);
  AwakeCpus(const AwakeCpus&) = delete;
  AwakeCpus& operator=(const AwakeCpus&) = delete;
  ~AwakeCpus();

  void NoteRequest() {
    if ((requests_.fetch_add(1, std::memory_order_relaxed) + 1) % kBurst == 0) NoteMany();
  }

 private:
  void NoteMany();
  void Watch();
  void Ask(std::int32_t latency_us);

  const UniqueFd latency_;
  std::atomic<std::uint64_t> requests_{0};
  std::atomic<std::int64_t> many_at_ms_{0};  // when the last kBurst of them were complete
  std::atomic<bool> burst_{false};
  Mutex mutex_;
  CondVar changed_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Thread watcher_;
};

}  // namespace reel::client
