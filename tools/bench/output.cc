#include <ctime>
#include <iostream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tools/bench/commands.h"
#include "tools/lib/cli.h"
#include "tools/lib/text_file.h"
#include "volume/base/host_name.h"
#include "volume/base/size.h"

namespace reel::bench {
namespace {

constexpr mode_t kReportMode = 0644;

std::string LocalTime() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  localtime_r(&now, &local);
  char text[64];
  return std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S %Z", &local) > 0 ? text : "";
}

}  // namespace

void Output::AddTo(CLI::App& command) {
  command.add_flag("--json", json, "machine-readable");
  command.add_option("--html", html, "write a report with plots into this file");
  command.add_flag("--quiet", quiet, "no progress on stderr");
}

absl::Status Print(const Output& output, const Findings& findings) {
  if (!output.html.empty()) {
    HtmlReport report(findings.title, absl::StrCat("reel-bench " REEL_VERSION " on ", HostName(),
                                                   ", ", LocalTime()));
    findings.html(report);
    if (absl::Status s = tools::WriteTextFile(output.html, report.ToString(), kReportMode);
        !s.ok()) {
      return s;
    }
  }
  std::cout << (output.json ? tools::JsonText(findings.json) + "\n" : findings.text);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::uint64_t>> ParseSizes(const std::string& text) {
  std::vector<std::uint64_t> sizes;
  for (const auto& one : absl::StrSplit(text, ',')) {
    const auto size = ParseSize(std::string(one));
    if (!size.ok()) return size.status();
    sizes.push_back(*size);
  }
  return sizes;
}

}  // namespace reel::bench
