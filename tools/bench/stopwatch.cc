#include "tools/bench/stopwatch.h"

#include <unistd.h>

#include <fstream>
#include <string>

namespace reel::bench {
namespace {

double BusySeconds() {
  std::ifstream stat("/proc/stat");
  std::string cpu;
  double user = 0, nice = 0, system = 0, idle = 0, wait = 0, irq = 0, soft_irq = 0;
  stat >> cpu >> user >> nice >> system >> idle >> wait >> irq >> soft_irq;
  return (user + nice + system + irq + soft_irq) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace

Stopwatch::Stopwatch() : begin_(std::chrono::steady_clock::now()), busy_seconds_(BusySeconds()) {}

Measure Stopwatch::Read(double operations, double bytes) const {
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin_;
  return {passed.count(), operations, bytes, BusySeconds() - busy_seconds_};
}

}  // namespace reel::bench
