#include "tools/bench/start_times.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <thread>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace reel::bench {
namespace {

constexpr double kTolerance = 0.1;
constexpr double kMostSeconds = 1e11;

}  // namespace

double SecondsNow() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

absl::Status StartTimes::Await(std::uint64_t measurement) const {
  const double at = At(measurement);
  if (SecondsNow() > at + kTolerance) {
    return absl::DeadlineExceededError(
        absl::StrCat("the time to begin measurement ", measurement + 1,
                     " has passed: begin later, or give more time between measurements (--every)"));
  }
  std::this_thread::sleep_until(std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::duration<double>(at))));
  return absl::OkStatus();
}

absl::StatusOr<double> ParseStartAt(const std::string& text, double now) {
  const absl::Status wrong = absl::InvalidArgumentError(
      absl::StrCat("--start-at ", text, ": give HH:MM, HH:MM:SS or @SECONDS since 1970"));
  if (!text.empty() && text.front() == '@') {
    double seconds = 0;
    if (!absl::SimpleAtod(text.substr(1), &seconds) || !(seconds >= 0 && seconds < kMostSeconds)) {
      return wrong;
    }
    return seconds;
  }
  unsigned hour = 0, minute = 0, second = 0;
  int end = 0;
  const bool whole = std::sscanf(text.c_str(), "%2u:%2u:%2u%n", &hour, &minute, &second, &end) == 3;
  if (!whole && std::sscanf(text.c_str(), "%2u:%2u%n", &hour, &minute, &end) != 2) return wrong;
  if (static_cast<std::size_t>(end) != text.size() || hour > 23 || minute > 59 || second > 59) {
    return wrong;
  }
  const auto today = static_cast<std::time_t>(now);
  std::tm local{};
  localtime_r(&today, &local);
  local.tm_hour = static_cast<int>(hour);
  local.tm_min = static_cast<int>(minute);
  local.tm_sec = static_cast<int>(second);
  local.tm_isdst = -1;
  auto at = static_cast<double>(std::mktime(&local));
  if (at < now) {
    ++local.tm_mday;
    local.tm_isdst = -1;
    at = static_cast<double>(std::mktime(&local));
  }
  return at;
}

}  // namespace reel::bench
