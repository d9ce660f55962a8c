#include "mdc/map/lun_labels.h"

#include <algorithm>
#include <chrono>
#include <set>

#include "spdlog/spdlog.h"
#include "volume/base/thread.h"
#include "volume/format/label.h"
#include "volume/join/new_lun.h"
#include "volume/lun/lun_fault.h"
#include "volume/scsi/lun_times.h"

namespace reel::mdc {
namespace {

// What a LUN that is busy is asked for once more, each time after a longer pause.
constexpr std::uint32_t kTries = 6;

// The place of the LUN where it stands first, as its label says it.
reel::Label LabelOf(const VolumeDescriptor& volume, const Uuid& lun) {
  for (std::uint32_t p = 0; p < volume.pools.size(); ++p) {
    for (std::uint32_t s = 0; s < volume.pools[p].sets.size(); ++s) {
      const std::vector<LunEntry>& luns = volume.pools[p].sets[s].luns;
      const auto entry = std::ranges::find(luns, lun, &LunEntry::lun);
      if (entry == luns.end()) continue;
      return {.lun = lun,
              .name = entry->name,
              .volume = volume.volume,
              .pool = p,
              .stripe_set = s,
              .position = static_cast<std::uint32_t>(entry - luns.begin())};
    }
  }
  return {};
}

}  // namespace

absl::Status WriteToLun(const std::function<absl::Status()>& once) {
  for (std::uint32_t tries = 0;; ++tries) {
    absl::Status status = once();
    const LunFault fault = FaultOf(status);
    const bool passes = fault == LunFault::kBusy || fault == LunFault::kAborted;
    if (!passes || tries >= kTries) return status;
    SleepFor(std::chrono::milliseconds(LunBusyPauseMs(tries)));
  }
}

absl::Status LunLabels::Label(const OpenVolume& next, const std::vector<ChosenLun>& added) const {
  for (const ChosenLun& one : added) {
    reel::Label label = LabelOf(next.descriptor, one.as.uuid);
    const auto flat = [&] {
      std::size_t index = 0;
      for (const Pool& pool : next.descriptor.pools) {
        for (const StripeSet& set : pool.sets) {
          for (const LunEntry& entry : set.luns) {
            if (entry.lun == one.as.uuid) return index;
            ++index;
          }
        }
      }
      return index;
    };
    Lun& lun = *next.luns[flat()];
    label.generation = one.as.label_generation + 2;
    label.size_bytes = lun.size_bytes();
    absl::Status status = WriteToLun([&] {
      if (absl::Status may = may_write_(); !may.ok()) return may;
      if (absl::Status s = PrepareNewLun(lun, one.as); !s.ok()) return s;
      return WriteLabel(lun, label);
    });
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

void LunLabels::Relabel(const OpenVolume& next, bool grown) const {
  std::set<const Lun*> done;
  for (const auto& lun : next.luns) {
    if (!done.insert(lun.get()).second) continue;
    const auto reading = ReadLabel(*lun);
    if (!reading.ok()) continue;
    reel::Label label = LabelOf(next.descriptor, reading->label.lun);
    label.generation = reading->label.generation;
    label.size_bytes =
        grown ? std::max(lun->size_bytes(), reading->label.size_bytes) : reading->label.size_bytes;
    if (label.volume != next.descriptor.volume || label == reading->label) continue;
    ++label.generation;
    const absl::Status status = WriteToLun([&] {
      const absl::Status may = may_write_();
      return may.ok() ? WriteLabel(*lun, label) : may;
    });
    if (!status.ok()) {
      spdlog::warn("volume {}: {}: its label is behind: {}", next.descriptor.name, lun->name(),
                   std::string(status.message()));
    }
  }
}

void LunLabels::Unlabel(const OpenVolume& before, const OpenVolume& next) const {
  std::set<const Lun*> done;
  for (const auto& lun : next.luns) done.insert(lun.get());
  for (const auto& lun : before.luns) {
    if (!done.insert(lun.get()).second) continue;
    absl::Status status = WriteToLun([&]() -> absl::Status {
      const auto reading = ReadLabel(*lun);
      if (!reading.ok()) return reading.status();
      if (reading->label.volume != next.descriptor.volume) return absl::OkStatus();
      if (absl::Status may = may_write_(); !may.ok()) return may;
      return WriteLabel(*lun, {.lun = reading->label.lun,
                               .name = reading->label.name,
                               .volume = {},
                               .generation = reading->label.generation + 1,
                               .size_bytes = reading->label.size_bytes});
    });
    spdlog::info("volume {}: {} has been removed", next.descriptor.name, lun->name());
    if (status.ok()) continue;
    spdlog::warn("volume {}: {}: its label still names the volume: {}; clear it with reel-label",
                 next.descriptor.name, lun->name(), std::string(status.message()));
  }
}

}  // namespace reel::mdc
