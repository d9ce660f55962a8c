// Requests of the kernel's page cache that wait for the controller's answer to a LayoutGet, with
// the kernel's pages locked.
//
// An invalidation waits for those pages. So a recall has to know whether one of these requests
// waits for the recall in turn: the controller answers it only after the token is back. Invariant:
// each request counts from before its LayoutGet is sent until after the answer is taken in.
// Threads: externally synchronised, by the file's mutex.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "proto/token_ranges.h"
#include "proto/types.pb.h"

namespace reel::client {

class PageFetches {
 public:
  struct Fetch {
    v1::TokenMode mode = v1::TOKEN_SHARED;  // in which it wants the file
    bool asks_token = false;                // it had no token when it asked
  };
  void Begin(const Fetch& fetch) {
    ++by_mode_[fetch.mode];
    if (fetch.asks_token) ++asking_token_;
  }
  void End(const Fetch& fetch) {
    --by_mode_[fetch.mode];
    if (fetch.asks_token) --asking_token_;
  }
  // One of them wants more than is held: its answer may be behind that of a recall. What another
  // request has brought since it asked does not help it: it waits for its own answer.
  bool WaitForToken(const TokenRanges& held) const {
    if (asking_token_ > 0) return true;
    for (std::size_t mode = 0; mode < by_mode_.size(); ++mode) {
      if (by_mode_[mode] > 0 && held.Least() < static_cast<v1::TokenMode>(mode)) return true;
    }
    return false;
  }

 private:
  std::array<std::uint32_t, v1::TokenMode_ARRAYSIZE> by_mode_ = {};
  std::uint32_t asking_token_ = 0;
};

}  // namespace reel::client
