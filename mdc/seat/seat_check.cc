#include "mdc/seat/seat_check.h"

#include <chrono>

#include "absl/strings/str_cat.h"
#include "volume/base/coding.h"
#include "volume/base/thread.h"

namespace reel::mdc {
namespace {

absl::StatusOr<SeatLook> LookAt(Lun& lun, const Clock& clock) {
  SeatLook look;
  look.began_ms = clock.NowMs();
  auto bytes = ReadArbitration(lun);
  if (!bytes.ok()) return bytes.status();
  look.bytes = *std::move(bytes);
  look.block = DecodeArbitration(AsBytes(look.bytes));
  look.ended_ms = clock.NowMs();
  return look;
}

// Tools have no address.
std::string HolderText(const absl::StatusOr<ArbitrationBlock>& block) {
  if (!block.ok()) return "a controller serves it";
  if (block->address.empty())
    return absl::StrCat(block->program, " on ", block->host, " is at work");
  return absl::StrCat("the controller at ", block->address, " (", block->host, ") serves it");
}

}  // namespace

bool HolderDiedHere(const SeatLook& look, const SeatOptions& options, Epoch written) {
  const auto& block = look.block;
  return block.ok() && block->volume == options.volume &&
         block->state == ArbitrationBlock::State::kHeld && block->claimed &&
         block->machine == options.machine && look.last_reserved <= block->epoch &&
         written <= block->epoch;
}

absl::StatusOr<SeatLook> CheckUnserved(const std::function<absl::StatusOr<SeatLook>()>& look_now,
                                       const SeatOptions& options, Epoch written) {
  for (SeatWatch watch(options);;) {
    auto look = look_now();
    if (!look.ok()) return look.status();
    if (watch.Consider(*look) != SeatWatch::Verdict::kHeld) return look;
    if (HolderDiedHere(*look, options, written)) return look;
    if (!look->block.ok() && absl::IsUnimplemented(look->block.status())) {
      return absl::FailedPreconditionError(look->block.status().message());
    }
    if (watch.SawChange()) {
      return absl::FailedPreconditionError(
          absl::StrCat("the volume is in use: ", HolderText(look->block)));
    }
    SleepFor(std::chrono::milliseconds(SeatLookMs(options.seat_ms)));
  }
}

absl::Status CheckUnserved(Lun& seat_lun, const SeatOptions& options, Epoch written,
                           const Clock& clock) {
  return CheckUnserved([&] { return LookAt(seat_lun, clock); }, options, written).status();
}

}  // namespace reel::mdc
