// What a controller that comes does on all LUNs at once.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "mdc/fence/fencer.h"
#include "spdlog/spdlog.h"
#include "volume/format/reservation_key.h"
#include "volume/lun/at_once.h"

namespace reel::mdc {

absl::Status Fencer::Take(Epoch epoch, std::uint64_t* quarantine_ms) {
  epoch_ = epoch;
  const absl::Status held = OnEachLun(quarantine_ms, [this](std::size_t lun, std::uint64_t* ms) {
    return Hold(lun, /*reopen=*/true, ms);
  });
  if (held.ok()) return held;
  return absl::Status(held.code(),
                      absl::StrCat("the reservation cannot be taken: ", held.message()));
}

// Each is alone with its LUN's state.
absl::Status Fencer::OnEachLun(
    std::uint64_t* quarantine_ms,
    const std::function<absl::Status(std::size_t lun, std::uint64_t* quarantine_ms)>& work) const {
  struct Outcome {
    absl::Status status;
    std::uint64_t quarantine_ms = 0;
  };
  std::vector<Outcome> outcomes(states_.size());
  DoAtOnce(states_.size(), [&](std::size_t lun) {
    if (states_[lun].reservations == nullptr) return;
    outcomes[lun].status = work(lun, &outcomes[lun].quarantine_ms);
  });
  absl::Status first;
  for (const Outcome& outcome : outcomes) {
    *quarantine_ms = std::max(*quarantine_ms, outcome.quarantine_ms);
    first.Update(outcome.status);
  }
  return first;
}

absl::Status Fencer::Sweep(const std::map<std::uint64_t, SessionId>& known,
                           std::uint64_t* quarantine_ms) {
  return OnEachLun(quarantine_ms, [&](std::size_t lun, std::uint64_t* ms) -> absl::Status {
    const auto view = Look(lun);
    if (!view.ok()) return view.status();
    std::vector<std::uint64_t> strays;
    for (const std::uint64_t key : view->keys) {
      const auto parts = PartsOfKey(volume_->descriptor.volume, key);
      if (parts && !parts->controller && !known.contains(key)) strays.push_back(key);
    }
    if (strays.empty()) return absl::OkStatus();
    const FenceOutcome outcome = FenceOn(lun, strays, /*drain=*/true);
    if (!outcome.done) return absl::UnavailableError(outcome.problem);
    *ms = outcome.quarantine_ms;
    spdlog::info("volume {}: {}: {} keys of sessions that are over are gone",
                 volume_->descriptor.name, volume_->luns[lun]->name(), strays.size());
    return absl::OkStatus();
  });
}

}  // namespace reel::mdc
