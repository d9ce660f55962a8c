// What all tools' main functions share: exit codes by status, one line on stderr, where LUNs are.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

namespace CLI {
class App;
}

namespace reel::tools {

// Exit codes that all tools have; reeladm(8) and fsck.reelfs(8) have more.
inline constexpr int kExitFailed = 1, kExitUsage = 2;

// Where daemons and tools of a host look for LUNs when nobody says otherwise.
inline constexpr char kHostConfig[] = "/etc/reelfs/mdc.toml";

// "program: message" on stderr, as one line.
void PrintError(std::string_view program, const absl::Status& status);

// Indented JSON. Text that is not UTF-8 (a path may be anything) gets replacement characters.
std::string JsonText(const nlohmann::ordered_json& json);

// Parses the command line. Not null: the program ends with that, as help was asked for, or one line
// on stderr has said what is wrong.
std::optional<int> ParseArguments(CLI::App& app, int argc, char** argv, const char* program);

// The log goes to stderr, warnings and worse.
void LogToStderr(std::string_view program);

// `luns` when there are any; else those of `config` (kHostConfig where it is empty); else those of
// the shared file beside that (volume/base/shared_config.h). NOT_FOUND when there is nothing to go
// by.
absl::StatusOr<std::vector<std::string>> LunPatterns(const std::vector<std::string>& luns,
                                                     const std::string& config);

}  // namespace reel::tools
