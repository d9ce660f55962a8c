#include "proto/times.h"

#include <cstdint>
#include <tuple>

namespace reel {

bool Later(const v1::Time& a, const v1::Time& b) {
  return std::make_tuple(a.seconds(), a.nanoseconds()) >
         std::make_tuple(b.seconds(), b.nanoseconds());
}

v1::Time LaterThan(const v1::Time& than, const v1::Time& time) {
  if (Later(time, than)) return time;
  constexpr std::uint32_t kLastNanosecond = 999'999'999;
  const bool whole = than.nanoseconds() >= kLastNanosecond;
  v1::Time later;
  later.set_seconds(than.seconds() + (whole ? 1 : 0));
  later.set_nanoseconds(whole ? 0 : than.nanoseconds() + 1);
  return later;
}

bool AtimeDue(const v1::Time& atime, const v1::Time& mtime, const v1::Time& ctime,
              const v1::Time& now) {
  constexpr std::int64_t kDaySeconds = 24 * 60 * 60;
  if (!Later(now, atime)) return false;
  return !Later(atime, mtime) || !Later(atime, ctime) ||
         now.seconds() - atime.seconds() >= kDaySeconds;
}

}  // namespace reel
