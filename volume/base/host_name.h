// This machine's name, for people and for what they read.
#pragma once

#include <string>

namespace reel {

// From gethostname(2); "unknown" where it has none. Threads: any.
std::string HostName();

}  // namespace reel
