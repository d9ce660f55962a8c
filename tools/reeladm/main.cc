// reeladm: the administration shell, interactive or one command.
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "tools/admin/admin_api.h"
#include "tools/admin/admin_config.h"
#include "tools/commands/command_table.h"
#include "tools/config/config_command.h"
#include "tools/doctor/doctor_command.h"
#include "tools/lib/cli.h"
#include "tools/pki/pki_command.h"
#include "tools/setup/setup_command.h"
#include "tools/shell/line_reader.h"
#include "tools/shell/run_command.h"
#include "tools/shell/shell.h"

namespace reel::tools {
namespace {

constexpr char kProgram[] = "reeladm";

const std::vector<Family>& Families() {
  static const auto& families = *new std::vector<Family>{{"config", RunConfigCommand},
                                                         {"doctor", RunDoctorCommand},
                                                         {"pki", RunPkiCommand},
                                                         {"setup", RunSetupCommand}};
  return families;
}

std::string CommandsText() {
  std::string text = "\nCommands (none: an interactive shell):\n";
  for (const AdminCommand& command : AllCommands()) {
    if (command.name == "config") continue;  // below, with its family
    const std::string usage = std::string(command.name) + " " + std::string(command.usage);
    text += "  " + usage + std::string(usage.size() < 18 ? 18 - usage.size() : 1, ' ') +
            std::string(command.help) + "\n";
  }
  return text +
         "\nCommands without a controller (each has --help):\n"
         "  setup DIR         make configuration and certificates for a volume's hosts\n"
         "  config check|show|running\n"
         "                    what is wrong with this host's configuration, and what holds; what\n"
         "                    the MDCs of the volume go by (this one asks them)\n"
         "  doctor            look at this host from end to end, and say what to do\n"
         "  pki init|issue|list|renew|revoke\n"
         "                    make the certificates for TLS, list, renew and revoke them\n\n"
         "Exit codes: 0 done; 1 failed; 2 wrong arguments, configuration or certificate;\n"
         "3 the MDC is not reachable.\n";
}

// As CLI11 takes it: the words and options that it knows.
struct Given {
  AdminConfig admin;
  std::string config;
  std::uint32_t timeout_ms = 10'000;
  RunOptions run;
  bool watch = false;  // for the help alone: it is taken out before
  Words words;
};

void AddOptions(CLI::App& app, Given& given) {
  AdminConfig& admin = given.admin;
  app.set_version_flag("-V,--version", "reeladm " REEL_VERSION);
  app.add_option(
      "-m,--mdc", admin.mdc,
      "HOST[:PORT] of the MDC, or of all, separated by commas (or $REELADM_MDC; else the "
      "one on this host)");
  app.add_option("-v,--volume", admin.volume, "the volume (needed where there are several)");
  app.add_option("-c,--config", given.config, std::string("default: ") + kAdminConfig);
  app.add_option("--tls-ca", admin.tls.ca, "the authority's certificate, PEM");
  app.add_option("--tls-cert", admin.tls.cert, "a certificate with the role admin, PEM");
  app.add_option("--tls-key", admin.tls.key, "its private key, PEM");
  app.add_option("--timeout-ms", given.timeout_ms, "how long to wait for an answer")
      ->check(CLI::Range(1, 3'600'000));
  app.add_flag("--json", given.run.json, "print JSON");
  app.add_flag("--watch", given.watch,
               "[SECONDS]: show again every 2 seconds, or as many as follow, with rates");
  app.add_flag(
      "-y,--yes", given.run.yes,
      "do not ask before stop, evict and dump release; only who types at a terminal is asked");
  app.add_option("command", given.words, "a command and its arguments")->option_text("COMMAND …");
  app.footer(CommandsText());
}

int Run(AdminContext& context, const Given& given) {
  if (given.words.empty()) return RunAdminShell(context, Families());
  const absl::Status status = RunAndPrint(context, given.words, given.run, std::cout);
  if (!status.ok()) PrintError(kProgram, status);
  return AdminExitCode(status);
}

int Complain(const absl::Status& status) {
  PrintError(kProgram, status);
  return AdminExitCode(status);
}

int Main(int argc, char** argv) {
  Words arguments(argv + 1, argv + argc);
  if (const Family* family = FamilyOf(Families(), arguments))
    return family->run(argc - 1, argv + 1);
  Given given;
  given.run.screen = isatty(STDOUT_FILENO) != 0;
  given.run.colours = MayColour(STDOUT_FILENO);
  if (absl::Status s = TakeWatch(arguments, given.run); !s.ok()) return Complain(s);
  std::vector<char*> left = {argv[0]};
  for (std::string& argument : arguments) left.push_back(argument.data());
  CLI::App app("Administers ReelFS.", kProgram);
  AddOptions(app, given);
  if (const auto code = ParseArguments(app, static_cast<int>(left.size()), left.data(), kProgram)) {
    return *code;
  }
  LogToStderr(kProgram);
  auto chosen = CompleteAdminConfig(given.admin, given.config);
  if (!chosen.ok()) return Complain(chosen.status());
  auto tls = LoadTls(chosen->tls, TlsRole::kAdmin);
  if (!tls.ok()) {
    PrintError(kProgram, tls.status());
    return kExitUsage;
  }
  const std::unique_ptr<AdminApi> api =
      ConnectAdmin(chosen->mdcs, given.timeout_ms, *std::move(tls));
  AdminContext context{.api = *api, .volume = chosen->volume, .json = given.run.json};
  if (!given.run.yes && CanAsk()) context.confirm = AskOnTerminal;
  return Run(context, given);
}

}  // namespace
}  // namespace reel::tools

int main(int argc, char** argv) {
  return reel::tools::Main(argc, argv);
}
