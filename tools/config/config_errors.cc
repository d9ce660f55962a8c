#include "tools/config/config_errors.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "volume/base/toml_reader.h"

namespace reel::tools {
namespace {

constexpr std::size_t kMaxErrors = 100;

std::optional<std::size_t> LineOf(const std::string& message, const std::string& source) {
  if (!message.starts_with(source + ":")) return std::nullopt;
  const std::string rest = message.substr(source.size() + 1);
  std::size_t line = 0;
  if (!absl::SimpleAtoi(rest.substr(0, rest.find(':')), &line)) return std::nullopt;
  return line;
}

// Whether a value stands there: what is said about another line is about a whole table, which may
// lack what was taken out.
bool HoldsValue(const std::string& line) {
  const absl::string_view text = absl::StripAsciiWhitespace(line);
  return !text.empty() && text.front() != '#' && text.front() != '[';
}

}  // namespace

std::vector<std::string> ErrorsOf(const std::string& text, const std::string& source,
                                  const std::function<absl::Status(std::string_view)>& read) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  std::vector<std::string> errors;
  while (errors.size() < kMaxErrors) {
    const absl::Status status = read(absl::StrJoin(lines, "\n"));
    if (status.ok()) break;
    const std::string message(status.message());
    const std::optional<std::size_t> line = LineOf(message, source);
    const bool in_value =
        line && *line >= 1 && *line <= lines.size() && HoldsValue(lines[*line - 1]);
    if (errors.empty() || in_value) errors.push_back(message);
    if (!in_value) break;
    lines[*line - 1].clear();
    // (A line of several that make one value cannot be taken out alone.)
    if (!ParseToml(absl::StrJoin(lines, "\n"), source).ok()) break;
  }
  std::stable_sort(errors.begin(), errors.end(), [&](const auto& one, const auto& other) {
    return LineOf(one, source).value_or(0) < LineOf(other, source).value_or(0);
  });
  return errors;
}

}  // namespace reel::tools
