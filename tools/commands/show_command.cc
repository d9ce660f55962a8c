// reeladm show: geometry and usage of a volume, and its controllers.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tools/commands/command_table.h"
#include "tools/commands/view.h"
#include "volume/base/size.h"

namespace reel::tools {
namespace {

Json PoolJson(const v1::ShowReply::Pool& pool, std::uint32_t volume_block_bytes) {
  Json luns = Json::array();
  for (const auto& lun : pool.luns()) {
    luns.push_back({{"name", lun.name()},
                    {"path", lun.path()},
                    {"size_bytes", lun.size_bytes()},
                    {"stripe_set", lun.stripe_set()},
                    {"reservations", lun.reservations()},
                    {"closed", lun.closed()}});
  }
  return {{"name", pool.name()},
          {"flags", ListOf(pool.flags())},
          {"affinities", ListOf(pool.affinities())},
          {"breadth_bytes", pool.breadth_bytes()},
          {"block_bytes", std::max(pool.block_bytes(), volume_block_bytes)},
          {"total_bytes", pool.total_bytes()},
          {"free_bytes", pool.free_bytes()},
          {"luns", std::move(luns)}};
}

// Of a volume, as one controller says of itself.
Json ControllerJson(const MdcAnswer& answer, const std::string& name) {
  std::string role = "does not answer";
  v1::VolumesReply said;
  std::uint64_t epoch = 0;
  if (answer.volumes.ok()) {
    role = "without this volume";
    said = *answer.volumes;
  }
  for (const auto& volume : said.volumes()) {
    if (volume.name() != name) continue;
    role = volume.role();
    epoch = volume.epoch();
  }
  return {{"address", answer.address},
          {"role", role},
          {"epoch", epoch},
          {"host", said.host()},
          {"program", said.program()},
          {"protocol", said.protocol()},
          {"problem", std::string(answer.volumes.status().message())}};
}

absl::StatusOr<Json> Show(AdminContext& context, const Words& words) {
  const bool detailed = words.back() == "long";
  const std::string only = words.size() > 1 && words[1] != "long" ? words[1] : "";
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  const auto reply = context.api.AskOf<v1::ShowReply, v1::ShowRequest>(*volume);
  if (!reply.ok()) return reply.status();
  Json controllers = Json::array(), pools = Json::array();
  for (const MdcAnswer& answer : context.api.Everywhere()) {
    controllers.push_back(ControllerJson(answer, *volume));
  }
  for (const auto& pool : reply->pools()) {
    if (only.empty() || pool.name() == only) {
      pools.push_back(PoolJson(pool, reply->block_bytes()));
    }
  }
  if (!only.empty() && pools.empty()) {
    return absl::NotFoundError(
        absl::StrCat("volume ", *volume, " has no pool ", only, "; \"show\" lists them"));
  }
  const bool dumped = reply->has_kept_dump();
  return Json{{"long", detailed},
              {"name", reply->name()},
              {"volume", UuidText(reply->volume())},
              {"map_generation", reply->map_generation()},
              {"block_bytes", reply->block_bytes()},
              {"strategy", reply->strategy()},
              {"created", IsoText(reply->created())},
              {"seat", reply->seat()},
              {"fencing", reply->fencing()},
              {"arbitration", reply->arbitration()},
              {"maintenance", reply->maintenance()},
              {"store_bytes", reply->store_bytes()},
              {"store_free_bytes", reply->store_free_bytes()},
              {"dump", dumped ? Json(UuidText(reply->kept_dump().dump())) : Json()},
              {"dump_taken", dumped ? Json(IsoText(reply->kept_dump().taken())) : Json()},
              {"waiting_bytes", reply->waiting_bytes()},
              {"controllers", std::move(controllers)},
              {"alarms", ListOf(reply->alarms())},
              {"notes", ListOf(reply->notes())},
              {"pools", std::move(pools)}};
}

std::uint64_t Used(std::uint64_t total, std::uint64_t free) {
  return total - std::min(total, free);
}

std::string SizeText(const Json& bytes) {
  return CellText(bytes, Cell::kSize);
}

// "12 MiB of 512 MiB used (2 %)"; nothing of a controller that does not say it.
std::string StoreText(const Json& json) {
  const auto total = json["store_bytes"].get<std::uint64_t>();
  if (total == 0) return "";
  const std::uint64_t used = Used(total, json["store_free_bytes"].get<std::uint64_t>());
  return absl::StrCat("Metadata store: ", FormatSize(used), " of ", FormatSize(total), " used (",
                      Percent(used, total), ")\n");
}

// Nothing where there is no dump and nothing waits.
std::string KeptDumpText(const Json& json) {
  const bool kept = !json["dump"].is_null();
  if (!kept && json["waiting_bytes"] == 0) return "";
  const std::string waits = SizeText(json["waiting_bytes"]) + " wait for it\n";
  if (!kept) return "Dump of the metadata: none; " + waits;
  return absl::StrCat("Dump of the metadata: of ", CellText(json["dump_taken"], Cell::kTime),
                      ", UUID ", json["dump"].get<std::string>(), "; ", waits);
}

std::string HeadText(const Json& json) {
  const auto text = [&](const char* member) { return json[member].get<std::string>(); };
  std::string head = absl::StrCat(
      "Volume ", text("name"), ", UUID ", text("volume"), "\nMade ",
      CellText(json["created"], Cell::kTime), ", map generation ",
      json["map_generation"].get<std::uint64_t>(), "\nBlock size ", SizeText(json["block_bytes"]),
      ", strategy ", text("strategy"), ", seat LUN ", text("seat"), "\nFencing: ", text("fencing"),
      "\nOne active MDC by: ", text("arbitration"), "\n", StoreText(json), KeptDumpText(json));
  if (json["maintenance"].get<bool>()) {
    head += "IN MAINTENANCE: no standby takes it over by itself, no new mounts\n";
  }
  for (const Json& alarm : json["alarms"]) {
    absl::StrAppend(&head, "ALARM: ", alarm.get<std::string>(), "\n");
  }
  for (const Json& note : json["notes"]) {
    absl::StrAppend(&head, "Note: ", note.get<std::string>(), "\n");
  }
  return head;
}

std::string PoolsText(const Json& json) {
  Json pools = json["pools"], luns = Json::array();
  for (Json& pool : pools) {
    const auto total = pool["total_bytes"].get<std::uint64_t>();
    pool["used"] = Percent(Used(total, pool["free_bytes"].get<std::uint64_t>()), total);
    for (Json lun : pool["luns"]) {
      lun["pool"] = pool["name"];
      luns.push_back(std::move(lun));
    }
  }
  const std::string pools_text = TableOf(pools, {{"pool", "name"},
                                                 {"flags", "flags", Cell::kList},
                                                 {"affinities", "affinities", Cell::kList},
                                                 {"breadth", "breadth_bytes", Cell::kSize},
                                                 {"block", "block_bytes", Cell::kSize},
                                                 {"size", "total_bytes", Cell::kSize},
                                                 {"free", "free_bytes", Cell::kSize},
                                                 {"used", "used"}});
  if (!json["long"].get<bool>()) return pools_text;
  return absl::StrCat(pools_text, "\n",
                      TableOf(luns, {{"LUN", "name"},
                                     {"pool", "pool"},
                                     {"set", "stripe_set", Cell::kNumber},
                                     {"size", "size_bytes", Cell::kSize},
                                     {"fencing", "reservations", Cell::kYesNo},
                                     {"down", "closed", Cell::kYesNo},
                                     {"path", "path"}}));
}

std::string ShowText(const Json& json) {
  return absl::StrCat(HeadText(json), "\n",
                      TableOf(json["controllers"], {{"MDC", "address"},
                                                    {"role", "role"},
                                                    {"epoch", "epoch", Cell::kCount},
                                                    {"host", "host"},
                                                    {"release", "program"},
                                                    {"protocol", "protocol"}}),
                      "\n", PoolsText(json));
}

}  // namespace

AdminCommand ShowCommand() {
  return {.name = "show",
          .usage = "[POOL] [long]",
          .help = "geometry and usage of a volume, or of a pool; long: and its LUNs",
          .run = Show,
          .text = ShowText,
          .examples = {"show", "show data long"},
          .watched = true};
}

}  // namespace reel::tools
