#include "tests/sim/term_watch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "volume/format/label.h"

namespace reel::sim {

void TermWatch::OnAnswered(Epoch epoch, int machine) {
  if (epoch < answered_) {
    violate_(absl::StrCat("mdc", machine, " of epoch ", epoch.value(),
                          " answers a client, after epoch ", answered_.value(), " has"));
  }
  answered_ = std::max(answered_, epoch);
}

void TermWatch::OnWritten(const Disk& disk, std::uint64_t offset_bytes,
                          std::span<const std::byte> bytes, int host, int machine) {
  if (offset_bytes == kArbitrationOffset) {
    const auto block = DecodeArbitration(bytes);
    if (!block.ok()) {
      // (A LUN that comes or goes is cleared, and half of such a write may begin here.)
      if (IsOfTheVolume(disk)) violate_("a damaged arbitration block is written");
      return;
    }
    Epoch& known = epochs_[host];
    if (known != block->epoch) ++claims_;
    known = block->epoch;
    return;
  }
  const Epoch epoch = epochs_[host];
  if (epoch > epoch_) {
    if (machine_ != 0 && machine_ != machine) ++takeovers_;
    ++terms_;
    machine_ = machine;
    epoch_ = epoch;
  } else if (epoch < epoch_ && (reservations_ || scheduler_.alive(host)) && IsOfTheVolume(disk)) {
    violate_(absl::StrCat("mdc", machine, " of epoch ", epoch.value(), " writes to ", disk.name(),
                          " at ", offset_bytes, ", after epoch ", epoch_.value(), " has begun"));
  }
}

}  // namespace reel::sim
