#include "client/session/slot_table.h"

namespace reel::client {

void SlotTable::Reset(std::uint32_t count) {
  sequences_.assign(count, 0);
  free_.clear();
  for (std::uint32_t number = count; number > 0; --number) free_.push_back(number);
}

std::optional<SlotTable::Slot> SlotTable::Take() {
  if (free_.empty()) return std::nullopt;
  const std::uint32_t number = free_.back();
  free_.pop_back();
  return Slot{number, ++sequences_[number - 1]};
}

void SlotTable::Release(std::uint32_t number) {
  free_.push_back(number);
}

void SlotTable::ReleaseUnused(std::uint32_t number) {
  --sequences_[number - 1];
  free_.push_back(number);
}

}  // namespace reel::client
