#include "mdc/fence/fence_thread.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "mdc/base/fence_times.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {

FenceThread::FenceThread(std::unique_ptr<Fencer> fencer, const Clock& clock, Events events)
    : fencer_(std::move(fencer)),
      clock_(clock),
      events_(std::move(events)),
      any_(fencer_->any()),
      all_(fencer_->all()),
      thread_([this] { Main(); }) {}

bool FenceThread::Run(Action action) {
  MutexLock lock(mutex_);
  if (stopping_) return false;
  actions_.push_back(std::move(action));
  wake_.NotifyOne();
  return true;
}

void FenceThread::Order(CoreOutputs::Fence fence) {
  Run([this, fence = std::move(fence)](Fencer& fencer) {
    {
      MutexLock lock(mutex_);
      if (stopping_) return;  // the next controller does it
    }
    events_.fenced(fence.id, fencer.Fence(fence));
  });
}

absl::StatusOr<std::uint64_t> FenceThread::TakeMap(OpenVolume& volume) {
  struct Answer {
    Mutex mutex;
    CondVar changed;
    std::optional<absl::StatusOr<std::uint64_t>> value ABSL_GUARDED_BY(mutex);
    std::uint64_t quarantine_ms ABSL_GUARDED_BY(mutex) = 0;
  };
  const auto answer = std::make_shared<Answer>();
  const bool queued = Run([this, answer, &volume](Fencer& fencer) {
    std::uint64_t quarantine_ms = 0;
    const absl::Status status = fencer.TakeMap(volume, &quarantine_ms);
    all_ = fencer.all();
    MutexLock lock(answer->mutex);
    answer->quarantine_ms = quarantine_ms;
    answer->value = status.ok() ? absl::StatusOr<std::uint64_t>(fencer.keyless_quarantine_ms())
                                : absl::StatusOr<std::uint64_t>(status);
    answer->changed.NotifyAll();
  });
  if (!queued) return absl::UnavailableError("the controller is stopping");
  MutexLock lock(answer->mutex);
  while (!answer->value) answer->changed.Wait(answer->mutex);
  WaitOut(volume.descriptor.name, answer->quarantine_ms);
  return *answer->value;
}

std::vector<std::string> FenceThread::Problems() const {
  MutexLock lock(mutex_);
  return problems_;
}

void FenceThread::Stop(const Action& last) {
  if (!thread_.joinable()) return;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wake_.NotifyOne();
  }
  thread_.Join();
  if (last) last(*fencer_);
}

void FenceThread::Main() {
  std::uint64_t next_watch_ms = clock_.NowMs() + ReservationWatchMs();
  for (;;) {
    Action action;
    {
      MutexLock lock(mutex_);
      const std::uint64_t now_ms = clock_.NowMs();
      if (actions_.empty() && !stopping_ && now_ms < next_watch_ms) {
        wake_.WaitFor(mutex_, std::chrono::milliseconds(next_watch_ms - now_ms));
      }
      if (stopping_ && actions_.empty()) return;
      if (!actions_.empty()) {
        action = std::move(actions_.front());
        actions_.pop_front();
      }
    }
    if (action) action(*fencer_);
    if (clock_.NowMs() < next_watch_ms || lost_) continue;
    Watch();
    next_watch_ms = clock_.NowMs() + ReservationWatchMs();
  }
}

void FenceThread::Watch() {
  if (!any_ || lost_) return;
  std::vector<std::uint64_t> seen;
  std::vector<std::string> problems;
  const absl::Status status = fencer_->Watch(seen, problems);
  {
    MutexLock lock(mutex_);
    for (const std::string& problem : problems) {
      if (std::find(problems_.begin(), problems_.end(), problem) == problems_.end()) {
        spdlog::error("{}", problem);
      }
    }
    problems_ = std::move(problems);
  }
  if (!status.ok()) {
    lost_ = true;
    events_.seat_lost(status);
    return;
  }
  if (events_.luns_seen) events_.luns_seen(fencer_->lost());
  if (!seen.empty()) events_.keys_seen(std::move(seen));
}

}  // namespace reel::mdc
