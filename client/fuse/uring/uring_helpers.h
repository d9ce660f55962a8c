// Threads that serve what comes to spare entries: as many as there are such requests at once, up to
// a bound.
//
// At the bound requests wait for one of them, in their order. Where no thread can be started they
// wait, too; the first is started with the mount. Threads: all methods may be called concurrently.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "client/fuse/uring/uring_entry.h"
#include "volume/base/mutex.h"

namespace reel::client {

class UringHelpers {
 public:
  struct Work {
    UringEntry* entry = nullptr;
    bool let_in = false;  // by the gate, in place of one that left
    bool adopt = false;   // the entry is to have a resident
  };
  struct Options {
    std::uint32_t idle = 1;  // threads kept
    std::uint32_t max = 1;
  };
  UringHelpers(const Options& options, std::function<void(const Work&)> serve);
  UringHelpers(const UringHelpers&) = delete;
  UringHelpers& operator=(const UringHelpers&) = delete;
  ~UringHelpers() { Join(); }

  // False where no thread can be started.
  bool Start();
  void Run(const Work& work);
  // Begins nothing any more.
  void Stop();
  // After Stop: whether no thread runs any more.
  bool IsIdle();
  // REQUIRES: Stop was called.
  void Join();

 private:
  void Main();
  bool StartThread() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const std::function<void(const Work&)> serve_;
  Mutex mutex_;
  CondVar wake_;
  std::deque<Work> waiting_ ABSL_GUARDED_BY(mutex_);
  std::uint32_t idle_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint32_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::thread::id> ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel::client
