// Runs a program of the administrator's when an owner comes to a limit of its quota: one that sends
// mail, say.
//
// The program is run as it is, by no shell, with the daemon's rights, and gets all in its
// environment (docs/operations.md). One runs at a time, on a thread of this object; one that does
// not end within its time is killed with its process group. Of one owner and limit it is told no
// more often than every kQuietMs; at most kMaxWaiting wait, and what comes then is dropped, which
// the log says. Threads: all methods may be called concurrently, except that Stop comes last.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "mdc/base/quota_notice.h"
#include "volume/base/env.h"
#include "volume/base/mutex.h"
#include "volume/base/thread.h"

namespace reel::mdc {

class QuotaHook {
 public:
  static constexpr std::uint64_t kQuietMs = 60'000;
  static constexpr std::uint64_t kMostMs = 30'000;
  static constexpr std::size_t kMaxWaiting = 64;

  // `command`: the program and its arguments. `clock` outlives this object.
  QuotaHook(std::string volume, std::vector<std::string> command, const Clock& clock,
            std::uint64_t most_ms = kMostMs)
      : volume_(std::move(volume)),
        command_(std::move(command)),
        clock_(clock),
        most_ms_(most_ms) {}
  ~QuotaHook() { Stop(); }
  QuotaHook(const QuotaHook&) = delete;
  QuotaHook& operator=(const QuotaHook&) = delete;

  void Tell(QuotaNotice notice);
  // Kills what runs; what waits is dropped.
  void Stop();

 private:
  void Main();
  void Run(const QuotaNotice& notice);
  // The program's end within its time; else it is killed. Its wait status.
  int Await(int pid);

  const std::string volume_;
  const std::vector<std::string> command_;
  const Clock& clock_;
  const std::uint64_t most_ms_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<QuotaNotice> waiting_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::uint64_t> told_ms_ ABSL_GUARDED_BY(mutex_);  // by owner and limit
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  Thread thread_;
};

}  // namespace reel::mdc
