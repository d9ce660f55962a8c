#include "tools/lib/cli.h"

#include <cstdio>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"
#include "tools/lib/volume_toml.h"
#include "volume/base/shared_config.h"

namespace reel::tools {

void PrintError(std::string_view program, const absl::Status& status) {
  const std::string line = absl::StrReplaceAll(status.message(), {{"\n", " "}, {"\r", " "}});
  std::fprintf(stderr, "%s: %s\n", std::string(program).c_str(), line.c_str());
}

std::string JsonText(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::optional<int> ParseArguments(CLI::App& app, int argc, char** argv, const char* program) {
  try {
    app.parse(argc, argv);
    return std::nullopt;
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    std::fprintf(stderr, "%s: %s; see %s --help\n", program, e.what(), program);
    return kExitUsage;
  }
}

void LogToStderr(std::string_view program) {
  spdlog::drop(std::string(program));  // a shell runs its programs more than once
  auto logger = spdlog::stderr_logger_mt(std::string(program));
  logger->set_pattern("%n: %v");
  logger->set_level(spdlog::level::warn);
  spdlog::set_default_logger(std::move(logger));
}

absl::StatusOr<std::vector<std::string>> LunPatterns(const std::vector<std::string>& luns,
                                                     const std::string& config) {
  if (!luns.empty()) return luns;
  const std::string own = config.empty() ? kHostConfig : config;
  auto patterns = ReadLunPatterns(own);
  const bool absent = config.empty() && absl::IsNotFound(patterns.status());
  if (!patterns.ok() && !absent) return patterns;
  if (patterns.ok() && !patterns->empty()) return patterns;
  const std::string beside = SharedConfigBeside(own);
  const auto shared = ReadSharedConfig(beside);
  if (!shared.ok()) return shared.status();
  if (!shared->luns.empty()) return shared->lun_patterns();
  return absl::NotFoundError(
      absl::StrCat("where are the LUNs? Give --luns 'GLOB', or write luns = [\"GLOB\"] into ",
                   beside, config.empty() ? "" : absl::StrCat(" or ", config)));
}

}  // namespace reel::tools
