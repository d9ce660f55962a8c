// reeladm quota: what users, groups and directory trees have and may have.
#include <grp.h>
#include <pwd.h>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "tools/commands/command_table.h"
#include "tools/commands/quota_trees.h"
#include "tools/commands/view.h"
#include "volume/base/size.h"

namespace reel::tools {
namespace {

using Limits = v1::SetQuotasRequest::Limits;

// A name of this host, or a number.
absl::StatusOr<std::uint32_t> IdOf(const std::string& kind, const std::string& name) {
  std::uint32_t id = 0;
  if (absl::SimpleAtoi(name, &id)) return id;
  if (kind == "user") {
    if (const passwd* user = getpwnam(name.c_str())) return user->pw_uid;
  } else if (const group* group = getgrnam(name.c_str())) {
    return group->gr_gid;
  }
  return absl::NotFoundError(
      absl::StrCat("this host knows no ", kind, " \"", name, "\"; give its number"));
}

std::string NameOf(const std::string& kind, const v1::QuotasReply::Quota& quota) {
  if (kind == "tree") return quota.tree();
  if (kind == "user") {
    if (const passwd* user = getpwuid(quota.id())) return user->pw_name;
  } else if (const group* group = getgrgid(quota.id())) {
    return group->gr_name;
  }
  return absl::StrCat(quota.id());
}

Json QuotaJson(const std::string& kind, const v1::QuotasReply::Quota& quota) {
  return {{"kind", kind},
          {"id", quota.id()},
          {"name", NameOf(kind, quota)},
          {"bytes", quota.bytes()},
          {"soft_bytes", quota.limits().soft_bytes()},
          {"hard_bytes", quota.limits().hard_bytes()},
          {"space_state", quota.space_state()},
          {"space_grace_left_seconds", quota.space_grace_left_seconds()},
          {"files", quota.files()},
          {"soft_files", quota.limits().soft_files()},
          {"hard_files", quota.limits().hard_files()},
          {"files_state", quota.files_state()},
          {"files_grace_left_seconds", quota.files_grace_left_seconds()}};
}

absl::StatusOr<Json> ListQuotas(AdminContext& context, const Words& kinds) {
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  Json quotas = Json::array();
  for (const std::string& kind : kinds) {
    v1::QuotasRequest request;
    request.set_volume(*volume);
    request.set_kind(kind);
    for (bool more = true; more;) {
      const auto reply = context.api.Ask<v1::QuotasReply>(request);
      if (!reply.ok()) return reply.status();
      for (const auto& quota : reply->quotas()) {
        quotas.push_back(QuotaJson(kind, quota));
        request.set_from_id(quota.id() + 1);
      }
      more = reply->more();
    }
  }
  return Json{{"quotas", std::move(quotas)}};
}

absl::StatusOr<Json> GetQuota(AdminContext& context, const std::string& kind,
                              const std::string& name) {
  v1::QuotasRequest request;
  request.set_kind(kind);
  request.set_one(true);
  if (kind == "tree") {
    request.set_tree(name);
  } else {
    const auto id = IdOf(kind, name);
    if (!id.ok()) return id.status();
    request.set_id(*id);
  }
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  request.set_volume(*volume);
  const auto reply = context.api.Ask<v1::QuotasReply>(request);
  if (!reply.ok()) return reply.status();
  Json quotas = Json::array();
  for (const auto& quota : reply->quotas()) quotas.push_back(QuotaJson(kind, quota));
  return Json{{"quotas", std::move(quotas)}};
}

absl::StatusOr<Json> StateOf(AdminContext& context) {
  const auto reply = AskOfVolume<v1::QuotasReply, v1::QuotasRequest>(context);
  if (!reply.ok()) return reply.status();
  Json grace = Json::array();
  for (const auto& times : reply->grace()) {
    grace.push_back({{"kind", times.kind()},
                     {"space_seconds", times.space_seconds()},
                     {"files_seconds", times.files_seconds()}});
  }
  Json json{{"state", reply->state()}, {"counted_percent", Json()}, {"grace", std::move(grace)}};
  if (reply->state() == "counting") {
    const std::uint64_t end = std::max<std::uint64_t>(reply->inodes_end(), 1);
    json["counted_percent"] = 100 * std::min(reply->inodes_counted_below(), end) / end;
  }
  return json;
}

absl::Status Change(AdminContext& context, v1::SetQuotasRequest request) {
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  request.set_volume(*volume);
  return context.api.Ask<v1::SetQuotasReply>(request, AdminApi::Repeat::kNo).status();
}

// "NAME=VALUE" taken apart; empty where it is not one.
std::pair<std::string, std::string> Assignment(const std::string& word) {
  const std::size_t equals = word.find('=');
  if (equals == std::string::npos) return {};
  return {word.substr(0, equals), word.substr(equals + 1)};
}

absl::Status TakeLimit(const std::string& word, Limits& limits) {
  const auto [name, value] = Assignment(word);
  const bool of_files = name == "files-soft" || name == "files-hard";
  std::uint64_t number = 0;
  if (of_files || value == "0") {
    if (!absl::SimpleAtoi(value, &number)) {
      return absl::InvalidArgumentError(absl::StrCat("\"", value, "\" is no number of files"));
    }
  } else if (name == "soft" || name == "hard") {
    const auto size = ParseSize(value);
    if (!size.ok()) return size.status();
    number = *size;
  }
  if (name == "soft") limits.set_soft_bytes(number);
  if (name == "hard") limits.set_hard_bytes(number);
  if (name == "files-soft") limits.set_soft_files(number);
  if (name == "files-hard") limits.set_hard_files(number);
  if (of_files || name == "soft" || name == "hard") return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("\"", word,
                   "\" is no limit: soft=SIZE, hard=SIZE, files-soft=NUMBER or "
                   "files-hard=NUMBER; 0 is none"));
}

absl::StatusOr<Json> SetLimits(AdminContext& context, const Words& words) {
  v1::SetQuotasRequest request;
  Limits& limits = *request.mutable_limits();
  limits.set_kind(words[2]);
  if (words[2] == "tree") {
    limits.set_tree(words[3]);
  } else {
    const auto id = IdOf(words[2], words[3]);
    if (!id.ok()) return id.status();
    limits.set_id(*id);
  }
  for (std::size_t i = 4; i < words.size(); ++i) {
    if (absl::Status taken = TakeLimit(words[i], limits); !taken.ok()) return taken;
  }
  if (absl::Status set = Change(context, request); !set.ok()) return set;
  return GetQuota(context, words[2], words[3]);
}

absl::StatusOr<Json> SetGrace(AdminContext& context, const Words& words) {
  v1::SetQuotasRequest request;
  request.mutable_grace()->set_kind(words[2]);
  for (std::size_t i = 3; i < words.size(); ++i) {
    auto [name, value] = Assignment(words[i]);
    std::uint64_t days = 0;
    absl::Duration time;
    if (value.ends_with('d') && absl::SimpleAtoi(value.substr(0, value.size() - 1), &days)) {
      time = absl::Hours(24) * days;
    } else if (!absl::ParseDuration(value, &time)) {
      time = absl::ZeroDuration();
    }
    const std::int64_t seconds = absl::ToInt64Seconds(time);
    if ((name != "space" && name != "files") || seconds <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", words[i],
                       "\" is no grace time: space=TIME or files=TIME, "
                       "as 7d, 12h or 30m"));
    }
    const auto value_seconds = static_cast<std::uint64_t>(seconds);
    if (name == "space") request.mutable_grace()->set_space_seconds(value_seconds);
    if (name == "files") request.mutable_grace()->set_files_seconds(value_seconds);
  }
  if (absl::Status set = Change(context, request); !set.ok()) return set;
  return StateOf(context);
}

