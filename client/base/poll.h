// How often a wait that nobody may wake looks again: whether its caller has given up, or whether
// there is a session.
#pragma once

#include <chrono>

namespace reel::client {

inline constexpr std::chrono::milliseconds kPoll{20};

}  // namespace reel::client
