// Whether frames of one size reach another host whole: what is between (a switch, a bridge, a
// tunnel) may drop those that are too large for it, and tell nobody.
//
// Threads: pure; waits for the network.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <optional>

namespace reel::tools {

// By a ping of that size that may not be fragmented. nullopt: not known, as nobody answers small
// ones either, as pings may not be sent from here, or as the address is not of IPv4.
std::optional<bool> FramesPass(const sockaddr_storage& peer, std::uint32_t frame_bytes,
                               std::uint32_t timeout_ms);

}  // namespace reel::tools
