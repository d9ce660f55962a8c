// An interrupt that comes when some time is over. Threads: may be asked by any.
#pragma once

#include <cstdint>

#include "client/session/session.h"
#include "volume/base/env.h"

namespace reel::client {

class Deadline : public Interrupt {
 public:
  Deadline(const Clock& clock, std::uint64_t limit_ms)
      : clock_(clock), until_ms_(clock.NowMs() + limit_ms) {}
  bool interrupted() const override { return clock_.NowMs() >= until_ms_; }

 private:
  const Clock& clock_;
  const std::uint64_t until_ms_;
};

}  // namespace reel::client
