// Things that wait for different LUNs or hosts, done at the same time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <vector>

#include "volume/base/thread.h"

namespace reel {

inline constexpr std::size_t kMostAtOnce = 16;

// Runs `work` for 0 … count - 1, each on a thread of its own, kMostAtOnce of them at a time.
// Returns when all have ended.
inline void DoAtOnce(std::size_t count, const std::function<void(std::size_t)>& work) {
  for (std::size_t first = 0; first < count; first += kMostAtOnce) {
    std::vector<Thread> threads;
    const std::size_t end = std::min(count, first + kMostAtOnce);
    for (std::size_t i = first + 1; i < end; ++i) threads.emplace_back([&work, i] { work(i); });
    work(first);
    for (Thread& thread : threads) thread.Join();
  }
}

}  // namespace reel