absl::StatusOr<Json> ChangeTree(AdminContext& context, const Words& words) {
  v1::SetQuotasRequest request;
  const bool adds = words[2] == "add";
  if (adds) {
    request.set_add_tree(words[3]);
  } else {
    request.set_remove_tree(words[3]);
  }
  const absl::Status changed = Change(context, request);
  // Who has made the tree may go on with its directory.
  const bool goes_on = words.size() > 4 && absl::IsAlreadyExists(changed);
  if (!changed.ok() && !goes_on) return changed;
  if (words.size() > 4) {
    if (absl::Status put = PutIntoTree(words[3], words[4]); !put.ok()) return put;
  }
  return adds ? GetQuota(context, "tree", words[3]) : ListQuotas(context, {"tree"});
}

absl::StatusOr<Json> Quota(AdminContext& context, const Words& words) {
  const std::string what = words.size() > 1 ? words[1] : "";
  if (what == "list") {
    return ListQuotas(context, words.size() > 2 ? Words{words[2]} : Words{"user", "group", "tree"});
  }
  if (what == "get") return GetQuota(context, words[2], words[3]);
  if (what == "set") return SetLimits(context, words);
  if (what == "grace") return SetGrace(context, words);
  if (what == "tree") return ChangeTree(context, words);
  if (!what.empty()) {
    v1::SetQuotasRequest request;
    request.set_state(what);
    if (absl::Status set = Change(context, request); !set.ok()) return set;
  }
  return StateOf(context);
}

