// An interrupt for waits that are of no use beyond a session: what they wait for is lost with it.
#pragma once

#include <cstdint>

#include "client/base/interrupt.h"
#include "client/session/session.h"

namespace reel::client {

// Both outlive it. `otherwise`: what else ends the wait; null: nothing. `id` 0: no session ends it.
inline auto SessionEnd(const Session& session, std::uint64_t id, const Interrupt* otherwise) {
  return InterruptWhen([&session, id] { return id != 0 && session.session_id() != id; }, otherwise);
}

}  // namespace reel::client
