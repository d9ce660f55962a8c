// reeladm stat and top: what a volume counts, and how fast. A rate is what was added between two
// looks: the second one of a command that waits between them, or the next one of --watch.
#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "tools/commands/command_table.h"
#include "tools/commands/view.h"

namespace reel::tools {
namespace {

constexpr std::uint64_t kTopSeconds = 5;
constexpr const char* kTraffic[] = {"reads", "read_bytes", "writes", "written_bytes"};

// Null: it cannot be said, as nothing was looked at before, or a counter began anew.
Json Rate(std::uint64_t before, std::uint64_t now, std::uint64_t elapsed_ms) {
  if (elapsed_ms == 0 || now < before) return {};
  return (now - before) * 1000 / elapsed_ms;
}

std::uint64_t NumberIn(const Json& row, const std::string& member) {
  return row.at(member).get<std::uint64_t>();
}

// The row of the earlier list that has the same `member`; null: there is none.
const Json* SameRow(const Json& rows, const std::string& member, const Json& value) {
  for (const Json& row : rows) {
    if (row.at(member) == value) return &row;
  }
  return nullptr;
}

// ---- stat ----

absl::StatusOr<Json> Stat(AdminContext& context, const Words& words) {
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  const auto reply = context.api.AskOf<v1::StatReply, v1::StatRequest>(*volume);
  if (!reply.ok()) return reply.status();
  const std::string prefix = words.size() > 1 ? words[1] : "";
  const Json* before = context.previous;
  if (before != nullptr && (*before)["epoch"] != reply->epoch()) before = nullptr;
  const std::uint64_t elapsed_ms =
      before == nullptr ? 0 : reply->uptime_ms() - NumberIn(*before, "uptime_ms");
  Json counters = Json::array();
  for (const auto& counter : reply->counters()) {
    if (!absl::StartsWith(counter.name(), prefix)) continue;
    const Json* last =
        before == nullptr ? nullptr : SameRow((*before)["counters"], "name", counter.name());
    counters.push_back(
        {{"name", counter.name()},
         {"value", counter.value()},
         {"per_second",
          last == nullptr ? Json() : Rate(NumberIn(*last, "value"), counter.value(), elapsed_ms)}});
  }
  return Json{{"name", *volume},
              {"epoch", reply->epoch()},
              {"sequence", reply->sequence()},
              {"uptime_ms", reply->uptime_ms()},
              {"counters", std::move(counters)}};
}

std::string StatText(const Json& json) {
  std::vector<Column> columns = {{"counter", "name"}, {"value", "value", Cell::kNumber}};
  const auto has_rate = [](const Json& counter) { return !counter["per_second"].is_null(); };
  if (std::any_of(json["counters"].begin(), json["counters"].end(), has_rate)) {
    columns.push_back({"a second", "per_second", Cell::kNumber});
  }
  return absl::StrCat("Volume ", json["name"].get<std::string>(), ", epoch ",
                      NumberIn(json, "epoch"), ", sequence ", NumberIn(json, "sequence"), ", up ",
                      CellText(NumberIn(json, "uptime_ms") / 1000 * 1000, Cell::kDuration), "\n\n",
                      TableOf(json["counters"], columns));
}

// ---- top ----

std::uint64_t NowMs() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

// What each client has done since it mounted: of LUNs as it said at `said_at_ms`, of operations as
// the controller counts them at `asked_at_ms`.
absl::StatusOr<Json> Look(AdminContext& context, const std::string& volume) {
  v1::WhoRequest request;
  request.set_volume(volume);
  request.set_luns(true);
  const auto reply = context.api.Ask<v1::WhoReply>(request);
  if (!reply.ok()) return reply.status();
  Json clients = Json::array();
  for (const auto& session : reply->sessions()) {
    std::map<std::string, std::uint64_t> sums;
    Json luns = Json::array();
    for (const auto& lun : session.luns()) {
      Json row = {{"lun", lun.name()},
                  {"reads", lun.reads()},
                  {"read_bytes", lun.read_bytes()},
                  {"writes", lun.writes()},
                  {"written_bytes", lun.written_bytes()}};
      for (const char* member : kTraffic) sums[member] += NumberIn(row, member);
      luns.push_back(std::move(row));
    }
    Json client = {{"session", session.session()},
                   {"host", session.host()},
                   {"said_at_ms", session.luns_at_ms()},
                   {"operations", session.operations()}};
    for (const char* member : kTraffic) client[member] = sums[member];
    client["luns"] = std::move(luns);
    clients.push_back(std::move(client));
  }
  return Json{{"name", volume}, {"asked_at_ms", NowMs()}, {"clients", std::move(clients)}};
}

// Adds "…_per_second" to a client of `now`. One that has said nothing since keeps its rates.
void AddRates(const Json* before, std::uint64_t asked_ms, Json& client) {
  const std::uint64_t said_ms = before == nullptr ? 0
                                                  : NumberIn(client, "said_at_ms") -
                                                        std::min(NumberIn(client, "said_at_ms"),
                                                                 NumberIn(*before, "said_at_ms"));
  const auto add = [&](const Json* last, Json& row, const std::string& member,
                       std::uint64_t elapsed_ms) {
    const std::string rate = member + "_per_second";
    row[rate] = last == nullptr ? Json()
                : elapsed_ms == 0
                    ? last->value(rate, Json())
                    : Rate(NumberIn(*last, member), NumberIn(row, member), elapsed_ms);
  };
  add(before, client, "operations", asked_ms);
  for (const char* member : kTraffic) add(before, client, member, said_ms);
  for (Json& lun : client["luns"]) {
    const Json* last = before == nullptr ? nullptr : SameRow((*before)["luns"], "lun", lun["lun"]);
    for (const char* member : kTraffic) add(last, lun, member, said_ms);
  }
}

// Of all clients together, by LUN.
Json SumByLun(const Json& clients) {
  Json luns = Json::array();
  for (const Json& client : clients) {
    for (const Json& lun : client["luns"]) {
      auto row = std::find_if(luns.begin(), luns.end(),
                              [&](const Json& known) { return known["lun"] == lun["lun"]; });
      if (row == luns.end()) {
        luns.push_back({{"lun", lun["lun"]}});
        row = luns.end() - 1;
        for (const char* member : kTraffic) (*row)[absl::StrCat(member, "_per_second")] = Json();
      }
      for (const char* member : kTraffic) {
        const std::string rate = absl::StrCat(member, "_per_second");
        if (lun[rate].is_null()) continue;
        const std::uint64_t sum = (*row)[rate].is_null() ? 0 : NumberIn(*row, rate);
        (*row)[rate] = sum + NumberIn(lun, rate);
      }
    }
  }
  return luns;
}

absl::StatusOr<Json> Top(AdminContext& context, const Words& words) {
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  const auto seconds = SecondsAt(words, 1, kTopSeconds);
  if (!seconds.ok()) return seconds.status();
  Json before;
  if (context.previous != nullptr) {
    before = *context.previous;
  } else {
    auto first = Look(context, *volume);
    if (!first.ok()) return first;
    before = *std::move(first);
    if (absl::Status s = context.wait(*seconds); !s.ok()) return s;
  }
  auto now = Look(context, *volume);
  if (!now.ok()) return now;
  const std::uint64_t asked_ms = NumberIn(*now, "asked_at_ms") - NumberIn(before, "asked_at_ms");
  for (Json& client : (*now)["clients"]) {
    AddRates(SameRow(before["clients"], "session", client["session"]), asked_ms, client);
  }
  (*now)["luns"] = SumByLun((*now)["clients"]);
  return now;
}

std::string TopText(const Json& json) {
  const auto with = [](std::vector<Column> first) {
    first.push_back({"reading", "read_bytes_per_second", Cell::kSpeed});
    first.push_back({"reads/s", "reads_per_second", Cell::kNumber});
    first.push_back({"writing", "written_bytes_per_second", Cell::kSpeed});
    first.push_back({"writes/s", "writes_per_second", Cell::kNumber});
    return first;
  };
  return absl::StrCat(
      TableOf(json["clients"], with({{"session", "session", Cell::kNumber},
                                     {"host", "host"},
                                     {"operations/s", "operations_per_second", Cell::kNumber}})),
      "\n", TableOf(json["luns"], with({{"LUN", "lun"}})));
}

}  // namespace

AdminCommands TrafficCommands() {
  return {{.name = "stat",
           .usage = "[PREFIX]",
           .help = "counters of a volume since its MDC started; PREFIX picks some",
           .run = Stat,
           .text = StatText,
           .examples = {"stat", "stat commit."},
           .watched = true},
          {.name = "top",
           .usage = "[SECONDS]",
           .help = "how much each client reads and writes now, and each LUN gives and takes",
           .run = Top,
           .text = TopText,
           .examples = {"top", "top 30"},
           .watched = true}};
}

}  // namespace reel::tools
