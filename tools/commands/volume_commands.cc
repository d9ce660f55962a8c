// What volumes there are, who serves them, and which LUNs there are. Members of the data are named
// as in proto/admin.proto.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tools/commands/command_table.h"
#include "tools/commands/view.h"

namespace reel::tools {
namespace {

const char* StateOf(const Json& volume) {
  return volume["stopped"] == true ? "stopped" : volume["maintenance"] == true ? "maintenance" : "";
}

absl::StatusOr<Json> Volumes(AdminContext& context, const Words&) {
  const auto reply = context.api.Volumes();
  if (!reply.ok()) return reply.status();
  Json volumes = Json::array();
  for (const auto& volume : reply->volumes()) {
    volumes.push_back({{"name", volume.name()},
                       {"volume", UuidText(volume.volume())},
                       {"role", volume.role()},
                       {"epoch", volume.epoch()},
                       {"active", volume.active()},
                       {"active_host", volume.active_host()},
                       {"active_program", volume.active_program()},
                       {"active_protocol", volume.active_protocol()},
                       {"stopped", volume.stopped()},
                       {"maintenance", volume.maintenance()}});
  }
  return Json{{"volumes", std::move(volumes)}};
}

std::string VolumesText(const Json& json) {
  Json rows = json["volumes"];
  for (Json& row : rows) {
    row["state"] = StateOf(row);
    if (row["active_host"] == "") continue;
    row["active"] = absl::StrCat(row["active"].get<std::string>(), " (",
                                 row["active_host"].get<std::string>(), ")");
  }
  return TableOf(rows, {{"volume", "name"},
                        {"role", "role"},
                        {"epoch", "epoch", Cell::kNumber},
                        {"active MDC", "active"},
                        {"state", "state"},
                        {"UUID", "volume"}});
}

// Only one that is there.
absl::StatusOr<Json> Select(AdminContext& context, const Words& words) {
  const auto volumes = context.api.Volumes();
  if (!volumes.ok()) return volumes.status();
  for (const auto& volume : volumes->volumes()) {
    if (volume.name() != words[1]) continue;
    context.volume = words[1];
    return Json{{"selected", words[1]}};
  }
  return absl::NotFoundError(absl::StrCat("this MDC serves no volume ", words[1]));
}

std::string SelectText(const Json& json) {
  return absl::StrCat("Volume ", json["selected"].get<std::string>(), " is selected.\n");
}

absl::StatusOr<Json> Disks(AdminContext& context, const Words&) {
  const auto reply = context.api.Ask<v1::DisksReply>(v1::DisksRequest());
  if (!reply.ok()) return reply.status();
  Json disks = Json::array();
  for (const auto& disk : reply->disks()) {
    disks.push_back({{"path", disk.path()},
                     {"name", disk.name()},
                     {"lun", UuidText(disk.lun())},
                     {"size_bytes", disk.size_bytes()},
                     {"volume", disk.volume()},
                     {"pool", disk.pool()},
                     {"state", disk.state()}});
  }
  return Json{{"disks", std::move(disks)}};
}

std::string DisksText(const Json& json) {
  return TableOf(json["disks"], {{"path", "path"},
                                 {"name", "name"},
                                 {"size", "size_bytes", Cell::kSize},
                                 {"volume", "volume"},
                                 {"pool", "pool"},
                                 {"state", "state"}});
}

// Of all volumes that any of the controllers knows, every controller.
absl::StatusOr<Json> Managers(AdminContext& context, const Words&) {
  const std::vector<MdcAnswer> answers = context.api.Everywhere();
  Json rows = Json::array();
  absl::Status problem;
  for (const MdcAnswer& answer : answers) {
    problem.Update(answer.volumes.status());
    if (!answer.volumes.ok()) continue;
    for (const auto& volume : answer.volumes->volumes()) {
      rows.push_back({{"volume", volume.name()},
                      {"address", answer.address},
                      {"host", answer.volumes->host()},
                      {"role", volume.role()},
                      {"epoch", volume.epoch()},
                      {"stopped", volume.stopped()},
                      {"maintenance", volume.maintenance()}});
    }
  }
  if (rows.empty() && !problem.ok()) return problem;
  std::stable_sort(rows.begin(), rows.end(),
                   [](const Json& a, const Json& b) { return a["volume"] < b["volume"]; });
  return Json{{"controllers", std::move(rows)}};
}

std::string ManagersText(const Json& json) {
  Json rows = json["controllers"];
  for (Json& row : rows) row["state"] = StateOf(row);
  return TableOf(rows, {{"volume", "volume"},
                        {"MDC", "address"},
                        {"host", "host"},
                        {"role", "role"},
                        {"epoch", "epoch", Cell::kNumber},
                        {"state", "state"}});
}

}  // namespace

AdminCommands VolumeCommands() {
  return {{.name = "volumes",
           .usage = "",
           .help = "the volumes that this MDC serves",
           .run = Volumes,
           .text = VolumesText,
           .watched = true},
          {.name = "fsmlist",
           .usage = "",
           .help = "all volumes with all of their MDCs",
           .run = Managers,
           .text = ManagersText,
           .watched = true},
          {.name = "select",
           .usage = "VOLUME",
           .help = "talk about that volume from here on, in the shell",
           .run = Select,
           .text = SelectText,
           .examples = {"select reel"}},
          {.name = "disks",
           .usage = "",
           .help = "the LUNs that this MDC sees, and what they hold",
           .run = Disks,
           .text = DisksText,
           .watched = true},
          ShowCommand()};
}

}  // namespace reel::tools
