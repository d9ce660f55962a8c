// What each controller of a volume goes by, and what of that may change while it runs: each is
// asked by itself, as each has a configuration, a log and a certificate of its own.
#include <functional>

#include "absl/strings/str_cat.h"
#include "tools/commands/command_table.h"
#include "tools/commands/view.h"

namespace reel::tools {
namespace {

// What each says, beside its address; "problem" is why one says nothing. Not OK: none says
// anything.
template <typename Reply, typename Request>
absl::StatusOr<Json> AskEach(AdminContext& context, const Request& request,
                             const std::function<Json(const Reply&)>& describe) {
  Json answers = Json::array();
  absl::Status first;
  bool any = false;
  for (const MdcAnswer& answer : context.api.Everywhere()) {
    const absl::StatusOr<Reply> reply =
        answer.volumes.ok() ? context.api.At(answer.address)->template Ask<Reply>(request)
                            : answer.volumes.status();
    Json row = {{"address", answer.address}, {"problem", std::string(reply.status().message())}};
    row.update(describe(reply.ok() ? *reply : Reply()));
    any |= reply.ok();
    first.Update(reply.status());
    answers.push_back(std::move(row));
  }
  if (!any) return first.ok() ? absl::UnavailableError("no controller answers") : first;
  return answers;
}

absl::StatusOr<Json> LogLevel(AdminContext& context, const Words& words) {
  v1::LogLevelRequest request;
  if (words.size() > 1) request.set_level(words[1]);
  auto answers = AskEach<v1::LogLevelReply>(context, request, [](const auto& reply) {
    return Json{{"level", reply.level()}};
  });
  if (!answers.ok()) return answers;
  return Json{{"controllers", *std::move(answers)}};
}

std::string LogLevelText(const Json& json) {
  return TableOf(json["controllers"],
                 {{"MDC", "address"}, {"log level", "level"}, {"problem", "problem"}});
}

Json ExportsJson(const v1::ExportsReply& reply) {
  Json exports = Json::array();
  for (const auto& one : reply.exports()) {
    exports.push_back(
        {{"clients", ListOf(one.clients())}, {"access", one.access()}, {"squash", one.squash()}});
  }
  return {{"exports", std::move(exports)}};
}

absl::StatusOr<Json> Exports(AdminContext& context, const Words& words) {
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  v1::ExportsRequest request;
  request.set_volume(*volume);
  request.set_reload(words.size() > 1);
  auto answers = AskEach<v1::ExportsReply>(context, request, ExportsJson);
  if (!answers.ok()) return answers;
  return Json{{"name", *volume}, {"reloaded", words.size() > 1}, {"controllers", *answers}};
}

std::string ExportsText(const Json& json) {
  Json rows = Json::array();
  for (const Json& controller : json["controllers"]) {
    Json row = {{"address", controller["address"]},
                {"problem", controller["problem"]},
                {"clients", Json::array()},
                {"access", ""},
                {"squash", ""}};
    for (const Json& one : controller["exports"]) {
      row.update(one);
      rows.push_back(row);
    }
    if (!controller["exports"].empty()) continue;
    if (controller["problem"] == "") {
      row.update({{"clients", {"*"}}, {"access", "rw"}, {"squash", "none"}});
    }
    rows.push_back(std::move(row));
  }
  const std::string table = TableOf(rows, {{"MDC", "address"},
                                           {"clients", "clients", Cell::kList},
                                           {"access", "access"},
                                           {"squash", "squash"},
                                           {"problem", "problem"}});
  if (!json["reloaded"].get<bool>()) return table;
  return table +
         "\nSessions keep what they were given until they connect anew: \"who\" shows it, and "
         "\"evict\" ends one.\n";
}

absl::StatusOr<Json> Certificates(AdminContext& context, const Words&) {
  auto answers = AskEach<v1::SettingsReply>(context, v1::SettingsRequest(),
                                            [](const v1::SettingsReply& reply) {
                                              const auto& own = reply.certificate();
                                              return Json{{"tls", reply.has_certificate()},
                                                          {"certificate", own.name()},
                                                          {"serial", own.serial()},
                                                          {"until", own.until()},
                                                          {"file", own.file()},
                                                          {"revoked", reply.revoked()}};
                                            });
  if (!answers.ok()) return answers;
  return Json{{"controllers", *std::move(answers)}};
}

std::string CertificatesText(const Json& json) {
  return TableOf(json["controllers"], {{"MDC", "address"},
                                       {"TLS", "tls", Cell::kYesNo},
                                       {"certificate", "certificate"},
                                       {"until", "until"},
                                       {"number", "serial"},
                                       {"file", "file"},
                                       {"revoked", "revoked", Cell::kNumber},
                                       {"problem", "problem"}});
}

absl::StatusOr<Json> Running(AdminContext& context, const Words&) {
  auto answers = AskEach<v1::SettingsReply>(
      context, v1::SettingsRequest(), [](const v1::SettingsReply& reply) {
        Json settings = Json::array();
        for (const auto& setting : reply.settings()) {
          settings.push_back({{"name", setting.name()}, {"value", setting.value()}});
        }
        return Json{{"host", reply.host()},
                    {"program", reply.program()},
                    {"config", reply.config()},
                    {"settings", std::move(settings)}};
      });
  if (!answers.ok()) return answers;
  return Json{{"controllers", *std::move(answers)}};
}

std::string RunningText(const Json& json) {
  std::string text;
  for (const Json& controller : json["controllers"]) {
    absl::StrAppend(&text, text.empty() ? "" : "\n", "MDC ",
                    controller["address"].get<std::string>());
    if (controller["problem"] != "") {
      absl::StrAppend(&text, ": ", controller["problem"].get<std::string>(), "\n");
      continue;
    }
    absl::StrAppend(&text, " on ", controller["host"].get<std::string>(), ", ",
                    controller["config"].get<std::string>(), "\n",
                    TableOf(controller["settings"], {{"setting", "name"}, {"value", "value"}}));
  }
  return text;
}

}  // namespace

AdminCommands DaemonCommands() {
  return {{.name = "config",
           .usage = "running",
           .help = "what each MDC of the volume goes by",
           .run = Running,
           .text = RunningText},
          {.name = "exports",
           .usage = "[reload]",
           .help = "what clients may do with a volume; reload: as mdc.toml has it now",
           .run = Exports,
           .text = ExportsText,
           .examples = {"exports", "exports reload"}},
          {.name = "cert",
           .usage = "[reload]",
           .help = "the certificates that MDCs use, read again where files have changed",
           .run = Certificates,
           .text = CertificatesText,
           .examples = {"cert", "cert reload"}},
          {.name = "log-level",
           .usage = "[trace|debug|info|warn|error]",
           .help = "how much MDCs write to their logs, until they begin anew",
           .run = LogLevel,
           .text = LogLevelText,
           .examples = {"log-level", "log-level debug"}}};
}

}  // namespace reel::tools
