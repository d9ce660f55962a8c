// The reservation keys that an epoch gives to its sessions.
//
// Invariant: no key is given twice, in this epoch or in another one. Threads: the core thread.
#pragma once

#include <cstdint>
#include <optional>

#include "volume/base/types.h"
#include "volume/base/uuid.h"
#include "volume/format/reservation_key.h"

namespace reel::mdc {

class KeyNumbers {
 public:
  KeyNumbers(const Uuid& volume, Epoch epoch) : volume_(volume), epoch_(epoch) {}

  // A key that was never used; nullopt: the epoch has no more.
  std::optional<std::uint64_t> Take() {
    if (last_ == kMaxSessionKeys) return std::nullopt;
    return MakeSessionKey(volume_, epoch_, ++last_);
  }

 private:
  Uuid volume_;
  Epoch epoch_;
  std::uint64_t last_ = 0;
};

}  // namespace reel::mdc
