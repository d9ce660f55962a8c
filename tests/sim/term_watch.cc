#include "tests/sim/term_watch.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "volume/format/descriptor.h"
#include "volume/format/label.h"

namespace reel::sim {
namespace {

// A LUN that is about to come, or that has gone, is the volume's only in one controller's hands:
// the next one cuts that off before it takes the LUN itself.
bool IsOfTheVolume(const Disk& disk) {
  VolumeDescriptor map;
  for (const std::uint64_t offset : kDescriptorSlotOffsets) {
    std::vector<std::byte> slot(kDescriptorSlotBytes);
    LunRack::Get().disks.front()->Read(offset, slot.data(), slot.size());
    auto read = DecodeDescriptor(slot);
    if (read.ok() && read->generation > map.generation) map = *std::move(read);
  }
  return std::ranges::any_of(map.pools, [&](const Pool& pool) {
    return std::ranges::any_of(pool.sets, [&](const StripeSet& set) {
      return std::ranges::find(set.luns, disk.name(), &LunEntry::name) != set.luns.end();
    });
  });
}

}  // namespace

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
    if (!block.ok()) return violate_("a damaged arbitration block is written");
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
