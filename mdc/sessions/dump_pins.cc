#include "mdc/sessions/dump_pins.h"

#include <utility>

#include "mdc/metadb/schema.h"

namespace reel::mdc {

void DumpPins::Load(const v1::VolumeRecord& volume, bool any_waits) {
  kept_.reset();
  begun_.reset();
  if (volume.has_kept_dump()) kept_ = volume.kept_dump();
  if (volume.has_begun_dump()) begun_ = volume.begun_dump();
  next_.reset();
  if (any_waits) next_ = schema::Prefix(schema::Family::kWaiting);
  asked_ = told_ = false;
}

std::optional<DumpPin> DumpPins::pin() const {
  const std::optional<Dump>& newest = begun_ ? begun_ : kept_;
  if (!newest) return std::nullopt;
  return DumpPin{newest->number(), Sequence(newest->sequence())};
}

bool DumpPins::MayFree(std::uint64_t dump) const {
  const std::optional<Dump>& oldest = kept_ ? kept_ : begun_;
  return !oldest || dump < oldest->number();
}

void DumpPins::Looked(std::optional<std::string> next, Sequence freed) {
  next_ = std::move(next);
  if (freed != Sequence()) freed_ = freed;
}

bool DumpPins::TakeCameBack(Sequence durable) {
  if (freed_ == Sequence() || durable < freed_) return false;
  freed_ = Sequence();
  return true;
}

bool DumpPins::AskForSpace(std::uint64_t now_ms) {
  if (gives_space()) return true;
  if (!(kept_ || begun_) || now_ms < not_before_ms_) return false;
  asked_ = true;
  return true;
}

bool DumpPins::TakeAsked() {
  return asked_ && !std::exchange(told_, true);
}

void DumpPins::VoidFailed(std::uint64_t now_ms) {
  asked_ = told_ = false;
  not_before_ms_ = now_ms + kRetryMs;
}

}  // namespace reel::mdc
