#include "tools/config/config_report.h"

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tools/lib/table.h"

namespace reel::tools {

std::string CheckText(const HostConfig& config) {
  std::string text;
  for (const ConfigFile& file : config.files) {
    if (!file.present && file.ok()) continue;
    for (const std::string& error : file.AllErrors()) absl::StrAppend(&text, error, "\n");
    for (const std::string& warning : file.warnings) {
      absl::StrAppend(&text, warning, " (warning)\n");
    }
    if (file.ok() && file.warnings.empty()) absl::StrAppend(&text, file.path, ": ok\n");
  }
  return text;
}

nlohmann::ordered_json CheckJson(const HostConfig& config) {
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  for (const ConfigFile& file : config.files) {
    if (!file.present && file.ok()) continue;
    files.push_back({{"path", file.path},
                     {"ok", file.ok()},
                     {"errors", file.AllErrors()},
                     {"warnings", file.warnings}});
  }
  return {{"directory", config.directory}, {"ok", !config.any_error()}, {"files", files}};
}

std::string ValuesText(const std::vector<ConfigValue>& values) {
  Table table({{"PROGRAM"}, {"KEY"}, {"VALUE"}, {"FROM"}});
  for (const ConfigValue& value : values) {
    if (value.values.empty()) table.Add({value.program, value.key, "-", value.from});
    // One line for each of a list: URLs are long.
    for (std::size_t i = 0; i < value.values.size(); ++i) {
      const std::string text = value.values[i].empty() ? "-" : value.values[i];
      if (i == 0) {
        table.Add({value.program, value.key, text, value.from});
      } else {
        table.Add({"", "", text, ""});
      }
    }
  }
  return table.ToString();
}

nlohmann::ordered_json ValuesJson(const std::vector<ConfigValue>& values) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const ConfigValue& value : values) {
    nlohmann::ordered_json entry = {{"program", value.program}, {"key", value.key}};
    if (value.list) {
      entry["value"] = value.values;
    } else {
      entry["value"] = value.values.front();
    }
    entry["from"] = value.from;
    json.push_back(std::move(entry));
  }
  return json;
}

}  // namespace reel::tools
