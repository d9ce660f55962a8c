#include "mdc/seat/succession.h"

#include "absl/strings/str_cat.h"

namespace reel::mdc {

absl::Status MayFollow(const SeatLook& look, const SeatOptions& options, bool ordered) {
  const auto& block = look.block;
  if (ordered || !block.ok() || block->volume != options.volume) return absl::OkStatus();
  if (block->stopped) {
    return absl::FailedPreconditionError(
        "the volume is stopped; \"reeladm start\" starts it again");
  }
  if (!block->maintenance) return absl::OkStatus();
  // Who had it may be started again, and who is meant by name is no standby that acts by itself.
  const bool had_it = block->address == options.address && block->host == options.host;
  const bool is_meant =
      block->state == ArbitrationBlock::State::kOffered && block->successor == options.holder;
  if (had_it || is_meant) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the volume is in maintenance, and served by ", block->address, " (", block->host,
      ") alone; \"reeladm activate\" takes it over, \"reeladm maintenance off\" ends that"));
}

}  // namespace reel::mdc
