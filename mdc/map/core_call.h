// Asks the core of a volume something from a thread that may wait for the answer.
// Threads: any but the core's seat.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "mdc/core/core.h"
#include "volume/base/mutex.h"

namespace reel::mdc {

// As VolumeServer::RunOnCore.
using RunOnCore =
    std::function<bool(std::function<void(Core&)> action, std::function<void()> otherwise)>;

inline absl::Status ControllerStops() {
  return absl::UnavailableError("the controller is stopping");
}

// What `ask` says on the core's seat; UNAVAILABLE: it does not run, as the controller is stopping.
template <typename T>
absl::StatusOr<T> AskCore(const RunOnCore& run_on_core,
                          std::function<absl::StatusOr<T>(Core&)> ask) {
  struct Answer {
    Mutex mutex;
    CondVar changed;
    std::optional<absl::StatusOr<T>> value ABSL_GUARDED_BY(mutex);
  };
  const auto answer = std::make_shared<Answer>();
  const auto tell = [answer](absl::StatusOr<T> value) {
    MutexLock lock(answer->mutex);
    answer->value = std::move(value);
    answer->changed.NotifyAll();
  };
  const bool queued = run_on_core([tell, ask](Core& core) { tell(ask(core)); },
                                  [tell] { tell(ControllerStops()); });
  if (!queued) return ControllerStops();
  MutexLock lock(answer->mutex);
  while (!answer->value) answer->changed.Wait(answer->mutex);
  return *answer->value;
}

}  // namespace reel::mdc
