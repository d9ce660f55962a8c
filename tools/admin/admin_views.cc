// The commands of reeladm that show what the MDC answers. JSON keys are those of proto/admin.proto.
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "nlohmann/json.hpp"
#include "tools/admin/admin_commands.h"
#include "tools/lib/cli.h"
#include "tools/lib/table.h"
#include "volume/base/size.h"
#include "volume/base/uuid.h"

namespace reel::tools {
namespace {

using Json = nlohmann::ordered_json;
constexpr Table::Align kRight = Table::Align::kRight;

std::string UuidText(const std::string& raw) {
  const auto uuid = Uuid::FromBytes(raw);
  return uuid.ok() && !uuid->is_nil() ? uuid->ToString() : "";
}

std::string OrDash(const std::string& text) {
  return text.empty() ? "-" : text;
}

absl::Time TimeOf(const v1::Time& time) {
  return absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanoseconds());
}
std::string LocalText(const v1::Time& time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", TimeOf(time), absl::LocalTimeZone());
}
std::string IsoText(const v1::Time& time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E*SZ", TimeOf(time), absl::UTCTimeZone());
}

std::string JsonLine(const Json& json) {
  return JsonText(json) + "\n";
}

// "62 %", of a whole that may be 0.
std::string Percent(std::uint64_t part, std::uint64_t whole) {
  if (whole == 0) return "-";
  return absl::StrCat(
      static_cast<std::uint64_t>(100.0 * static_cast<double>(part) / static_cast<double>(whole)),
      " %");
}

Json PoolJson(const v1::ShowReply::Pool& pool) {
  Json luns = Json::array();
  for (const auto& lun : pool.luns()) {
    luns.push_back({{"name", lun.name()},
                    {"path", lun.path()},
                    {"size_bytes", lun.size_bytes()},
                    {"stripe_set", lun.stripe_set()},
                    {"reservations", lun.reservations()}});
  }
  Json flags = Json::array(), affinities = Json::array();
  for (const std::string& flag : pool.flags()) flags.push_back(flag);
  for (const std::string& affinity : pool.affinities()) affinities.push_back(affinity);
  return {{"name", pool.name()},
          {"flags", std::move(flags)},
          {"affinities", std::move(affinities)},
          {"breadth_bytes", pool.breadth_bytes()},
          {"total_bytes", pool.total_bytes()},
          {"free_bytes", pool.free_bytes()},
          {"luns", std::move(luns)}};
}

std::string StateOf(const v1::VolumesReply::Volume& volume) {
  return volume.stopped() ? "stopped" : volume.maintenance() ? "maintenance" : "";
}

// All controllers of the volume, as each says of itself.
void AddControllers(const std::vector<MdcAnswer>& answers, const std::string& name, Table& table,
                    Json& json) {
  for (const MdcAnswer& answer : answers) {
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
    table.Add({answer.address, role, epoch == 0 ? "-" : absl::StrCat(epoch), OrDash(said.host()),
               OrDash(said.program()), OrDash(said.protocol())});
    json.push_back({{"address", answer.address},
                    {"role", role},
                    {"epoch", epoch},
                    {"host", said.host()},
                    {"program", said.program()},
                    {"protocol", said.protocol()},
                    {"problem", std::string(answer.volumes.status().message())}});
  }
}

// "12 MiB of 512 MiB used (2 %)"; nothing of a controller that does not say it.
std::string StoreText(const v1::ShowReply& reply) {
  const std::uint64_t total = reply.store_bytes();
  if (total == 0) return "";
  const std::uint64_t used = total - std::min(total, reply.store_free_bytes());
  return absl::StrCat("Metadata store: ", FormatSize(used), " of ", FormatSize(total), " used (",
                      Percent(used, total), ")\n");
}

// Nothing where there is no dump and nothing waits.
std::string DumpText(const v1::ShowReply& reply) {
  if (!reply.has_kept_dump() && reply.waiting_bytes() == 0) return "";
  const std::string waits = absl::StrCat(FormatSize(reply.waiting_bytes()), " wait for it");
  if (!reply.has_kept_dump()) return absl::StrCat("Dump of the metadata: none; ", waits, "\n");
  return absl::StrCat("Dump of the metadata: of ", LocalText(reply.kept_dump().taken()), ", UUID ",
                      UuidText(reply.kept_dump().dump()), "; ", waits, "\n");
}

std::string ShowText(const v1::ShowReply& reply, const Table& controllers) {
  Table pools({{"pool"},
               {"flags"},
               {"affinities"},
               {"breadth", kRight},
               {"size", kRight},
               {"free", kRight},
               {"used", kRight}});
  Table luns({{"LUN"}, {"pool"}, {"set", kRight}, {"size", kRight}, {"fencing"}, {"path"}});
  for (const auto& pool : reply.pools()) {
    const std::uint64_t total = pool.total_bytes();
    const std::uint64_t used = total - std::min(total, pool.free_bytes());
    pools.Add({pool.name(), absl::StrJoin(pool.flags(), ","),
               OrDash(absl::StrJoin(pool.affinities(), ",")), FormatSize(pool.breadth_bytes()),
               FormatSize(total), FormatSize(pool.free_bytes()), Percent(used, total)});
    for (const auto& lun : pool.luns()) {
      luns.Add({lun.name(), pool.name(), absl::StrCat(lun.stripe_set()),
                FormatSize(lun.size_bytes()), lun.reservations() ? "yes" : "no", lun.path()});
    }
  }
  return absl::StrCat(
      "Volume ", reply.name(), ", UUID ", UuidText(reply.volume()), "\n", "Made ",
      LocalText(reply.created()), ", map generation ", reply.map_generation(), "\n", "Block size ",
      FormatSize(reply.block_bytes()), ", strategy ", reply.strategy(), ", seat LUN ", reply.seat(),
      "\n", "Fencing: ", reply.fencing(), "\n", "One active MDC by: ", reply.arbitration(), "\n",
      StoreText(reply), DumpText(reply),
      reply.maintenance() ? "IN MAINTENANCE: no standby takes it over by itself, no new mounts\n"
                          : "",
      absl::StrJoin(reply.alarms(), "",
                    [](std::string* out, const std::string& alarm) {
                      absl::StrAppend(out, "ALARM: ", alarm, "\n");
                    }),
      absl::StrJoin(reply.notes(), "",
                    [](std::string* out, const std::string& note) {
                      absl::StrAppend(out, "Note: ", note, "\n");
                    }),
      "\n", controllers.ToString(), "\n", pools.ToString(), "\n", luns.ToString());
}

}  // namespace

