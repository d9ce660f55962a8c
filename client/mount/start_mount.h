// A mount's start, which is tried again while controllers or LUNs are not there yet: machines of a
// cluster come up in any order.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/mount/mount.h"
#include "client/mount/mount_options.h"
#include "proto/tls/watched_tls.h"

namespace reel::client {

struct StartSteps {
  // Whether the mount point can be mounted upon. Asked before each try: somebody else may have.
  std::function<absl::Status()> check_free;
  // Tells people what is waited for.
  std::function<void(const std::string&)> say;
  // Waits for so long; false when the mount is not wanted any more.
  std::function<bool(std::uint32_t ms)> pause;
};

// `limit_ms`: for how long it is tried again (MountRetry::kNoLimit). CANCELLED: not wanted any
// more.
absl::StatusOr<std::unique_ptr<Mount>> StartMount(const MountOptions& options,
                                                  const std::shared_ptr<WatchedTls>& tls,
                                                  std::uint64_t limit_ms, const StartSteps& steps);

}  // namespace reel::client
