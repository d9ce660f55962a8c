// When measurements begin where several hosts measure at one time: the first one at a time that all
// are told, and each further one a fixed time after. The hosts need clocks that agree (chrony, NTP)
// and nothing else. Thread rule: a plain value.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace reel::bench {

class StartTimes {
 public:
  // Seconds since the Unix epoch, and between measurements.
  StartTimes(double first, double every) : first_(first), every_(every) {}

  double At(std::uint64_t measurement) const {
    return first_ + every_ * static_cast<double>(measurement);
  }
  // Waits for it. DEADLINE_EXCEEDED when it has passed by more than a tenth of a second: the other
  // hosts have begun by themselves.
  absl::Status Await(std::uint64_t measurement) const;

 private:
  double first_, every_;
};

// "HH:MM" or "HH:MM:SS", the next such time of this host's day, or "@SECONDS" since the epoch.
// INVALID_ARGUMENT. `now`: seconds since the epoch.
absl::StatusOr<double> ParseStartAt(const std::string& text, double now);
double SecondsNow();

}  // namespace reel::bench