absl::StatusOr<std::string> AdminVolumes(AdminContext& context, const std::vector<std::string>&) {
  auto reply = context.api.Volumes();
  if (!reply.ok()) return reply.status();
  Json json = Json::array();
  Table table({{"volume"}, {"role"}, {"epoch", kRight}, {"active MDC"}, {"state"}, {"UUID"}});
  for (const auto& volume : reply->volumes()) {
    const std::string uuid = UuidText(volume.volume());
    const std::string active = volume.active_host().empty()
                                   ? volume.active()
                                   : absl::StrCat(volume.active(), " (", volume.active_host(), ")");
    table.Add({volume.name(), volume.role(), absl::StrCat(volume.epoch()), OrDash(active),
               OrDash(StateOf(volume)), uuid});
    json.push_back({{"name", volume.name()},
                    {"volume", uuid},
                    {"role", volume.role()},
                    {"epoch", volume.epoch()},
                    {"active", volume.active()},
                    {"active_host", volume.active_host()},
                    {"active_program", volume.active_program()},
                    {"active_protocol", volume.active_protocol()},
                    {"stopped", volume.stopped()},
                    {"maintenance", volume.maintenance()}});
  }
  return context.json ? JsonLine({{"volumes", std::move(json)}}) : table.ToString();
}

