#include "tools/shell/shell.h"

#include <unistd.h>

#include <iostream>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tools/commands/command_table.h"
#include "tools/lib/cli.h"
#include "tools/shell/line_reader.h"
#include "tools/shell/run_command.h"

namespace reel::tools {
namespace {

int RunFamily(const Family& family, Words words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  return family.run(static_cast<int>(words.size()), arguments.data());
}

// The exit code.
int RunLine(AdminContext& context, const std::vector<Family>& families, const std::string& line) {
  auto words = SplitWords(line);
  RunOptions options{.watch_seconds = {},
                     .json = context.json,
                     .screen = isatty(STDOUT_FILENO) != 0,
                     .colours = MayColour(STDOUT_FILENO)};
  absl::Status status = words.status();
  if (status.ok()) {
    if (const Family* family = FamilyOf(families, *words)) return RunFamily(*family, *words);
    status = TakeOptions(*words, options);
  }
  if (status.ok()) status = RunAndPrint(context, *words, options, std::cout);
  if (!status.ok()) PrintError("reeladm", status);
  return AdminExitCode(status);
}

}  // namespace

const Family* FamilyOf(const std::vector<Family>& families, const Words& words) {
  if (words.empty() || (words.size() > 1 && words[0] == "config" && words[1] == "running")) {
    return nullptr;
  }
  for (const Family& family : families) {
    if (family.name == words[0]) return &family;
  }
  return nullptr;
}

int RunAdminShell(AdminContext& context, const std::vector<Family>& families) {
  std::vector<std::string> more = {"quit", "exit"};
  for (const Family& family : families) more.emplace_back(family.name);
  LineReader reader(context, more);
  if (reader.terminal()) {
    context.wait = WaitForInterrupt;
    std::cout << "\"help\" lists the commands, \"quit\" ends.\n";
  }
  for (;;) {
    const std::optional<std::string> line = reader.Next(
        context.volume.empty() ? "reeladm> " : absl::StrCat("reeladm ", context.volume, "> "));
    if (!line.has_value()) return 0;
    const std::string text(absl::StripAsciiWhitespace(*line));
    if (text.empty() || text[0] == '#') continue;
    if (text == "quit" || text == "exit") return 0;
    const int code = RunLine(context, families, *line);
    if (code != 0 && !reader.terminal()) return code;
  }
}

}  // namespace reel::tools
