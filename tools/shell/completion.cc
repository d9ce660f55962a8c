#include "tools/shell/completion.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tools/commands/command_table.h"
#include "tools/commands/usage.h"

namespace reel::tools {
namespace {

std::vector<std::string> CommandNames() {
  std::vector<std::string> names;
  for (const AdminCommand& command : AllCommands()) names.emplace_back(command.name);
  for (const std::string_view alias : AliasNames()) names.emplace_back(alias);
  return names;
}

std::vector<std::string> Volumes(AdminContext& context) {
  std::vector<std::string> names;
  if (const auto reply = context.api.Volumes(); reply.ok()) {
    for (const auto& volume : reply->volumes()) names.push_back(volume.name());
  }
  return names;
}

std::vector<std::string> PoolsOrLuns(AdminContext& context, WordKind kind) {
  std::vector<std::string> names;
  const auto show = AskOfVolume<v1::ShowReply, v1::ShowRequest>(context);
  if (!show.ok()) return names;
  for (const auto& pool : show->pools()) {
    if (kind == WordKind::kPool) names.push_back(pool.name());
    if (kind == WordKind::kPool) continue;
    for (const auto& lun : pool.luns()) names.push_back(lun.name());
  }
  return names;
}

std::vector<std::string> Clients(AdminContext& context, WordKind kind) {
  std::vector<std::string> names;
  const auto who = AskOfVolume<v1::WhoReply, v1::WhoRequest>(context);
  if (!who.ok()) return names;
  for (const auto& session : who->sessions()) {
    names.push_back(absl::StrCat(session.session()));
    if (kind == WordKind::kClient) names.push_back(session.host());
  }
  if (kind == WordKind::kClient) names.emplace_back("all");
  return names;
}

std::vector<std::string> WordsOf(AdminContext& context, const UsageWord& word) {
  switch (word.kind) {
    case WordKind::kLiteral:
      return word.literals;
    case WordKind::kVolume:
      return Volumes(context);
    case WordKind::kPool:
    case WordKind::kLun:
      return PoolsOrLuns(context, word.kind);
    case WordKind::kSession:
    case WordKind::kClient:
      return Clients(context, word.kind);
    case WordKind::kController:
      return context.api.mdcs();
    case WordKind::kCommand:
      return CommandNames();
    case WordKind::kAny:
    case WordKind::kPath:
      return {};
  }
  return {};
}

}  // namespace

Completion CompletionAfter(AdminContext& context, const Words& before,
                           const std::vector<std::string>& more) {
  Completion completion;
  if (before.empty()) {
    completion.words = CommandNames();
    completion.words.insert(completion.words.end(), more.begin(), more.end());
    return completion;
  }
  const AdminCommand* const command = FindCommand(before[0]);
  if (command == nullptr) {
    completion.paths = std::find(more.begin(), more.end(), before[0]) != more.end();
    return completion;
  }
  for (const UsageWord& next : NextWords(command->usage, {before.begin() + 1, before.end()})) {
    completion.paths |= next.kind == WordKind::kPath;
    for (std::string& word : WordsOf(context, next)) completion.words.push_back(std::move(word));
  }
  for (const char* option : {"--json", "--yes"}) completion.words.emplace_back(option);
  if (command->watched) completion.words.emplace_back("--watch");
  return completion;
}

}  // namespace reel::tools
