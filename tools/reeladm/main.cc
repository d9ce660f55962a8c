// reeladm: the administration shell, interactive or one command.
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "tools/admin/admin_api.h"
#include "tools/admin/admin_commands.h"
#include "tools/admin/admin_config.h"
#include "tools/admin/admin_pki.h"
#include "tools/admin/admin_shell.h"
#include "tools/config/config_command.h"
#include "tools/doctor/doctor_command.h"
#include "tools/lib/cli.h"
#include "tools/setup/setup_command.h"

namespace reel::tools {
namespace {

constexpr char kProgram[] = "reeladm";

// Commands with options of their own, which ask no controller.
struct Family {
  std::string_view name;
  int (*run)(int argc, char** argv);
};
constexpr Family kFamilies[] = {{"config", RunConfigCommand},
                                {"doctor", RunDoctorCommand},
                                {"pki", RunPkiCommand},
                                {"setup", RunSetupCommand}};

std::string CommandsText() {
  std::string text = "\nCommands (none: an interactive shell):\n";
  for (const AdminCommand& command : AdminCommands()) {
    const std::string usage = std::string(command.name) + " " + std::string(command.arguments);
    text += "  " + usage + std::string(usage.size() < 18 ? 18 - usage.size() : 1, ' ') +
            std::string(command.help) + "\n";
  }
  return text +
         "\nCommands without a controller (each has --help):\n"
         "  setup DIR         make configuration and certificates for a volume's hosts\n"
         "  config check|show what is wrong with this host's configuration, and what holds\n"
         "  doctor            look at this host from end to end, and say what to do\n"
         "  pki init|issue|list|renew|revoke\n"
         "                    make the certificates for TLS, list, renew and revoke them\n\n"
         "Exit codes: 0 done; 1 failed; 2 wrong arguments, configuration or certificate;\n"
         "3 the MDC is not reachable.\n";
}

int Main(int argc, char** argv) {
  if (argc > 1) {
    for (const Family& family : kFamilies) {
      if (family.name == argv[1]) return family.run(argc - 1, argv + 1);
    }
  }
  AdminConfig given;
  std::string config;
  std::uint32_t timeout_ms = 10'000;
  bool json = false;
  bool yes = false;
  std::vector<std::string> words;
  CLI::App app("Administers ReelFS.", kProgram);
  app.set_version_flag("-V,--version", "reeladm " REEL_VERSION);
  app.add_option(
      "-m,--mdc", given.mdc,
      "HOST[:PORT] of the MDC, or of all, separated by commas (or $REELADM_MDC; else the "
      "one on this host)");
  app.add_option("-v,--volume", given.volume, "the volume (needed where there are several)");
  app.add_option("-c,--config", config, std::string("default: ") + kAdminConfig);
  app.add_option("--tls-ca", given.tls.ca, "the authority's certificate, PEM");
  app.add_option("--tls-cert", given.tls.cert, "a certificate with the role admin, PEM");
  app.add_option("--tls-key", given.tls.key, "its private key, PEM");
  app.add_option("--timeout-ms", timeout_ms, "how long to wait for an answer")
      ->check(CLI::Range(1, 3'600'000));
  app.add_flag("--json", json, "print JSON");
  app.add_flag(
      "-y,--yes", yes,
      "do not ask before stop, evict and dump release; only who types at a terminal is asked");
  app.add_option("command", words, "a command and its arguments")->option_text("COMMAND …");
  app.footer(CommandsText());
  if (const auto code = ParseArguments(app, argc, argv, kProgram)) return *code;
  LogToStderr(kProgram);
  auto chosen = CompleteAdminConfig(given, config);
  if (!chosen.ok()) {
    PrintError(kProgram, chosen.status());
    return AdminExitCode(chosen.status());
  }
  auto tls = LoadTls(chosen->tls, TlsRole::kAdmin);
  if (!tls.ok()) {
    PrintError(kProgram, tls.status());
    return kExitUsage;
  }
  const std::unique_ptr<AdminApi> api = ConnectAdmin(chosen->mdcs, timeout_ms, *std::move(tls));
  AdminContext context{.api = *api, .volume = chosen->volume, .json = json};
  if (!yes && CanAsk()) context.confirm = AskOnTerminal;
  if (words.empty()) return RunAdminShell(context);
  auto outcome = RunAdminCommand(context, words);
  if (!outcome.ok()) {
    PrintError(kProgram, outcome.status());
    return AdminExitCode(outcome.status());
  }
  std::cout << *outcome;
  return 0;
}

}  // namespace
}  // namespace reel::tools

int main(int argc, char** argv) {
  return reel::tools::Main(argc, argv);
}
