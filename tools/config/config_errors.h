// Every mistake of a configuration file: its reader stops at the first one.
//
// Threads: pure function.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"

namespace reel::tools {

// What `read` says of a text, and of the same without the line that it has named, and so on. Its
// messages begin with "SOURCE:LINE: ". What only follows from a line that was taken out (a key is
// missing then) is not among them. In the order of lines.
std::vector<std::string> ErrorsOf(const std::string& text, const std::string& source,
                                  const std::function<absl::Status(std::string_view)>& read);

}  // namespace reel::tools
