// The commands of reeladm: a table of names, words of help, and functions from answers to text or
// JSON.
//
// A new command is one function and one line of the table in admin_commands.cc. Thread rule: one
// thread.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/admin/admin_api.h"

namespace reel::tools {

struct AdminContext {
  AdminApi& api;
  std::string volume;  // the one that was chosen; empty: the only one there is
  bool json = false;
  // Whether to go on, where somebody can be asked; unset: nobody can, and nobody is.
  std::function<bool(const std::string& question)> confirm = {};
};

struct AdminCommand {
  std::string_view name;
  std::string_view arguments;  // "[PREFIX]"
  std::string_view help;
  std::size_t max_arguments;
  // What to print. INVALID_ARGUMENT: called wrongly.
  absl::StatusOr<std::string> (*run)(AdminContext& context, const std::vector<std::string>& words);
};

std::span<const AdminCommand> AdminCommands();

// Runs one command line, split into words. INVALID_ARGUMENT: no such command, or called wrongly.
absl::StatusOr<std::string> RunAdminCommand(AdminContext& context,
                                            const std::vector<std::string>& words);

// The exit code for an outcome: 0 ok, 1 failed, 2 usage, 3 MDC not reachable.
int AdminExitCode(const absl::Status& status);

// The volume to talk about: the chosen one, or the only one that the MDC serves.
absl::StatusOr<std::string> ChosenVolume(AdminContext& context);

// Asks before what takes something from others. CANCELLED: they want it not.
absl::Status Confirm(const AdminContext& context, const std::string& question);

// The functions of the table.
absl::StatusOr<std::string> AdminVolumes(AdminContext&, const std::vector<std::string>&);
absl::StatusOr<std::string> AdminDisks(AdminContext&, const std::vector<std::string>&);
absl::StatusOr<std::string> AdminShow(AdminContext&, const std::vector<std::string>&);
absl::StatusOr<std::string> AdminStat(AdminContext&, const std::vector<std::string>& words);
absl::StatusOr<std::string> AdminWho(AdminContext&, const std::vector<std::string>&);
absl::StatusOr<std::string> AdminFail(AdminContext&, const std::vector<std::string>&);
absl::StatusOr<std::string> AdminActivate(AdminContext&, const std::vector<std::string>& words);
absl::StatusOr<std::string> AdminStop(AdminContext&, const std::vector<std::string>&);
absl::StatusOr<std::string> AdminStart(AdminContext&, const std::vector<std::string>& words);
absl::StatusOr<std::string> AdminMaintenance(AdminContext&, const std::vector<std::string>& words);
absl::StatusOr<std::string> AdminEvict(AdminContext&, const std::vector<std::string>& words);
absl::StatusOr<std::string> AdminReservations(AdminContext&, const std::vector<std::string>&);
absl::StatusOr<std::string> AdminLocks(AdminContext&, const std::vector<std::string>& words);
absl::StatusOr<std::string> AdminAffinity(AdminContext&, const std::vector<std::string>& words);
absl::StatusOr<std::string> AdminDump(AdminContext&, const std::vector<std::string>& words);
absl::StatusOr<std::string> AdminHelp(AdminContext&, const std::vector<std::string>& words);

}  // namespace reel::tools
