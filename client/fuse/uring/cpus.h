// The CPUs that this machine has, and could have.
//
// Threads: any.
#pragma once

#include <string_view>
#include <vector>

namespace reel::client {

// The numbers in a list as the kernel writes them ("0-3,8,10-11"); nothing where it is none.
std::vector<int> ParseCpuList(std::string_view text);

// Those that may be plugged in while it runs, too: for each of them the kernel has a queue.
std::vector<int> PossibleCpus();
std::vector<int> OnlineCpus();

}  // namespace reel::client
