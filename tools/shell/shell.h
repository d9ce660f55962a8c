// reeladm's interactive shell: one command a line. Threads: one, once a process.
#pragma once

#include <string_view>
#include <vector>

#include "tools/commands/command.h"

namespace reel::tools {

// Commands with options of their own, which ask no controller: `run` has them as a program's
// arguments, and returns the exit code.
struct Family {
  std::string_view name;
  int (*run)(int argc, char** argv);
};

// The family that these words belong to; null: a command's, as is "config running".
const Family* FamilyOf(const std::vector<Family>& families, const Words& words);

// Reads until the end of the input, "quit" or "exit". Without a terminal it reads lines plainly,
// prints no prompt, and stops at the first error. Returns the exit code. Ctrl-C ends the line, or
// what --watch repeats, not the shell.
int RunAdminShell(AdminContext& context, const std::vector<Family>& families);

}  // namespace reel::tools
