// Workers that read the kernel's requests from /dev/fuse, and answer them there.
//
// Where requests go through io_uring these serve what stays: the handshake, forgets, interrupts.
// Invariants:
//   1. A request is answered by the worker that read it, before that worker reads another; but for
//      direct ones that are parked, which another worker serves later.
//   2. While requests wait there is a worker to read them: the last idle worker that takes one
//      starts another, up to max_threads. (A request may wait for a second one that the kernel
//      sends on its behalf, such as the write-back of a page that a recall drops.) At the limit
//      they wait in the kernel.
//   3. Direct requests, which may wait for other hosts, take not all workers (DirectGate).
// Threads: externally synchronised, but that workers run.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>

#include "client/fuse/request/direct_gate.h"
#include "client/fuse/request/fuse_dispatcher.h"
#include "volume/base/mutex.h"

namespace reel::client {

class DevFuseWorkers {
 public:
  struct Options {
    std::uint32_t threads = 0;  // idle workers kept
    std::uint32_t max_threads = 0;
    std::uint32_t request_bytes = kUsualFuseRequestBytes;
    std::function<void()> on_end;  // called by a worker when the connection has ended
  };
  DevFuseWorkers(Options options, FuseDispatcher& dispatcher, DirectGate& gate);
  DevFuseWorkers(const DevFuseWorkers&) = delete;
  DevFuseWorkers& operator=(const DevFuseWorkers&) = delete;
  // REQUIRES: no worker runs.
  ~DevFuseWorkers();

  // False where not all threads can be started. REQUIRES: the dispatcher is open.
  bool Start();
  // Keeps so many idle workers from now on.
  void Keep(std::uint32_t threads) { threads_.store(threads, std::memory_order_relaxed); }
  // Reads no more requests; those in progress are finished.
  void Stop();
  // Wakes those that read. True when none runs any more.
  bool Wake();
  // A request that the gate had kept gets that error.
  void AnswerParked(std::uint64_t unique, int error) const;

 private:
  class Request;
  struct Worker;

  bool StartWorker() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run(Worker& worker);
  // False when the worker is to end.
  bool ServeOne(Worker& worker);
  void ServeRequest(Request& request);
  // False: there are enough.
  bool BecomeIdle();
  void Reap() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  FuseDispatcher& dispatcher_;
  DirectGate& gate_;
  std::atomic<std::uint32_t> threads_;
  std::atomic<bool> stop_{false};
  // Workers that wait for a request, or are about to. (Of one that ends with the connection it is
  // no matter.)
  std::atomic<std::int32_t> idle_{0};

  mutable Mutex mutex_;
  std::list<std::unique_ptr<Worker>> workers_ ABSL_GUARDED_BY(mutex_);
  std::uint32_t running_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace reel::client
