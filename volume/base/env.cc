#include "volume/base/env.h"

#include <sys/random.h>
#include <time.h>

#include <cerrno>

#include "volume/base/check.h"

namespace reel {
namespace {

timespec Now(clockid_t clock) {
  timespec now{};
  REEL_CHECK(clock_gettime(clock, &now) == 0, "the kernel has this clock");
  return now;
}

class MachineClock final : public Clock {
 public:
  std::uint64_t NowMs() const override {
    const timespec now = Now(CLOCK_BOOTTIME);
    return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
           static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
  }
  WallTime WallNow() const override {
    const timespec now = Now(CLOCK_REALTIME);
    return {now.tv_sec, static_cast<std::uint32_t>(now.tv_nsec)};
  }
};

}  // namespace

const Clock& SystemClock() {
  static const MachineClock clock;
  return clock;
}

std::uint64_t RandomU64() {
  std::uint64_t value = 0;
  ssize_t got;
  do {
    got = getrandom(&value, sizeof(value), 0);
  } while (got < 0 && errno == EINTR);
  REEL_CHECK(got == sizeof(value), "getrandom gives up to 256 bytes whole");
  return value;
}

}  // namespace reel
