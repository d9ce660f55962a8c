// The subcommands of reel-bench: each adds itself to the command line, and is run when it was
// given. Thread rule: one thread.
#pragma once

#include <functional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "tools/bench/plot/html_report.h"

namespace reel::bench {

inline constexpr char kProgram[] = "reel-bench";
// Exit status: measured, but not what was required; or slower than the other result.
inline constexpr int kNotEnough = 3;

struct Command {
  CLI::App* app = nullptr;
  // The exit status. INVALID_ARGUMENT: wrong arguments, any other error: it failed.
  std::function<absl::StatusOr<int>()> run;
};

Command AddIo(CLI::App& program);
Command AddMeta(CLI::App& program);
Command AddQos(CLI::App& program);
Command AddFrames(CLI::App& program);
Command AddSweep(CLI::App& program);
Command AddCompare(CLI::App& program);

// How a command says what it found.
struct Output {
  bool json = false, quiet = false;
  std::string html;  // a file; empty: none

  void AddTo(CLI::App& command);
};
struct Findings {
  std::string title;
  std::string text;
  nlohmann::ordered_json json;
  std::function<void(HtmlReport&)> html;
};
// To stdout, and into the HTML file.
absl::Status Print(const Output& output, const Findings& findings);

// "64KiB,1MiB": sizes with commas between them. INVALID_ARGUMENT.
absl::StatusOr<std::vector<std::uint64_t>> ParseSizes(const std::string& text);

}  // namespace reel::bench
