#include "tools/config/config_command.h"

#include <iostream>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tools/config/config_report.h"
#include "tools/lib/cli.h"

namespace reel::tools {
namespace {

constexpr char kConfigProgram[] = "reeladm config";

int CheckConfig(const HostConfig& config, bool json) {
  std::cout << (json ? JsonText(CheckJson(config)) + "\n" : CheckText(config));
  return config.any_error() ? kExitFailed : 0;
}

int ShowConfig(const HostConfig& config, bool json) {
  const std::vector<ConfigValue> values = ValuesOf(config);
  std::cout << (json ? JsonText(ValuesJson(values)) + "\n" : ValuesText(values));
  // What cannot be read is not in the table.
  for (const ConfigFile& file : config.files) {
    for (const std::string& error : file.AllErrors()) {
      PrintError(kConfigProgram, absl::InvalidArgumentError(error));
    }
  }
  return config.any_error() ? kExitFailed : 0;
}

}  // namespace

int RunConfigCommand(int argc, char** argv) {
  std::string directory = kConfigDirectory;
  bool json = false;
  CLI::App app("Looks at the configuration files of this host as its programs read them.",
               kConfigProgram);
  app.require_subcommand(1);
  app.fallthrough();
  app.add_option("--dir", directory, "where the files lie (/etc/reelfs)")->option_text("DIR");
  app.add_flag("--json", json, "print JSON");
  CLI::App* check =
      app.add_subcommand("check", "say what is wrong, with file and line; certificates as well");
  app.add_subcommand("show", "say what each program goes by, and where that is from");
  app.footer("Exit codes: 0 nothing is wrong; 1 something is; 2 wrong arguments.");
  if (const auto code = ParseArguments(app, argc, argv, kConfigProgram)) return *code;
  const HostConfig config = ReadHostConfig(directory);
  if (!config.any_file()) {
    PrintError(kConfigProgram, absl::NotFoundError(absl::StrCat(
                                   directory,
                                   " holds none of reelfs.toml, mdc.toml, client.toml, "
                                   "reeladm.toml; reeladm setup makes them")));
    return kExitFailed;
  }
  return check->parsed() ? CheckConfig(config, json) : ShowConfig(config, json);
}

}  // namespace reel::tools