absl::StatusOr<std::string> AdminDisks(AdminContext& context, const std::vector<std::string>&) {
  auto reply = context.api.Disks();
  if (!reply.ok()) return reply.status();
  Json json = Json::array();
  Table table({{"path"}, {"name"}, {"size", kRight}, {"volume"}, {"pool"}, {"state"}});
  for (const auto& disk : reply->disks()) {
    table.Add({disk.path(), OrDash(disk.name()), FormatSize(disk.size_bytes()),
               OrDash(disk.volume()), OrDash(disk.pool()), disk.state()});
    json.push_back({{"path", disk.path()},
                    {"name", disk.name()},
                    {"lun", UuidText(disk.lun())},
                    {"size_bytes", disk.size_bytes()},
                    {"volume", disk.volume()},
                    {"pool", disk.pool()},
                    {"state", disk.state()}});
  }
  return context.json ? JsonLine({{"disks", std::move(json)}}) : table.ToString();
}

absl::StatusOr<std::string> AdminShow(AdminContext& context, const std::vector<std::string>&) {
  auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  auto reply = context.api.Show(*volume);
  if (!reply.ok()) return reply.status();
  Json mdcs = Json::array();
  Table controllers(
      {{"MDC"}, {"role"}, {"epoch", kRight}, {"host"}, {"release"}, {"protocol", kRight}});
  AddControllers(context.api.Everywhere(), *volume, controllers, mdcs);
  if (!context.json) return ShowText(*reply, controllers);
  Json pools = Json::array(), alarms = Json::array(), notes = Json::array();
  for (const auto& pool : reply->pools()) pools.push_back(PoolJson(pool));
  for (const std::string& note : reply->notes()) notes.push_back(note);
  for (const std::string& alarm : reply->alarms()) alarms.push_back(alarm);
  return JsonLine(
      {{"name", reply->name()},
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
       {"dump", reply->has_kept_dump() ? Json(UuidText(reply->kept_dump().dump())) : Json()},
       {"dump_taken", reply->has_kept_dump() ? Json(IsoText(reply->kept_dump().taken())) : Json()},
       {"waiting_bytes", reply->waiting_bytes()},
       {"controllers", std::move(mdcs)},
       {"alarms", std::move(alarms)},
       {"notes", std::move(notes)},
       {"pools", std::move(pools)}});
}

absl::StatusOr<std::string> AdminStat(AdminContext& context,
                                      const std::vector<std::string>& words) {
  auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  auto reply = context.api.Stat(*volume);
  if (!reply.ok()) return reply.status();
  const std::string prefix = words.size() > 1 ? words[1] : "";
  Json counters = Json::array();
  Table table({{"counter"}, {"value", kRight}});
  for (const auto& counter : reply->counters()) {
    if (!absl::StartsWith(counter.name(), prefix)) continue;
    table.Add({counter.name(), absl::StrCat(counter.value())});
    counters.push_back({{"name", counter.name()}, {"value", counter.value()}});
  }
  if (context.json) {
    return JsonLine({{"name", *volume},
                     {"epoch", reply->epoch()},
                     {"sequence", reply->sequence()},
                     {"uptime_ms", reply->uptime_ms()},
                     {"counters", std::move(counters)}});
  }
  return absl::StrCat(
      "Volume ", *volume, ", epoch ", reply->epoch(), ", sequence ", reply->sequence(), ", up ",
      absl::FormatDuration(absl::Seconds(reply->uptime_ms() / 1000)), "\n\n", table.ToString());
}

