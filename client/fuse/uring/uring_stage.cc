#include "client/fuse/uring/uring_stage.h"

namespace reel::client {

void UringStage::Advance(Stage stage, int dev_fuse) {
  MutexLock lock(mutex_);
  if (stage <= now_.load(std::memory_order_relaxed)) return;
  if (dev_fuse >= 0) dev_fuse_ = dev_fuse;
  now_.store(stage, std::memory_order_seq_cst);
  changed_.NotifyAll();
}

int UringStage::Await(Stage stage) {
  MutexLock lock(mutex_);
  while (now_.load(std::memory_order_relaxed) < stage) changed_.Wait(mutex_);
  return ended() ? -1 : dev_fuse_;
}

void UringStage::Report(const absl::Status& outcome) {
  MutexLock lock(mutex_);
  ++reports_;
  failure_.Update(outcome);
  changed_.NotifyAll();
}

absl::Status UringStage::AwaitReports(std::uint32_t count) {
  MutexLock lock(mutex_);
  while (reports_ < count && !ended()) changed_.Wait(mutex_);
  reports_ = 0;
  if (ended()) return absl::CancelledError("unmounted meanwhile");
  return failure_;
}

}  // namespace reel::client
