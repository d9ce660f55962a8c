// Sessions of clients, and what keeps them on or off the LUNs.
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tools/commands/command_table.h"
#include "tools/commands/view.h"
#include "volume/format/reservation_key.h"

namespace reel::tools {
namespace {

Json TrafficJson(const v1::WhoReply::Session& session) {
  Json luns = Json::array();
  for (const auto& lun : session.luns()) {
    luns.push_back({{"lun", lun.name()},
                    {"path", lun.path()},
                    {"problem", lun.problem()},
                    {"reads", lun.reads()},
                    {"read_bytes", lun.read_bytes()},
                    {"writes", lun.writes()},
                    {"written_bytes", lun.written_bytes()}});
  }
  return luns;
}

const char* FuseText(v1::FuseWay way) {
  return way == v1::FUSE_WAY_URING ? "io_uring" : way == v1::FUSE_WAY_DEVICE ? "/dev/fuse" : "";
}

absl::StatusOr<Json> Who(AdminContext& context, const Words& words) {
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  const bool detailed = words.size() > 1;
  v1::WhoRequest request;
  request.set_volume(*volume);
  request.set_luns(detailed);
  const auto reply = context.api.Ask<v1::WhoReply>(request);
  if (!reply.ok()) return reply.status();
  Json sessions = Json::array();
  for (const auto& session : reply->sessions()) {
    sessions.push_back({{"session", session.session()},
                        {"host", session.host()},
                        {"certificate", session.certificate()},
                        {"mount_point", session.mount_point()},
                        {"export", session.exported()},
                        {"program", session.program()},
                        {"protocol", session.protocol()},
                        {"fuse", FuseText(session.fuse())},
                        {"registered", IsoText(session.registered())},
                        {"connected", session.connected()},
                        {"state", session.state()},
                        {"lease_left_ms", session.lease_left_ms()},
                        {"opens", session.opens()},
                        {"tokens", session.tokens()},
                        {"operations", session.operations()}});
    if (!detailed) continue;
    Json keys = Json::array();
    for (const std::uint64_t key : session.keys()) keys.push_back(KeyText(key));
    sessions.back()["keys"] = std::move(keys);
    sessions.back()["luns"] = TrafficJson(session);
  }
  return Json{{"name", *volume}, {"sessions", std::move(sessions)}};
}

// Below the table of sessions, where that was asked for: what each has sent to LUNs since it
// mounted.
std::string WhoLongText(const Json& json) {
  Json rows = Json::array();
  for (const Json& session : json["sessions"]) {
    if (!session.contains("luns")) return "";
    for (Json row : session["luns"]) {
      row["session"] = session["session"];
      row["host"] = session["host"];
      rows.push_back(std::move(row));
    }
  }
  return "\n" + TableOf(rows, {{"session", "session", Cell::kNumber},
                               {"host", "host"},
                               {"LUN", "lun"},
                               {"read", "read_bytes", Cell::kSize},
                               {"reads", "reads", Cell::kNumber},
                               {"written", "written_bytes", Cell::kSize},
                               {"writes", "writes", Cell::kNumber},
                               {"path", "path"},
                               {"problem", "problem"}});
}

std::string WhoText(const Json& json) {
  return TableOf(json["sessions"], {{"session", "session", Cell::kNumber},
                                    {"host", "host"},
                                    {"certificate", "certificate"},
                                    {"mounted at", "mount_point"},
                                    {"export", "export"},
                                    {"release", "program"},
                                    {"protocol", "protocol", Cell::kCount},
                                    {"FUSE by", "fuse"},
                                    {"since", "registered", Cell::kTime},
                                    {"connected", "connected", Cell::kYesNo},
                                    {"state", "state"},
                                    {"lease left", "lease_left_ms", Cell::kDuration},
                                    {"opens", "opens", Cell::kNumber},
                                    {"tokens", "tokens", Cell::kNumber},
                                    {"operations", "operations", Cell::kNumber}}) +
         WhoLongText(json);
}

absl::StatusOr<Json> Paths(AdminContext& context, const Words&) {
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  v1::WhoRequest request;
  request.set_volume(*volume);
  request.set_luns(true);
  const auto who = context.api.Ask<v1::WhoReply>(request);
  if (!who.ok()) return who.status();
  const auto show = context.api.AskOf<v1::ShowReply, v1::ShowRequest>(*volume);
  if (!show.ok()) return show.status();
  Json paths = Json::array();
  for (const auto& pool : show->pools()) {
    for (const auto& lun : pool.luns()) {
      paths.push_back({{"session", Json()},
                       {"host", "controller"},
                       {"lun", lun.name()},
                       {"path", lun.path()},
                       {"problem", ""}});
    }
  }
  for (const auto& session : who->sessions()) {
    for (const auto& lun : session.luns()) {
      paths.push_back({{"session", session.session()},
                       {"host", session.host()},
                       {"lun", lun.name()},
                       {"path", lun.path()},
                       {"problem", lun.problem()}});
    }
  }
  return Json{{"name", *volume}, {"paths", std::move(paths)}, {"alarms", ListOf(show->alarms())}};
}

std::string PathsText(const Json& json) {
  std::string text = TableOf(json["paths"], {{"session", "session", Cell::kNumber},
                                             {"host", "host"},
                                             {"LUN", "lun"},
                                             {"path", "path"},
                                             {"problem", "problem"}});
  for (const Json& alarm : json["alarms"]) {
    absl::StrAppend(&text, "ALARM: ", alarm.get<std::string>(), "\n");
  }
  return text;
}

absl::StatusOr<Json> Evict(AdminContext& context, const Words& words) {
  v1::EvictRequest request;
  std::uint64_t session = 0;
  if (!absl::SimpleAtoi(words[1], &session) || session == 0) {
    return absl::InvalidArgumentError("use: evict SESSION, with a number that \"who\" shows");
  }
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  request.set_volume(*volume);
  request.set_session(session);
  if (absl::Status status = Confirm(context, absl::StrCat("End session ", session,
                                                          "? What its programs have not synced is "
                                                          "lost."));
      !status.ok()) {
    return status;
  }
  if (auto reply = context.api.Ask<v1::EvictReply>(request); !reply.ok()) return reply.status();
  return Json{{"evicted", session}};
}

std::string EvictText(const Json& json) {
  return absl::StrCat("Session ", json["evicted"].get<std::uint64_t>(),
                      " is ending: \"who\" lists it until it is off the LUNs. Its programs get EIO "
                      "for what was not synced;\nthe mount goes on under a new session.\n");
}

absl::StatusOr<Json> Reservations(AdminContext& context, const Words&) {
  const auto reply = AskOfVolume<v1::ReservationsReply, v1::ReservationsRequest>(context);
  if (!reply.ok()) return reply.status();
  Json luns = Json::array();
  for (const auto& lun : reply->luns()) {
    Json keys = Json::array();
    for (const auto& key : lun.keys()) {
      keys.push_back({{"key", KeyText(key.key())},
                      {"owner", key.owner()},
                      {"holder", key.holder()},
                      {"paths", key.paths()}});
    }
    luns.push_back({{"name", lun.name()},
                    {"path", lun.path()},
                    {"problem", lun.problem()},
                    {"keys", std::move(keys)}});
  }
  return Json{{"luns", std::move(luns)}};
}

std::string ReservationsText(const Json& json) {
  Json rows = Json::array();
  for (const Json& lun : json["luns"]) {
    if (lun["problem"] != "") {
      rows.push_back({{"lun", lun["name"]},
                      {"key", ""},
                      {"owner", lun["problem"]},
                      {"holder", Json()},
                      {"paths", Json()}});
    }
    for (Json key : lun["keys"]) {
      key["lun"] = lun["name"];
      rows.push_back(std::move(key));
    }
  }
  return TableOf(rows, {{"LUN", "lun"},
                        {"key", "key"},
                        {"owner", "owner"},
                        {"holder", "holder", Cell::kYesNo},
                        {"paths", "paths", Cell::kNumber}});
}

}  // namespace

AdminCommands SessionCommands() {
  return {{.name = "who",
           .usage = "[long]",
           .help = "the clients of a volume; long: and what each has read and written",
           .run = Who,
           .text = WhoText,
           .examples = {"who", "who long"},
           .watched = true},
          {.name = "paths",
           .usage = "",
           .help = "by which path each client, and the controller, reaches each LUN",
           .run = Paths,
           .text = PathsText,
           .watched = true},
          {.name = "evict",
           .usage = "SESSION",
           .help = "end a session; others get what it held once it is off the LUNs",
           .run = Evict,
           .text = EvictText,
           .examples = {"evict 17"}},
          {.name = "reservations",
           .usage = "",
           .help = "who is registered on the LUNs, by SCSI-3 reservations",
           .run = Reservations,
           .text = ReservationsText,
           .watched = true}};
}

}  // namespace reel::tools
