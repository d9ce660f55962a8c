// Whether a directory answers: one of a mount that waits for its controller may not.
//
// Threads: any (its child does nothing but stat(2)).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace reel::tools {

// The errno of stat(2), asked by a process of its own; 0: it is there; nullopt: no answer in time.
std::optional<int> ProbeDirectory(const std::string& path, std::uint32_t timeout_ms);

}  // namespace reel::tools
