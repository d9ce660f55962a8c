#include "client/session/slot_table.h"

#include <algorithm>

namespace reel::client {

void SlotTable::Reset(std::uint32_t count) {
  most_ = count;
  sequences_.assign(count, 0);
  free_.clear();
  for (std::uint32_t number = count; number > 0; --number) free_.push_back(number);
}

void SlotTable::Limit(std::uint32_t most) {
  most_ = std::min(most_, most);
  std::erase_if(free_, [&](std::uint32_t number) { return number > most_; });
}

std::optional<SlotTable::Slot> SlotTable::Take() {
  if (free_.empty()) return std::nullopt;
  const std::uint32_t number = free_.back();
  free_.pop_back();
  return Slot{number, ++sequences_[number - 1]};
}

void SlotTable::Release(std::uint32_t number) {
  if (number <= most_) free_.push_back(number);
}

void SlotTable::ReleaseUnused(std::uint32_t number) {
  --sequences_[number - 1];
  Release(number);
}

}  // namespace reel::client
