// What the labels of LUNs say, kept as a volume's map changes. Each write may come after a look at
// the seat's term, and is done again where a LUN is busy.
// Threads: one at a time; it waits for the LUNs.
#pragma once

#include <functional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "mdc/map/new_luns.h"
#include "volume/format/lun_scan.h"

namespace reel::mdc {

// Once more, after longer and longer pauses, while the LUN says that it is busy or was reset.
absl::Status WriteToLun(const std::function<absl::Status()>& once);

class LunLabels {
 public:
  explicit LunLabels(std::function<absl::Status()> may_write) : may_write_(std::move(may_write)) {}

  // Added LUNs are cleared, and labelled as those of their places.
  absl::Status Label(const OpenVolume& next, const std::vector<ChosenLun>& added) const;
  // Labels say where LUNs stand now; those that have grown, with `grown`, that too. What fails is
  // said in the log.
  void Relabel(const OpenVolume& next, bool grown) const;
  // What the next map has no more is free for others; likewise.
  void Unlabel(const OpenVolume& before, const OpenVolume& next) const;

 private:
  const std::function<absl::Status()> may_write_;
};

}  // namespace reel::mdc
