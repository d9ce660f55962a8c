// The commands of reeladm that have to do with fencing. JSON keys are those of
// proto/admin.proto.
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tools/admin/admin_commands.h"
#include "tools/lib/cli.h"
#include "tools/lib/table.h"
#include "volume/format/reservation_key.h"

namespace reel::tools {

using Json = nlohmann::ordered_json;

absl::StatusOr<std::string> AdminEvict(AdminContext& context,
                                       const std::vector<std::string>& words) {
  v1::EvictRequest request;
  std::uint64_t session = 0;
  if (words.size() < 2 || !absl::SimpleAtoi(words[1], &session) || session == 0) {
    return absl::InvalidArgumentError("use: evict SESSION, with a number that \"who\" shows");
  }
  auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  request.set_volume(*volume);
  request.set_session(session);
  if (absl::Status status = Confirm(context, absl::StrCat("End session ", session,
                                                          "? What its programs have not synced is "
                                                          "lost."));
      !status.ok()) {
    return status;
  }
  if (auto reply = context.api.Evict(request); !reply.ok()) return reply.status();
  if (context.json) return JsonText(Json{{"evicted", session}}) + "\n";
  return absl::StrCat("Session ", session,
                      " is ending: \"who\" lists it until it is off the LUNs. Its programs get EIO "
                      "for what was not synced;\nthe mount goes on under a new session.\n");
}

absl::StatusOr<std::string> AdminReservations(AdminContext& context,
                                              const std::vector<std::string>&) {
  auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  auto reply = context.api.Reservations(*volume);
  if (!reply.ok()) return reply.status();
  Json luns = Json::array();
  Table table({{"LUN"}, {"key"}, {"owner"}, {"holder"}, {"paths", Table::Align::kRight}});
  for (const auto& lun : reply->luns()) {
    if (!lun.problem().empty()) table.Add({lun.name(), "-", lun.problem(), "-", "-"});
    Json keys = Json::array();
    for (const auto& key : lun.keys()) {
      table.Add({lun.name(), KeyText(key.key()), key.owner(), key.holder() ? "yes" : "no",
                 absl::StrCat(key.paths())});
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
  return context.json ? JsonText(Json{{"luns", std::move(luns)}}) + "\n" : table.ToString();
}

}  // namespace reel::tools
