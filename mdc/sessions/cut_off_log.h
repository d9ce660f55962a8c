// The last sessions that were evicted because others waited for them, for people.
//
// Invariant: at most kMost of them, and none that is older than kShownMs is shown. Threads: the
// core thread.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <vector>

namespace reel::mdc {

class CutOffLog {
 public:
  static constexpr std::size_t kMost = 16;
  static constexpr std::uint64_t kShownMs = 3'600'000;
  struct CutOff {
    std::uint64_t ago_ms = 0;
    std::string what;
  };

  void Add(std::uint64_t now_ms, std::string what) {
    if (entries_.size() == kMost) entries_.pop_front();
    entries_.push_back({now_ms, std::move(what)});
  }
  // What is to be shown, the oldest first.
  std::vector<CutOff> Shown(std::uint64_t now_ms) const {
    std::vector<CutOff> shown;
    for (const auto& [at_ms, what] : entries_) {
      const std::uint64_t ago_ms = now_ms - std::min(now_ms, at_ms);
      if (ago_ms <= kShownMs) shown.push_back({ago_ms, what});
    }
    return shown;
  }

 private:
  std::deque<std::pair<std::uint64_t, std::string>> entries_;  // since when
};

}  // namespace reel::mdc
