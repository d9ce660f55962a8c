#include "mdc/sessions/resends.h"

#include <algorithm>

namespace reel::mdc {

bool Resends::WillSend(SessionId session, Kind kind, InodeNumber inode) const {
  const auto found = places_.find(session);
  if (found == places_.end()) return false;
  const Place& place = found->second;
  return kind != place.kind ? kind > place.kind : inode >= place.from;
}

void Resends::BeginTurn(Turn turn, std::size_t most) {
  room_ = most;
  if (turn == Turn::kGoOn) return;
  for (auto& [session, place] : places_) place.begun = true;
}

std::optional<Resends::Slice> Resends::Next() const {
  if (room_ == 0) return std::nullopt;
  for (const auto& [session, place] : places_) {
    if (place.begun) return Slice{session, place.kind, place.from, room_};
  }
  return std::nullopt;
}

// A slice that is not full was the kind's last one.
void Resends::Found(const Slice& slice, std::size_t count, InodeNumber last) {
  Place& place = places_.at(slice.session);
  room_ -= std::min(room_, count);
  if (count >= slice.most) {
    place.from = InodeNumber(last.value() + 1);
  } else if (slice.kind == Kind::kLocks) {
    places_.erase(slice.session);
  } else {
    place.kind = slice.kind == Kind::kData ? Kind::kAttributes : Kind::kLocks;
    place.from = InodeNumber(0);
  }
}

}  // namespace reel::mdc
