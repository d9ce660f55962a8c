// Sizes as people write and read them: IEC units, never decimal ones. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace reel {

// "4096", "16K", "16KiB", "1 MiB", up to "E"; letters in either case. INVALID_ARGUMENT says what is
// wrong with anything else ("16kB", which could mean 16,000, included).
absl::StatusOr<std::uint64_t> ParseSize(std::string_view text);

// "0 B", "16 KiB", "1.5 GiB": the largest unit that leaves at least 1, with at most one decimal,
// rounded down so that space is never promised that is not there.
std::string FormatSize(std::uint64_t size_bytes);

}  // namespace reel
