#include "tools/admin/admin_commands.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "tools/lib/cli.h"
#include "tools/lib/table.h"

namespace reel::tools {
namespace {

constexpr std::size_t kMaxPaths = 65'536;

constexpr AdminCommand kCommands[] = {
    {"volumes", "", "the volumes that this MDC serves", 0, AdminVolumes},
    {"disks", "", "the LUNs that this MDC sees, and what they hold", 0, AdminDisks},
    {"show", "", "geometry and usage of a volume", 0, AdminShow},
    {"stat", "[PREFIX]", "counters of a volume since its MDC started; PREFIX picks some", 1,
     AdminStat},
    {"who", "", "the clients of a volume", 0, AdminWho},
    {"evict", "SESSION", "end a session; others get what it held once it is off the LUNs", 1,
     AdminEvict},
    {"fail", "", "let the active MDC hand its volumes over to a standby", 0, AdminFail},
    {"activate", "[HOST]", "make this MDC, or the one on HOST, the active one", 1, AdminActivate},
    {"stop", "", "stop serving a volume; its clients wait until it is started", 0, AdminStop},
    {"start", "[HOST]", "serve a stopped volume again, by this MDC or the one on HOST", 1,
     AdminStart},
    {"maintenance", "[on|off]", "no takeover by standbys and no new mounts, while it is on", 1,
     AdminMaintenance},
    {"reservations", "", "who is registered on the LUNs, by SCSI-3 reservations", 0,
     AdminReservations},
    {"locks", "[break INODE [SESSION]]", "advisory locks; break takes them from their holders", 3,
     AdminLocks},
    {"affinity", "[PATH... | set NAME PATH... | clear PATH...]",
     "affinities and their pools; which ones files and directories have", kMaxPaths + 2,
     AdminAffinity},
    {"dump", "[FILE | release]",
     "dump the metadata to FILE; which dump can be restored; release: none any more", 1, AdminDump},
    {"help", "[COMMAND]", "what there is to say", 1, AdminHelp},
};

const AdminCommand* FindCommand(std::string_view name) {
  for (const AdminCommand& command : kCommands) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

absl::Status UnknownCommand(const std::string& name) {
  return absl::InvalidArgumentError(
      absl::StrCat("no command is named \"", absl::CHexEscape(name), "\"; \"help\" lists them"));
}

}  // namespace

std::span<const AdminCommand> AdminCommands() {
  return kCommands;
}

absl::StatusOr<std::string> RunAdminCommand(AdminContext& context,
                                            const std::vector<std::string>& words) {
  if (words.empty()) return std::string();
  const AdminCommand* command = FindCommand(words[0]);
  if (command == nullptr) return UnknownCommand(words[0]);
  if (words.size() - 1 > command->max_arguments) {
    return absl::InvalidArgumentError(
        absl::StrCat("too many words; use: ", std::string(command->name),
                     command->arguments.empty() ? "" : " ", std::string(command->arguments)));
  }
  return command->run(context, words);
}

int AdminExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kInvalidArgument:
      return 2;
    case absl::StatusCode::kUnavailable:
      return 3;
    default:
      return 1;
  }
}

absl::StatusOr<std::string> ChosenVolume(AdminContext& context) {
  if (!context.volume.empty()) return context.volume;
  auto volumes = context.api.Volumes();
  if (!volumes.ok()) return volumes.status();
  if (volumes->volumes_size() == 1) return volumes->volumes(0).name();
  if (volumes->volumes_size() == 0) return absl::NotFoundError("this MDC serves no volume");
  return absl::InvalidArgumentError(absl::StrCat(
      "which volume? Choose one with --volume: ",
      absl::StrJoin(volumes->volumes(), ", ", [](std::string* out, const auto& volume) {
        absl::StrAppend(out, volume.name());
      })));
}

absl::Status Confirm(const AdminContext& context, const std::string& question) {
  if (!context.confirm || context.confirm(question)) return absl::OkStatus();
  return absl::CancelledError("nothing was done");
}

absl::StatusOr<std::string> AdminHelp(AdminContext& context,
                                      const std::vector<std::string>& words) {
  if (words.size() > 1 && FindCommand(words[1]) == nullptr) return UnknownCommand(words[1]);
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  Table table({{"command"}, {"what it shows"}});
  for (const AdminCommand& command : kCommands) {
    if (words.size() > 1 && command.name != words[1]) continue;
    const std::string usage =
        absl::StrCat(std::string(command.name), command.arguments.empty() ? "" : " ",
                     std::string(command.arguments));
    table.Add({usage, std::string(command.help)});
    json.push_back({{"command", usage}, {"help", std::string(command.help)}});
  }
  if (context.json) return JsonText({{"commands", std::move(json)}}) + "\n";
  return table.ToString();
}

}  // namespace reel::tools
