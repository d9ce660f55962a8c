// What may come next on a line of the shell: by the usage of commands, and by what the controller
// has of volumes, pools, LUNs and clients. Threads: one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/commands/command.h"

namespace reel::tools {

struct Completion {
  std::vector<std::string> words;  // that there are, also such as do not begin as typed
  bool paths = false;              // or a file's name
};

// After these words. `more`: commands that the table has not. Asks the controller where a name of
// its own may come; where it does not answer, there are none of these.
Completion CompletionAfter(AdminContext& context, const Words& before,
                           const std::vector<std::string>& more);

}  // namespace reel::tools
