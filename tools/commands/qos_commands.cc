// reeladm qos: what LUN sets carry, who has reserved what of it, and what each gets now.
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tools/commands/command_table.h"
#include "tools/commands/mounted_file.h"
#include "tools/commands/view.h"
#include "volume/bandwidth/stream_rate.h"
#include "volume/base/size.h"

namespace reel::tools {
namespace {

using Reply = v1::BandwidthReply;

std::string KindWord(v1::ReservationKind kind) {
  switch (kind) {
    case v1::RESERVATION_CLIENT:
      return "client";
    case v1::RESERVATION_TREE:
      return "tree";
    case v1::RESERVATION_FILE:
      return "file";
    case v1::RESERVATION_STREAM:
      return "stream";
    default:
      return "";
  }
}

v1::ReservationKind KindOf(const std::string& word) {
  if (word == "client") return v1::RESERVATION_CLIENT;
  return word == "tree" ? v1::RESERVATION_TREE : v1::RESERVATION_FILE;
}

Json SetsJson(const Reply& reply) {
  Json sets = Json::array();
  for (const Reply::Set& set : reply.sets()) {
    sets.push_back({{"set", absl::StrCat(set.pool(), "/", set.stripe_set())},
                    {"luns", ListOf(set.luns())},
                    {"capacity_bytes", set.rate_bytes()},
                    {"capacity_requests", set.rate_requests()},
                    {"reservable_bytes", set.reservable_bytes()},
                    {"reserved_bytes", set.reserved_bytes()},
                    {"dealt", set.dealt()},
                    {"used_bytes", set.used_bytes()},
                    {"others_percent", set.others_percent()}});
  }
  return sets;
}

Json ReservationsJson(const Reply& reply) {
  Json reservations = Json::array();
  for (const Reply::Reservation& one : reply.reservations()) {
    const v1::ReservationRecord& record = one.record();
    const bool stream = record.kind() == v1::RESERVATION_STREAM;
    reservations.push_back(
        {{"reservation", one.reservation()},
         {"kind", KindWord(record.kind())},
         {"name", stream ? absl::StrCat("inode ", record.inode()) : record.name()},
         {"host", one.host()},
         {"rate_bytes", record.rate_bytes()},
         {"frames", record.frames()},
         {"frame_bytes", record.frame_bytes()},
         {"pools", ListOf(one.pools())},
         {"used_bytes", one.used_bytes()},
         {"made", IsoText(record.made())}});
  }
  return reservations;
}

Json SharesJson(const Reply& reply) {
  Json shares = Json::array();
  for (const Reply::Share& share : reply.shares()) {
    shares.push_back({{"session", share.session()},
                      {"host", share.session() == 0 ? "(jobs)" : share.host()},
                      {"set", absl::StrCat(share.pool(), "/", share.stripe_set())},
                      {"reservation", share.reservation()},
                      {"rate_bytes", share.rate_bytes()},
                      {"used_bytes", share.used_bytes()},
                      {"held", share.held()}});
  }
  return shares;
}

absl::StatusOr<Json> Show(AdminContext& context) {
  const auto reply = AskOfVolume<Reply, v1::BandwidthRequest>(context);
  if (!reply.ok()) return reply.status();
  return Json{{"sets", SetsJson(*reply)},
              {"reservations", ReservationsJson(*reply)},
              {"shares", SharesJson(*reply)},
              {"unpaced", ListOf(reply->unpaced())}};
}

absl::StatusOr<Json> Change(AdminContext& context, v1::SetBandwidthRequest request) {
  if (request.volume().empty()) {
    const auto volume = ChosenVolume(context);
    if (!volume.ok()) return volume.status();
    request.set_volume(*volume);
  }
  const auto reply = context.api.Ask<v1::SetBandwidthReply>(request, AdminApi::Repeat::kNo);
  if (!reply.ok()) return reply.status();
  return Show(context);
}

// "data", or "data/1".
absl::Status TakeSet(const std::string& word, v1::SetBandwidthRequest::Capacity& capacity) {
  const std::size_t slash = word.find('/');
  capacity.set_pool(word.substr(0, slash));
  if (slash == word.npos) return absl::OkStatus();
  std::uint32_t set = 0;
  if (!absl::SimpleAtoi(word.substr(slash + 1), &set)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", word, "\" is no LUN set: POOL or POOL/NUMBER, as \"qos\" shows them"));
  }
  capacity.set_stripe_set(set);
  return absl::OkStatus();
}

absl::StatusOr<Json> SetCapacity(AdminContext& context, const Words& words) {
  v1::SetBandwidthRequest request;
  v1::SetBandwidthRequest::Capacity& capacity = *request.mutable_capacity();
  if (absl::Status taken = TakeSet(words[2], capacity); !taken.ok()) return taken;
  std::uint64_t requests = 0;
  if (words[3] != "none") {
    const auto rate = ParseStreamRate(words[3]);
    if (!rate.ok()) return rate.status();
    capacity.set_rate_bytes(rate->rate_bytes);
  }
  if (words.size() > 4 && !absl::SimpleAtoi(words[4], &requests)) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", words[4], "\" is no number of requests a second"));
  }
  capacity.set_rate_requests(requests);
  return Change(context, std::move(request));
}

// A file is known by its number, so that another volume's of that path is not meant.
absl::Status NameFile(AdminContext& context, const std::string& path,
                      v1::SetBandwidthRequest& request, std::uint64_t& inode) {
  const auto mounted = FindMounted(path);
  if (!mounted || (!context.volume.empty() && context.volume != mounted->volume)) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, " is no file of ", context.volume.empty() ? "a volume" : context.volume,
                     " that is mounted here; run this on a host with a mount"));
  }
  request.set_volume(mounted->volume);
  inode = mounted->inode;
  return absl::OkStatus();
}

