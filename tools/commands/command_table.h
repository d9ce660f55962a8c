// All commands of reeladm that ask a controller, and how a line of words becomes what is printed.
// Thread rule: one thread.
#pragma once

#include <string>
#include <string_view>

#include "tools/commands/command.h"

namespace reel::tools {

// The families, in the order of the help; each is a file of that name.
AdminCommands VolumeCommands();
AdminCommand ShowCommand();
AdminCommands TrafficCommands();
AdminCommands SessionCommands();
AdminCommands FileCommands();
AdminCommands LockCommands();
AdminCommands SeatCommands();
AdminCommands MapCommands();  // space/
AdminCommands AffinityCommands();
AdminCommands QuotaCommands();
AdminCommands QosCommands();
AdminCommands DumpCommands();
AdminCommands JobCommands();  // space/
AdminCommand ScrubCommand();  // space/
AdminCommand FreeCommand();   // space/
AdminCommands MeasureCommands();
AdminCommands DaemonCommands();
AdminCommands BundleCommands();
AdminCommands HelpCommands();  // command_table.cc

const AdminCommands& AllCommands();

// An alias is the command that it stands for. Null: there is none of that name.
const AdminCommand* FindCommand(std::string_view name);

// Other names of commands.
std::vector<std::string_view> AliasNames();

// Runs one command line, split into words. INVALID_ARGUMENT: no such command, or called wrongly.
absl::StatusOr<std::string> RunAdminCommand(AdminContext& context, const Words& words);

// The same, as data.
absl::StatusOr<Json> RunForData(AdminContext& context, const Words& words);

// Splits a typed line at its spaces; quotes and backslashes keep one, as in sh(1).
// INVALID_ARGUMENT: a quote has no end.
absl::StatusOr<Words> SplitWords(std::string_view line);

// The exit code for an outcome: 0 ok, 1 failed, 2 usage, 3 MDC not reachable.
int AdminExitCode(const absl::Status& status);

}  // namespace reel::tools
