#include "tools/admin/admin_pki.h"

#include <cstdio>
#include <iostream>

#include "CLI/CLI.hpp"
#include "nlohmann/json.hpp"
#include "tools/admin/pki.h"
#include "tools/lib/cli.h"

namespace reel::tools {
namespace {

constexpr char kPkiProgram[] = "reeladm pki";
constexpr std::uint32_t kAuthorityDays = 3650;
constexpr std::uint32_t kCertificateDays = 825;

int Report(const absl::StatusOr<PkiFiles>& files, bool json) {
  if (!files.ok()) {
    PrintError(kPkiProgram, files.status());
    return absl::IsInvalidArgument(files.status()) ? kExitUsage : kExitFailed;
  }
  if (json) {
    std::cout << JsonText({{"certificate", files->certificate}, {"key", files->key}}) << "\n";
  } else {
    std::cout << files->certificate << "\n" << files->key << "\n";
  }
  return 0;
}

}  // namespace

int RunPkiCommand(int argc, char** argv) {
  std::string directory, role_name = "client";
  PkiRequest request;
  std::uint32_t days = 0;
  bool json = false;
  CLI::App app(
      "Makes the certificates by which controllers, clients and administrators know each "
      "other.\nNothing is ever overwritten; private keys are readable by their owner only.",
      kPkiProgram);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_flag("--json", json, "print JSON");
  CLI::App* init = app.add_subcommand("init", "make an authority: DIR/ca.crt and DIR/ca.key");
  CLI::App* issue =
      app.add_subcommand("issue", "make a certificate: DIR/NAME.crt and DIR/NAME.key");
  for (CLI::App* command : {init, issue}) {
    command->add_option("dir", directory, "the authority's directory; keep it off the LAN")
        ->required()
        ->option_text("DIR");
    command->add_option("--days", days, "how long it holds (authority: 3650, others: 825)")
        ->check(CLI::Range(1, 36'500));
  }
  issue->add_option("--role", role_name, "mdc, client or admin")->required()->option_text("ROLE");
  issue->add_option("--name", request.name, "what the holder is called")
      ->required()
      ->option_text("NAME");
  issue->add_option("--host", request.hosts, "a host name or address it is dialled by (repeatable)")
      ->option_text("HOST")
      ->allow_extra_args(false);
  if (const auto code = ParseArguments(app, argc, argv, kPkiProgram)) return *code;
  if (init->parsed()) return Report(InitPki(directory, days != 0 ? days : kAuthorityDays), json);
  const auto role = ParseRole(role_name);
  if (!role.ok()) return Report(role.status(), json);
  request.role = *role;
  request.days = days != 0 ? days : kCertificateDays;
  return Report(IssueCertificate(directory, request), json);
}

}  // namespace reel::tools
