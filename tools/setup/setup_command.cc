#include "tools/setup/setup_command.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <iostream>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tools/lib/cli.h"
#include "tools/setup/setup_directory.h"
#include "tools/setup/setup_files.h"
#include "tools/setup/setup_questions.h"
#include "tools/setup/setup_steps.h"

namespace reel::tools {
namespace {

constexpr char kSetupProgram[] = "reeladm setup";

struct SetupArguments {
  SetupRequest request;
  std::vector<std::string> mdcs;  // as they were given
  SetupPlan wished;
  bool json = false;
};

int SetupFailed(const absl::Status& status) {
  PrintError(kSetupProgram, status);
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitFailed;
}

absl::Status CheckRenewed(const SetupRequest& request) {
  const std::vector<SetupHost> hosts = HostsOf(request.plan);
  for (const std::string& renewed : request.renew) {
    if (std::none_of(hosts.begin(), hosts.end(),
                     [&](const SetupHost& host) { return host.name == renewed; })) {
      return absl::InvalidArgumentError(absl::StrCat("--renew: ", renewed, " is not of the set"));
    }
  }
  return absl::OkStatus();
}

absl::Status Complete(SetupArguments& arguments) {
  SetupRequest& request = arguments.request;
  std::error_code error;
  request.directory = std::filesystem::absolute(request.directory, error).lexically_normal();
  while (request.directory.size() > 1 && request.directory.ends_with('/')) {
    request.directory.pop_back();
  }
  for (const std::string& mdc : arguments.mdcs) {
    auto controller = ParseController(mdc);
    if (!controller.ok()) return controller.status();
    arguments.wished.controllers.push_back(*std::move(controller));
  }
  auto stored = ReadSetupPlan(request.directory);
  if (!stored.ok()) return stored.status();
  const bool can_ask = isatty(STDIN_FILENO) != 0 && isatty(STDOUT_FILENO) != 0;
  if (!stored->has_value() && can_ask && !arguments.json) {
    if (absl::Status s = AskForPlan(arguments.wished, std::cin, std::cout); !s.ok()) return s;
  }
  if (stored->has_value()) request.stored = **std::move(stored);
  auto plan = ExtendPlan(request.stored, arguments.wished, request.force);
  if (!plan.ok()) return plan.status();
  request.plan = *std::move(plan);
  if (request.plan.etc.empty()) request.plan.etc = kEtc;
  if (absl::Status s = CheckPlan(request.plan); !s.ok()) return s;
  return CheckRenewed(request);
}

}  // namespace

int RunSetupCommand(int argc, char** argv) {
  SetupArguments arguments;
  SetupRequest& request = arguments.request;
  SetupPlan& wished = arguments.wished;
  CLI::App app(
      "Writes configuration and certificates for the hosts of a volume into a directory, one\n"
      "directory in it for each host, and says what to copy where and what to run next. Run again\n"
      "with more hosts, it adds them to the same set. On a terminal it asks for what is missing.",
      kSetupProgram);
  app.add_option("dir", request.directory, "the set's directory; keep it off the LAN")
      ->required()
      ->option_text("DIR");
  const auto repeated = [&](const char* flag, std::vector<std::string>& to, const char* text,
                            const char* help) {
    app.add_option(flag, to, help)->option_text(text)->expected(1)->take_all();
  };
  app.add_option("--volume", wished.volume, "the volume's name")->option_text("NAME");
  repeated("--mdc", arguments.mdcs, "HOST[:PORT][,NAME...]",
           "a controller's host, as clients dial it, and what else it is dialled by (repeatable)");
  repeated("--client", wished.clients, "HOST", "a client's host (repeatable)");
  repeated("--admin", wished.admins, "HOST",
           "a host to administer from, beside the controllers (repeatable)");
  repeated("--luns", wished.luns, "PATTERN", "where hosts look for LUNs (repeatable)");
  repeated("--metadata", wished.metadata_luns, "LUN",
           "a LUN of metadata alone, by label or path, for the volume's description (repeatable)");
  repeated("--data", wished.data_luns, "LUN",
           "a LUN of file data; without any, the volume is there already (repeatable)");
  app.add_option("--etc", wished.etc, "where the files will lie on the hosts (/etc/reelfs)")
      ->option_text("DIR");
  app.add_option("--days", request.days, "how long certificates hold (825)")
      ->check(CLI::Range(1, 36'500));
  repeated("--renew", request.renew, "HOST", "issue that host's certificates again (repeatable)");
  app.add_flag("--force", request.force,
               "change what the set says, and overwrite what was changed by hand");
  app.add_flag("--json", arguments.json, "print JSON");
  app.footer("Exit codes: 0 done; 1 failed, and nothing was overwritten; 2 wrong arguments.");
  if (const auto code = ParseArguments(app, argc, argv, kSetupProgram)) return *code;
  if (absl::Status s = Complete(arguments); !s.ok()) return SetupFailed(s);
  const auto outcome = WriteSetup(request);
  if (!outcome.ok()) return SetupFailed(outcome.status());
  std::cout << (arguments.json ? JsonText(SetupJson(request, *outcome)) + "\n"
                               : SetupText(request, *outcome));
  return 0;
}

}  // namespace reel::tools
