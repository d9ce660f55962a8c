#include "tools/pki/pki_command.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tools/lib/cli.h"
#include "tools/lib/table.h"
#include "tools/pki/pki.h"
#include "tools/pki/pki_life.h"

namespace reel::tools {
namespace {

using PkiJson = nlohmann::ordered_json;

constexpr char kPkiProgram[] = "reeladm pki";
constexpr std::uint32_t kAuthorityDays = 3650;
constexpr std::uint32_t kCertificateDays = 825;
constexpr std::int64_t kSecondsOfADay = 86'400;

struct PkiArguments {
  std::string directory;
  std::string role = "client";
  PkiRequest request;                // of issue
  std::vector<std::string> holders;  // of renew
  std::string holder, serial;        // of revoke
  std::uint32_t days = 0;
  std::uint32_t within_days = kRenewWithinDays;
  bool json = false;
};

int Complain(const absl::Status& status) {
  PrintError(kPkiProgram, status);
  return absl::IsInvalidArgument(status) ? kExitUsage : kExitFailed;
}

int Report(const absl::StatusOr<PkiFiles>& files, bool json) {
  if (!files.ok()) return Complain(files.status());
  if (json) {
    std::cout << JsonText({{"certificate", files->certificate}, {"key", files->key}}) << "\n";
  } else {
    std::cout << files->certificate << "\n" << files->key << "\n";
  }
  return 0;
}

std::string StateOf(const IssuedCertificate& one) {
  if (!one.revoked.empty()) return absl::StrCat("revoked ", one.revoked);
  if (one.replaced) return "replaced";
  if (one.seconds_left <= 0) return "expired";
  return one.seconds_left < kRenewWithinDays * kSecondsOfADay ? "ends soon" : "in use";
}

int List(const PkiArguments& arguments) {
  const auto list = ListCertificates(arguments.directory);
  if (!list.ok()) return Complain(list.status());
  constexpr Table::Align kRight = Table::Align::kRight;
  Table table({{"name"},
               {"role"},
               {"from"},
               {"until"},
               {"days", kRight},
               {"state"},
               {"number"},
               {"hosts"}});
  PkiJson json = PkiJson::array();
  for (const IssuedCertificate& one : *list) {
    const std::int64_t days = one.seconds_left / kSecondsOfADay;
    table.Add({one.name, one.role, one.begins, one.ends, absl::StrCat(days), StateOf(one),
               one.serial, one.hosts == "none" ? "-" : one.hosts});
    json.push_back({{"name", one.name},
                    {"role", one.role},
                    {"serial", one.serial},
                    {"hosts", one.hosts == "none" ? "" : one.hosts},
                    {"from", one.begins},
                    {"until", one.ends},
                    {"days_left", days},
                    {"state", StateOf(one)},
                    {"revoked", one.revoked.empty() ? PkiJson() : PkiJson(one.revoked)},
                    {"replaced", one.replaced},
                    {"file", one.file.empty() ? PkiJson() : PkiJson(one.file)}});
  }
  std::cout << (arguments.json ? JsonText({{"certificates", json}}) + "\n" : table.ToString());
  return 0;
}

int Renew(const PkiArguments& arguments) {
  const auto renewed =
      RenewCertificates(arguments.directory, arguments.holders, arguments.within_days,
                        arguments.days != 0 ? arguments.days : kCertificateDays);
  if (!renewed.ok()) return Complain(renewed.status());
  PkiJson json = PkiJson::array();
  for (const Renewed& one : *renewed) {
    json.push_back({{"name", one.name}, {"certificate", one.file}, {"until", one.ends}});
    if (!arguments.json)
      std::cout << one.file << "  (" << one.name << ", until " << one.ends << ")\n";
  }
  if (arguments.json) {
    std::cout << JsonText({{"renewed", json}}) << "\n";
  } else if (renewed->empty()) {
    std::cout << "nothing ends within " << arguments.within_days << " days\n";
  } else {
    std::cout << "copy each to its host, in place of the old one; the key stays, and nothing has "
                 "to be restarted\n";
  }
  return 0;
}

int Revoke(const PkiArguments& arguments) {
  std::string serial = arguments.serial;
  std::transform(serial.begin(), serial.end(), serial.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto revoked = RevokeCertificates(arguments.directory, arguments.holder, serial);
  if (!revoked.ok()) return Complain(revoked.status());
  if (arguments.json) {
    std::cout << JsonText({{"list", revoked->list}, {"revoked", revoked->serials}}) << "\n";
    return 0;
  }
  for (const std::string& one : revoked->serials) std::cout << "revoked " << one << "\n";
  std::cout << revoked->list
            << "\ncopy it to every controller, beside the file that tls_ca names "
               "(ca.crt: ca.crl); within two seconds it counts\n";
  return 0;
}

}  // namespace

int RunPkiCommand(int argc, char** argv) {
  PkiArguments arguments;
  CLI::App app(
      "Makes the certificates by which controllers, clients and administrators know each other,\n"
      "lists, renews and revokes them. Private keys are readable by their owner only.",
      kPkiProgram);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_flag("--json", arguments.json, "print JSON");
  CLI::App* init = app.add_subcommand("init", "make an authority: DIR/ca.crt and DIR/ca.key");
  CLI::App* issue =
      app.add_subcommand("issue", "make a certificate: DIR/NAME.crt and DIR/NAME.key");
  CLI::App* list = app.add_subcommand("list", "what the authority has issued, with dates");
  CLI::App* renew = app.add_subcommand(
      "renew", "replace certificates by ones that end later, with the same keys");
  CLI::App* revoke =
      app.add_subcommand("revoke", "shut a holder out: DIR/ca.crl, for the controllers");
  for (CLI::App* command : {init, issue, list, renew, revoke}) {
    command
        ->add_option("dir", arguments.directory, "the authority's directory; keep it off the LAN")
        ->required()
        ->option_text("DIR");
  }
  for (CLI::App* command : {init, issue, renew}) {
    command
        ->add_option("--days", arguments.days, "how long it holds (authority: 3650, others: 825)")
        ->check(CLI::Range(1, 36'500));
  }
  issue->add_option("--role", arguments.role, "mdc, client, admin or monitor")
      ->required()
      ->option_text("ROLE");
  issue->add_option("--name", arguments.request.name, "what the holder is called")
      ->required()
      ->option_text("NAME");
  issue
      ->add_option("--host", arguments.request.hosts,
                   "a host name or address it is dialled by (repeatable)")
      ->option_text("HOST")
      ->allow_extra_args(false);
  renew->add_option("name", arguments.holders, "whose; without: of all that end soon")
      ->option_text("NAME...");
  renew->add_option("--within", arguments.within_days, "what soon is, in days (30)")
      ->check(CLI::Range(1, 36'500));
  revoke->add_option("name", arguments.holder, "whose: all that were issued by that name")
      ->required()
      ->option_text("NAME");
  revoke->add_option("--serial", arguments.serial, "only the one of that number (see list)")
      ->option_text("NUMBER");
  if (const auto code = ParseArguments(app, argc, argv, kPkiProgram)) return *code;
  if (list->parsed()) return List(arguments);
  if (renew->parsed()) return Renew(arguments);
  if (revoke->parsed()) return Revoke(arguments);
  const std::uint32_t days = arguments.days;
  if (init->parsed()) {
    return Report(InitPki(arguments.directory, days != 0 ? days : kAuthorityDays), arguments.json);
  }
  const auto role = ParseRole(arguments.role);
  if (!role.ok()) return Complain(role.status());
  arguments.request.role = *role;
  arguments.request.days = days != 0 ? days : kCertificateDays;
  return Report(IssueCertificate(arguments.directory, arguments.request), arguments.json);
}

}  // namespace reel::tools
