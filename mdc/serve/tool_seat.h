// The seat of a volume, held by a tool that works on it: no controller takes the volume meanwhile,
// on whatever host it is.
//
// The tool takes it as a controller does (fence, claim, beats), so on LUNs with reservations it may
// write where nobody else may. What administrators want of the volume (stopped, maintenance) stays.
// Threads: one, where not said otherwise; `lost` is called on a thread of this object.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "mdc/serve/takeover.h"

namespace reel::mdc {

class ToolSeat {
 public:
  // `volume` is open for writing. FAILED_PRECONDITION: a controller serves it, or another tool is
  // at work. `tool`: its name and release, for people. `lost`: somebody has taken the seat all the
  // same, or the LUN fails: expected to end the process.
  static absl::StatusOr<std::unique_ptr<ToolSeat>> Take(
      OpenVolume volume, std::string tool, std::function<void(const absl::Status&)> lost,
      const Clock& clock);
  // Gives it up.
  ~ToolSeat();
  // Waits until nothing is under way any more that a host has sent to LUNs with reservations before
  // they were taken: for who has cleared registrations there. UNAVAILABLE: a LUN does not answer.
  absl::Status AwaitSent();

  OpenVolume& volume() { return *contest_.volume; }
  Epoch epoch() const { return won_.seat->epoch(); }
  // ABORTED when its term is over: nothing may be written any more. To be asked before each write;
  // any thread may.
  absl::Status CheckTerm() const;

 private:
  ToolSeat() = default;

  Contest contest_;
  WonSeat won_;
};

}  // namespace reel::mdc
