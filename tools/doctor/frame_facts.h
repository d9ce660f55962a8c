// What a connection shows of the frames on its way.
//
// Threads: pure; waits for the network.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace reel::tools {

struct FrameFacts {
  std::string interface;
  std::uint32_t mtu = 0;            // of this host's interface
  std::uint32_t segment_bytes = 0;  // what TCP sends in one: no more than the other end takes
  std::optional<bool> pass{};       // frames of that MTU reach the other end; nullopt: not known
};

// nullopt: no connection, or one that leaves no host.
std::optional<FrameFacts> ReadFrameFacts(const std::string& peer, std::uint32_t timeout_ms);

}  // namespace reel::tools