absl::StatusOr<std::string> AdminWho(AdminContext& context, const std::vector<std::string>&) {
  auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  auto reply = context.api.Who(*volume);
  if (!reply.ok()) return reply.status();
  Json sessions = Json::array();
  Table table({{"session", kRight},
               {"host"},
               {"certificate"},
               {"mounted at"},
               {"export"},
               {"release"},
               {"protocol", kRight},
               {"since"},
               {"connected"},
               {"state"},
               {"lease left", kRight},
               {"opens", kRight},
               {"tokens", kRight},
               {"operations", kRight}});
  for (const auto& session : reply->sessions()) {
    table.Add({absl::StrCat(session.session()), session.host(), session.certificate(),
               session.mount_point(), session.exported(), OrDash(session.program()),
               session.protocol() == 0 ? "-" : absl::StrCat(session.protocol()),
               LocalText(session.registered()), session.connected() ? "yes" : "no", session.state(),
               absl::FormatDuration(absl::Milliseconds(session.lease_left_ms())),
               absl::StrCat(session.opens()), absl::StrCat(session.tokens()),
               absl::StrCat(session.operations())});
    sessions.push_back({{"session", session.session()},
                        {"host", session.host()},
                        {"certificate", session.certificate()},
                        {"mount_point", session.mount_point()},
                        {"export", session.exported()},
                        {"program", session.program()},
                        {"protocol", session.protocol()},
                        {"registered", IsoText(session.registered())},
                        {"connected", session.connected()},
                        {"state", session.state()},
                        {"lease_left_ms", session.lease_left_ms()},
                        {"opens", session.opens()},
                        {"tokens", session.tokens()},
                        {"operations", session.operations()}});
  }
  return context.json ? JsonLine({{"name", *volume}, {"sessions", std::move(sessions)}})
                      : table.ToString();
}

namespace {

// To the end of a file, however far that is.
constexpr std::uint64_t kToEnd = (std::uint64_t{1} << 63) - 1;

absl::StatusOr<v1::LocksReply> BreakLocks(AdminContext& context, const std::string& volume,
                                          const std::vector<std::string>& words) {
  std::uint64_t inode = 0, session = 0;
  if (words.size() < 3 || words[1] != "break" || !absl::SimpleAtoi(words[2], &inode) ||
      inode == 0 || (words.size() > 3 && !absl::SimpleAtoi(words[3], &session))) {
    return absl::InvalidArgumentError(
        "use: locks [break INODE [SESSION]], with the numbers that \"locks\" shows");
  }
  v1::BreakLocksRequest request;
  request.set_volume(volume);
  request.set_inode(inode);
  request.set_session(session);
  auto reply = context.api.BreakLocks(request);
  if (reply.ok() && reply->locks().empty()) {
    return absl::NotFoundError(absl::StrCat("nobody holds a lock on inode ", inode,
                                            session == 0 ? "" : " in that session"));
  }
  return reply;
}

}  // namespace

absl::StatusOr<std::string> AdminLocks(AdminContext& context,
                                       const std::vector<std::string>& words) {
  auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  const bool breaks = words.size() > 1;
  auto reply = breaks ? BreakLocks(context, *volume, words) : context.api.Locks(*volume);
  if (!reply.ok()) return reply.status();
  Json locks = Json::array();
  Table table({{"inode", kRight},
               {"kind"},
               {"type"},
               {"first byte", kRight},
               {"last byte", kRight},
               {"session", kRight},
               {"host"},
               {"process", kRight},
               {"state"}});
  for (const auto& lock : reply->locks()) {
    const std::string state = lock.waiting() ? "waits" : breaks ? "broken" : "held";
    table.Add({absl::StrCat(lock.inode()), lock.kind(), lock.type(), absl::StrCat(lock.first()),
               lock.last() >= kToEnd ? "end" : absl::StrCat(lock.last()),
               absl::StrCat(lock.session()), lock.host(), absl::StrCat(lock.pid()), state});
    locks.push_back({{"inode", lock.inode()},
                     {"kind", lock.kind()},
                     {"type", lock.type()},
                     {"first", lock.first()},
                     {"last", lock.last()},
                     {"session", lock.session()},
                     {"host", lock.host()},
                     {"pid", lock.pid()},
                     {"state", state}});
  }
  if (context.json) return JsonLine({{"locks", std::move(locks)}});
  if (!breaks) return table.ToString();
  return absl::StrCat(
      "Warning: these processes go on in the belief that they hold what others may ",
      "lock now; end them.\n\n", table.ToString());
}

}  // namespace reel::tools
