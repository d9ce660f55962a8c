// mount -o remount: the program that mount(8) starts asks the client that runs, and the kernel.
//
// Each decides over its own: the client over access times and whether it can write, the kernel over
// the rest. What the client was started with for good (its controllers, LUNs, cache) cannot be
// changed; an option that would do so is refused by name, and nothing is changed then.
// Threads: pure functions, but for Remount, which asks both.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/mount/mount_options.h"

namespace reel::client {

// `now` with what is named in the list. INVALID_ARGUMENT: an option that cannot be changed, or that
// there is none of.
absl::StatusOr<MountOptions> Remounted(const MountOptions& now, absl::string_view list);

// On the mount that the options name. The error says what is not possible.
absl::Status Remount(const MountOptions& options);

}  // namespace reel::client
