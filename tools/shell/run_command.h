// One command, run and printed: as text or JSON, once or again and again.
// Thread rule: one thread.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>

#include "tools/commands/command.h"

namespace reel::tools {

inline constexpr std::uint64_t kWatchSeconds = 2;

struct RunOptions {
  std::optional<std::uint64_t> watch_seconds;  // again, so many seconds after the last time
  bool json = false;
  bool yes = false;      // nobody is asked
  bool screen = false;   // what was printed before gives way to what is printed now
  bool colours = false;  // of alarms and warnings
};

// Takes --watch [SECONDS] out of the words. INVALID_ARGUMENT: no seconds at all.
absl::Status TakeWatch(Words& words, RunOptions& options);
// The same of --json, --yes and -y as well. INVALID_ARGUMENT: another option.
absl::Status TakeOptions(Words& words, RunOptions& options);

// Returns when the command has run, or with `watch_seconds` when context.wait is CANCELLED, or when
// the first look fails. Later failures are printed in its place: a controller may be back soon.
absl::Status RunAndPrint(AdminContext& context, const Words& words, const RunOptions& options,
                         std::ostream& out);

// Alarms red, warnings yellow.
std::string Coloured(const std::string& text);

// Whether text that is written to this descriptor may have colours: it is a terminal, and NO_COLOR
// is not set.
bool MayColour(int descriptor);

}  // namespace reel::tools
