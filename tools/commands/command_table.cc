#include "tools/commands/command_table.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tools/commands/usage.h"
#include "tools/commands/view.h"
#include "tools/lib/cli.h"

namespace reel::tools {
namespace {

// Names by which people of other file systems, and of older releases, look for a command.
struct Alias {
  std::string_view name, command;
};
constexpr Alias kAliases[] = {{"sessions", "who"}, {"repfl", "locks"}, {"volume", "select"}};

AdminCommands Gathered() {
  AdminCommands all;
  for (AdminCommands family :
       {VolumeCommands(), TrafficCommands(), SessionCommands(), FileCommands(), LockCommands(),
        SeatCommands(), AffinityCommands(), QuotaCommands(), QosCommands(), DumpCommands(),
        JobCommands(), AdminCommands{ScrubCommand(), FreeCommand()}, MapCommands(),
        MeasureCommands(), DaemonCommands(), BundleCommands(), HelpCommands()}) {
    std::move(family.begin(), family.end(), std::back_inserter(all));
  }
  return all;
}

absl::Status UnknownCommand(const std::string& name) {
  return absl::InvalidArgumentError(
      absl::StrCat("no command is named \"", absl::CHexEscape(name), "\"; \"help\" lists them"));
}

std::string UsageOf(const AdminCommand& command) {
  return absl::StrCat(std::string(command.name), command.usage.empty() ? "" : " ",
                      std::string(command.usage));
}

absl::StatusOr<Json> Help(AdminContext&, const Words& words) {
  if (words.size() > 1 && FindCommand(words[1]) == nullptr) return UnknownCommand(words[1]);
  Json commands = Json::array();
  for (const AdminCommand& command : AllCommands()) {
    if (words.size() > 1 && &command != FindCommand(words[1])) continue;
    Json examples = Json::array();
    for (const std::string_view example : command.examples) examples.push_back(example);
    Json aliases = Json::array();
    for (const Alias& alias : kAliases) {
      if (alias.command == command.name) aliases.push_back(alias.name);
    }
    commands.push_back({{"command", UsageOf(command)},
                        {"aliases", std::move(aliases)},
                        {"help", command.help},
                        {"examples", std::move(examples)}});
  }
  return Json{{"commands", std::move(commands)}};
}

std::string HelpText(const Json& json) {
  const Json& commands = json["commands"];
  std::string text = TableOf(commands, {{"command", "command"}, {"what it does", "help"}});
  if (commands.size() > 1) return text;
  for (const Json& alias : commands[0]["aliases"]) {
    absl::StrAppend(&text, "Also called ", alias.get<std::string>(), ".\n");
  }
  for (const Json& example : commands[0]["examples"]) {
    absl::StrAppend(&text, "\n  reeladm ", example.get<std::string>());
  }
  return commands[0]["examples"].empty() ? text : text + "\n";
}

}  // namespace

AdminCommands HelpCommands() {
  return {{.name = "help",
           .usage = "[COMMAND]",
           .help = "all commands, or one with examples",
           .run = Help,
           .text = HelpText,
           .examples = {"help stat"}}};
}

const AdminCommands& AllCommands() {
  static const AdminCommands& all = *new AdminCommands(Gathered());
  return all;
}

const AdminCommand* FindCommand(std::string_view name) {
  for (const Alias& alias : kAliases) {
    if (alias.name == name) return FindCommand(alias.command);
  }
  for (const AdminCommand& command : AllCommands()) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

std::vector<std::string_view> AliasNames() {
  std::vector<std::string_view> names;
  for (const Alias& alias : kAliases) names.push_back(alias.name);
  return names;
}

absl::StatusOr<Json> RunForData(AdminContext& context, const Words& words) {
  const AdminCommand* command = FindCommand(words.at(0));
  if (command == nullptr) return UnknownCommand(words[0]);
  if (!MatchesUsage(command->usage, {words.begin() + 1, words.end()})) {
    return absl::InvalidArgumentError(absl::StrCat("use: ", UsageOf(*command)));
  }
  return command->run(context, words);
}

absl::StatusOr<std::string> RunAdminCommand(AdminContext& context, const Words& words) {
  if (words.empty()) return std::string();
  const auto data = RunForData(context, words);
  if (!data.ok()) return data.status();
  return context.json ? JsonText(*data) + "\n" : FindCommand(words[0])->text(*data);
}

absl::StatusOr<Words> SplitWords(std::string_view line) {
  Words words;
  bool within = false;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    const bool escapes = c == '\\' && quote != '\'' && i + 1 < line.size();
    if (quote == 0 && c == ' ') {
      within = false;
      continue;
    }
    if (!within) words.emplace_back();
    within = true;
    if (escapes) {
      words.back() += line[++i];
    } else if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else {
      words.back() += c;
    }
  }
  if (quote != 0) return absl::InvalidArgumentError("a quotation mark has no end");
  return words;
}

int AdminExitCode(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 0;
    case absl::StatusCode::kInvalidArgument:
      return 2;
    case absl::StatusCode::kUnavailable:
      return 3;
    default:
      return 1;
  }
}

}  // namespace reel::tools
