// How far a server of FUSE over io_uring has come, as its threads follow it.
//
// Stages only go forward. Threads: all methods may be called concurrently.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "volume/base/mutex.h"

namespace reel::client {

class UringStage {
 public:
  enum class Stage : std::uint8_t {
    kMade,            // threads make their rings
    kRegisterSpares,  // the kernel takes entries from the top of a stack: spare ones go first
    kRegisterResidents,
    kServing,
    kStopped,  // requests that come are left unanswered
    kEnded,
  };

  Stage now() const { return now_.load(std::memory_order_seq_cst); }
  bool serving() const { return now() < Stage::kStopped; }
  bool ended() const { return now() == Stage::kEnded; }

  // Does nothing where it has come further. /dev/fuse from kRegisterSpares on.
  void Advance(Stage stage, int dev_fuse = -1);
  // Returns the descriptor of /dev/fuse; -1: it has ended.
  int Await(Stage stage);

  // One of the threads has done what its stage asks for.
  void Report(const absl::Status& outcome);
  // Waits for so many reports, and begins to count anew. The first that is not OK, or that it ended
  // meanwhile.
  absl::Status AwaitReports(std::uint32_t count);

 private:
  std::atomic<Stage> now_{Stage::kMade};
  Mutex mutex_;
  CondVar changed_;
  int dev_fuse_ ABSL_GUARDED_BY(mutex_) = -1;
  std::uint32_t reports_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel::client
