// reeladm's interactive shell: one command a line, with completion of commands and volume names,
// and a history kept in ~/.reeladm_history. Threads: one, once a process (readline has global
// state).
#pragma once

#include "tools/admin/admin_commands.h"

namespace reel::tools {

// Reads until the end of the input, "quit" or "exit"; beside the commands there is "volume NAME",
// which chooses one. Without a terminal it reads lines plainly, prints no prompt, and stops at the
// first error. Returns the exit code. Ctrl-C ends the line, not the shell.
int RunAdminShell(AdminContext& context);

// Whether somebody sits at a terminal who can be asked; and the question: true for "y" or "yes".
bool CanAsk();
bool AskOnTerminal(const std::string& question);

}  // namespace reel::tools
