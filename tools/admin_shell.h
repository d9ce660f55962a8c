// reeladm's interactive shell: one command a line, with completion of commands and volume names,
// and a history kept in ~/.reeladm_history. Threads: one, once a process (readline has global
// state).
#pragma once

#include "tools/admin_commands.h"

namespace reel::tools {

// Reads until the end of the input, "quit" or "exit"; beside the commands there is "volume NAME",
// which chooses one. Without a terminal it reads lines plainly, prints no prompt, and stops at the
// first error. Returns the exit code.
int RunAdminShell(AdminContext& context);

}  // namespace reel::tools
