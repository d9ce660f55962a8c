// Tells the controller what this client sends to LUNs, some times a second, while bandwidth is
// dealt out (client/luns/bandwidth_gate.h). A thread begins with the first deal.
//
// At most one report is under way: while the controller is away none is made, and the next one says
// it all. Threads: all methods may be called concurrently, but Stop last.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "client/luns/bandwidth_gate.h"
#include "client/session/session.h"
#include "volume/base/mutex.h"
#include "volume/base/thread.h"

namespace reel::client {

class TrafficReporter {
 public:
  // All of them outlive it. `is_open`: whether a program here has the inode open.
  TrafficReporter(Session& session, BandwidthGate& gate,
                  std::function<bool(std::uint64_t inode)> is_open)
      : session_(session), gate_(gate), is_open_(std::move(is_open)) {}
  ~TrafficReporter() { Stop(); }
  TrafficReporter(const TrafficReporter&) = delete;
  TrafficReporter& operator=(const TrafficReporter&) = delete;

  // On the receiving thread; does not wait.
  void OnDeal(const v1::Deal& deal);
  void Stop();

 private:
  void Main();
  // Until a report is due. False: no more are.
  bool AwaitDue();

  Session& session_;
  BandwidthGate& gate_;
  const std::function<bool(std::uint64_t inode)> is_open_;
  // Shared with its answer, which may come when this object is gone.
  const std::shared_ptr<std::atomic<bool>> under_way_ = std::make_shared<std::atomic<bool>>(false);

  Mutex mutex_;
  CondVar wake_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace reel::client