std::string SecondsText(const Json& seconds) {
  const auto time = absl::Seconds(seconds.get<std::int64_t>());
  const std::int64_t days = time / absl::Hours(24);
  return days > 0 && time % absl::Hours(24) == absl::ZeroDuration() ? absl::StrCat(days, "d")
                                                                    : absl::FormatDuration(time);
}

std::string LimitText(const Json& bytes) {
  return bytes == 0 ? "-" : FormatSize(bytes.get<std::uint64_t>());
}

std::string StateText(const Json& json) {
  std::string text = absl::StrCat("Quotas are ", json["state"].get<std::string>());
  if (!json["counted_percent"].is_null()) {
    absl::StrAppend(&text, ": ", json["counted_percent"].get<std::uint64_t>(),
                    " % of the files are counted; limits hold when all are");
  }
  text += "\n\n";
  Json rows = json["grace"];
  for (Json& row : rows) {
    row["space"] = SecondsText(row["space_seconds"]);
    row["files"] = SecondsText(row["files_seconds"]);
  }
  return text + TableOf(rows, {{"grace times of", "kind"}, {"space", "space"}, {"files", "files"}});
}

std::string QuotaText(const Json& json) {
  if (json.contains("state")) return StateText(json);
  Json rows = json["quotas"];
  for (Json& row : rows) {
    for (const char* limit : {"soft_bytes", "hard_bytes"}) row[limit] = LimitText(row[limit]);
    for (const std::string what : {"space", "files"}) {
      Json& state = row[what + "_state"];
      if (state == "grace") state = SecondsText(row[what + "_grace_left_seconds"]) + " left";
    }
  }
  return TableOf(rows, {{"kind", "kind"},
                        {"name", "name"},
                        {"space", "bytes", Cell::kSize},
                        {"soft", "soft_bytes"},
                        {"hard", "hard_bytes"},
                        {"grace", "space_state"},
                        {"files", "files", Cell::kNumber},
                        {"soft", "soft_files", Cell::kCount},
                        {"hard", "hard_files", Cell::kCount},
                        {"grace", "files_state"}});
}

}  // namespace

AdminCommands QuotaCommands() {
  return {{.name = "quota",
           .usage = "[on|off | list [user|group|tree] | get user|group|tree NAME | "
                    "set user|group|tree NAME LIMIT... | grace user|group|tree TIME... | "
                    "tree add NAME [DIR] | tree remove NAME]",
           .help = "what users, groups and directory trees have and may have",
           .run = Quota,
           .text = QuotaText,
           .examples = {"quota on", "quota set user ann soft=1T hard=1200G files-hard=1000000",
                        "quota tree add scans /mnt/reel/scans", "quota set tree scans hard=20T",
                        "quota grace user space=7d files=7d", "quota list tree"},
           .watched = true}};
}

}  // namespace reel::tools
