// Small files of text, read and written whole: after a crash there is the old one or the new one.
// Threads: pure functions on files.
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/status/statusor.h"

namespace reel::tools {

// NOT_FOUND, PERMISSION_DENIED, UNAVAILABLE; names the path.
absl::StatusOr<std::string> ReadTextFile(const std::string& path);
// With exactly `mode`. UNAVAILABLE; names the path.
absl::Status WriteTextFile(const std::string& path, const std::string& text, mode_t mode);

}  // namespace reel::tools