absl::StatusOr<Json> Reserve(AdminContext& context, const Words& words) {
  v1::SetBandwidthRequest request;
  v1::SetBandwidthRequest::Reserve& reserve = *request.mutable_reserve();
  reserve.set_kind(KindOf(words[2]));
  reserve.set_name(words[3]);
  const auto rate = ParseStreamRate(words[4]);
  if (!rate.ok()) return rate.status();
  reserve.set_rate_bytes(rate->rate_bytes);
  reserve.set_frames(rate->frames);
  reserve.set_frame_bytes(rate->frame_bytes);
  for (std::size_t i = 5; i < words.size(); ++i) reserve.add_pools(words[i]);
  if (words[2] == "file") {
    std::uint64_t inode = 0;
    if (absl::Status named = NameFile(context, words[3], request, inode); !named.ok()) return named;
    reserve.set_inode(inode);
  }
  return Change(context, std::move(request));
}

absl::StatusOr<Json> Release(AdminContext& context, const Words& words) {
  v1::SetBandwidthRequest request;
  v1::SetBandwidthRequest::Release& release = *request.mutable_release();
  if (words.size() == 3) {
    std::uint64_t reservation = 0;
    if (!absl::SimpleAtoi(words[2], &reservation) || reservation == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", words[2], "\" is no number of a reservation; \"qos\" shows them"));
    }
    release.set_reservation(reservation);
    return Change(context, std::move(request));
  }
  release.set_kind(KindOf(words[2]));
  release.set_name(words[3]);
  if (words[2] == "file") {
    std::uint64_t inode = 0;
    if (absl::Status named = NameFile(context, words[3], request, inode); !named.ok()) return named;
    release.set_inode(inode);
  }
  return Change(context, std::move(request));
}

absl::StatusOr<Json> Qos(AdminContext& context, const Words& words) {
  const std::string what = words.size() > 1 ? words[1] : "";
  if (what == "capacity") return SetCapacity(context, words);
  if (what == "reserve") return Reserve(context, words);
  if (what == "release") return Release(context, words);
  return Show(context);
}

std::string QosText(const Json& json) {
  Json sets = json["sets"];
  for (Json& set : sets) {
    const bool known = set["capacity_bytes"] != 0;
    if (!known) set["capacity_bytes"] = Json();
    if (!known) set["reservable_bytes"] = Json();
    if (set["dealt"] == false) set["used_bytes"] = Json();
    set["others"] = set["dealt"] == false
                        ? Json()
                        : Json(absl::StrCat(set["others_percent"].get<std::uint32_t>(), " %"));
  }
  std::string text = TableOf(sets, {{"LUN set", "set"},
                                    {"carries", "capacity_bytes", Cell::kSpeed},
                                    {"requests/s", "capacity_requests", Cell::kCount},
                                    {"reservable", "reservable_bytes", Cell::kSpeed},
                                    {"reserved", "reserved_bytes", Cell::kSpeed},
                                    {"used", "used_bytes", Cell::kSpeed},
                                    {"others get of the rest", "others"}});
  if (json["reservations"].empty())
    return text + "\nNothing is reserved, so nobody is held back.\n";
  Json reservations = json["reservations"];
  for (Json& one : reservations) {
    if (one["frames"] != 0) {
      one["asked"] = absl::StrCat(one["frames"].get<std::uint32_t>(), " x ",
                                  FormatSize(one["frame_bytes"].get<std::uint64_t>()));
    } else {
      one["asked"] = "";
    }
  }
  absl::StrAppend(&text, "\n",
                  TableOf(reservations, {{"reservation", "reservation", Cell::kNumber},
                                         {"for", "kind"},
                                         {"name", "name"},
                                         {"host", "host"},
                                         {"rate", "rate_bytes", Cell::kSpeed},
                                         {"frames", "asked"},
                                         {"pools", "pools", Cell::kList},
                                         {"gets", "used_bytes", Cell::kSpeed}}));
  if (!json["shares"].empty()) {
    absl::StrAppend(&text, "\n",
                    TableOf(json["shares"], {{"session", "session", Cell::kNumber},
                                             {"host", "host"},
                                             {"LUN set", "set"},
                                             {"reservation", "reservation", Cell::kCount},
                                             {"may send", "rate_bytes", Cell::kSpeed},
                                             {"sends", "used_bytes", Cell::kSpeed},
                                             {"held back", "held", Cell::kYesNo}}));
  }
  for (const Json& host : json["unpaced"]) {
    absl::StrAppend(&text, "\nNot held back: ", host.get<std::string>(),
                    ", whose release of mount.reelfs does not know how.\n");
  }
  return text;
}

}  // namespace

AdminCommands QosCommands() {
  return {
      {.name = "qos",
       .usage = "[capacity POOL RATE [REQUESTS] | reserve client|tree|file NAME RATE [POOL...] | "
                "release client|tree|file NAME | release RESERVATION]",
       .help = "guaranteed bandwidth: what LUNs carry, who has reserved what, and what each gets",
       .run = Qos,
       .text = QosText,
       .examples = {"qos", "qos capacity data 1600M 40000", "qos capacity data/1 none",
                    "qos reserve client grade1 24x50M", "qos reserve tree dailies 400M data",
                    "qos reserve file /mnt/reel/show.mov 200M", "qos release client grade1",
                    "qos release 3"},
       .watched = true}};
}

}  // namespace reel::tools
