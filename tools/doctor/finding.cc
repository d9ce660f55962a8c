#include "tools/doctor/finding.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"

namespace reel::tools {
namespace {

const char* LevelName(Finding::Level level) {
  switch (level) {
    case Finding::Level::kOk:
      return "ok";
    case Finding::Level::kWarning:
      return "warning";
    case Finding::Level::kFailure:
      return "failure";
  }
  return "?";
}

long CountOf(const std::vector<Finding>& findings, Finding::Level level) {
  return std::count_if(findings.begin(), findings.end(),
                       [level](const Finding& finding) { return finding.level == level; });
}

std::string Padded(std::string text, std::size_t width) {
  text.resize(std::max(text.size(), width), ' ');
  return text;
}

}  // namespace

std::string FindingsText(const std::vector<Finding>& findings) {
  std::string text;
  for (const Finding& finding : findings) {
    const std::string line =
        absl::StrCat(Padded(LevelName(finding.level), 8), Padded(finding.check, 14),
                     finding.subject, finding.subject.empty() ? "" : ": ", finding.text,
                     finding.todo.empty() ? "" : "; ", finding.todo);
    absl::StrAppend(&text, absl::StrReplaceAll(line, {{"\n", " "}, {"\r", " "}}), "\n");
  }
  return absl::StrCat(text, CountOf(findings, Finding::Level::kFailure), " failures, ",
                      CountOf(findings, Finding::Level::kWarning), " warnings, ",
                      CountOf(findings, Finding::Level::kOk), " ok\n");
}

nlohmann::ordered_json FindingsJson(const std::vector<Finding>& findings) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding& finding : findings) {
    list.push_back({{"level", LevelName(finding.level)},
                    {"check", finding.check},
                    {"subject", finding.subject},
                    {"text", finding.text},
                    {"todo", finding.todo}});
  }
  return {{"ok", !AnyFailure(findings)}, {"findings", list}};
}

bool AnyFailure(const std::vector<Finding>& findings) {
  return CountOf(findings, Finding::Level::kFailure) > 0;
}

}  // namespace reel::tools
