#include "tools/shell/run_command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ostream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tools/commands/command_table.h"
#include "tools/lib/cli.h"

namespace reel::tools {
namespace {

constexpr char kRed[] = "\033[1;31m", kYellow[] = "\033[33m", kPlain[] = "\033[0m";
// To the corner, and what was there is gone.
constexpr char kClear[] = "\033[H\033[2J";

std::string Printed(const AdminCommand& command, const Json& data, const RunOptions& options) {
  if (options.json) return JsonText(data) + "\n";
  const std::string text = command.text(data);
  return options.colours ? Coloured(text) : text;
}

std::string WatchHead(const Words& words, std::uint64_t seconds) {
  return absl::StrCat("Every ", seconds, " s: ", absl::StrJoin(words, " "), "   ",
                      absl::FormatTime("%H:%M:%S", absl::Now(), absl::LocalTimeZone()), "\n\n");
}

absl::Status Watch(AdminContext& context, const AdminCommand& command, const Words& words,
                   const RunOptions& options, std::ostream& out) {
  const std::uint64_t seconds = *options.watch_seconds;
  for (Json last; true;) {
    context.previous = last.is_null() ? nullptr : &last;
    absl::StatusOr<Json> data = RunForData(context, words);
    context.previous = nullptr;
    if (!data.ok() && last.is_null()) return data.status();
    if (options.screen) out << kClear << WatchHead(words, seconds);
    if (data.ok()) {
      out << Printed(command, *data, options);
      last = *std::move(data);
    } else {
      out << data.status().message() << "\n";
    }
    if (!options.screen && !options.json) out << "\n";
    out << std::flush;
    if (absl::Status s = context.wait(seconds); absl::IsCancelled(s)) return absl::OkStatus();
  }
}

}  // namespace

absl::Status TakeWatch(Words& words, RunOptions& options) {
  const auto watch = std::find(words.begin(), words.end(), "--watch");
  if (watch == words.end()) return absl::OkStatus();
  std::uint64_t seconds = 0;
  const bool given = watch + 1 != words.end() && absl::SimpleAtoi(*(watch + 1), &seconds);
  words.erase(watch, watch + (given ? 2 : 1));
  if (given && seconds == 0) return absl::InvalidArgumentError("--watch: at least 1 second");
  options.watch_seconds = given ? seconds : kWatchSeconds;
  return absl::OkStatus();
}

absl::Status TakeOptions(Words& words, RunOptions& options) {
  if (absl::Status s = TakeWatch(words, options); !s.ok()) return s;
  for (auto word = words.begin(); word != words.end();) {
    const bool json = *word == "--json";
    const bool yes = *word == "--yes" || *word == "-y";
    if (!json && !yes && absl::StartsWith(*word, "--")) {
      return absl::InvalidArgumentError(absl::StrCat("there is no option ", *word, " here; ",
                                                     "there are --json, --yes and --watch"));
    }
    options.json |= json;
    options.yes |= yes;
    word = json || yes ? words.erase(word) : word + 1;
  }
  return absl::OkStatus();
}

absl::Status RunAndPrint(AdminContext& context, const Words& words, const RunOptions& options,
                         std::ostream& out) {
  if (words.empty()) return absl::OkStatus();
  const AdminCommand* const command = FindCommand(words[0]);
  if (options.watch_seconds && command != nullptr) {
    if (command->watched) return Watch(context, *command, words, options, out);
    return absl::InvalidArgumentError(
        absl::StrCat(words[0], " shows nothing that --watch could repeat"));
  }
  const auto confirm = context.confirm;
  if (options.yes) context.confirm = nullptr;
  const absl::StatusOr<Json> data = RunForData(context, words);
  context.confirm = confirm;
  if (!data.ok()) return data.status();
  out << Printed(*command, *data, options) << std::flush;
  return absl::OkStatus();
}

std::string Coloured(const std::string& text) {
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (std::string& line : lines) {
    const bool alarm = absl::StartsWith(line, "ALARM:");
    const bool warning = absl::StartsWith(line, "Warning:") || absl::StartsWith(line, "IN MAINT");
    if (alarm || warning) line = absl::StrCat(alarm ? kRed : kYellow, line, kPlain);
  }
  return absl::StrJoin(lines, "\n");
}

bool MayColour(int descriptor) {
  const char* unwanted = std::getenv("NO_COLOR");
  return isatty(descriptor) != 0 && (unwanted == nullptr || *unwanted == '\0');
}

}  // namespace reel::tools
