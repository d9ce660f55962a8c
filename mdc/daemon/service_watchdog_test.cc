// What the service manager is told: a real thread, time as the test says.
#include "mdc/daemon/service_watchdog.h"

#include <gtest/gtest.h>

#include <atomic>

#include "volume/testing/counting_clock.h"

namespace reel::mdc {
namespace {

TEST(ServiceWatchdog, AVolumeLivesForAPeriodAfterItsSign) {
  CountingClock clock;
  ServiceWatchdog::Sign sign(clock);
  EXPECT_TRUE(sign.Lives(1'000'000, 500));
  EXPECT_TRUE(sign.Lives(1'000'500, 500));
  EXPECT_FALSE(sign.Lives(1'000'501, 500));
  clock.now_ms = 1'000'400;
  sign.GiveSign();
  EXPECT_TRUE(sign.Lives(1'000'900, 500));
  EXPECT_TRUE(sign.Lives(1'000'000, 500)) << "told while the clock was being read";
  sign.Retire();
  EXPECT_TRUE(sign.Lives(~std::uint64_t{0}, 500));
}

TEST(ServiceWatchdog, OneVolumeThatHangsSilencesAll) {
  CountingClock clock;
  std::atomic<int> reported = 0;
  // Waits between notes are real, and short; what lives is judged by the clock above.
  ServiceWatchdog watchdog(3, clock, [&] {
    ++reported;
    reported.notify_all();
  });
  const auto await_note = [&] {
    const int before = reported;
    reported.wait(before);
  };
  const auto one = watchdog.Add(), other = watchdog.Add();
  await_note();
  clock.now_ms += 1000;
  one->GiveSign();
  clock.AwaitLooks(2);  // a note that was on its way has been told
  const int before = reported;
  clock.AwaitLooks(5);
  EXPECT_EQ(reported, before);
  other->GiveSign();
  await_note();
  other->Retire();
  clock.now_ms += 1000;
  one->GiveSign();
  await_note();
}

TEST(ServiceWatchdog, IsQuietWithoutAServiceManager) {
  CountingClock clock;
  ServiceWatchdog watchdog(0, clock, [] { FAIL() << "nobody asked"; });
  watchdog.Add();
}

}  // namespace
}  // namespace reel::mdc
