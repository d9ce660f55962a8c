// reeladm latency-test and trace: how long clients wait. The controller measures; the command says
// when to begin, and asks for the outcome.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "tools/commands/command_table.h"
#include "tools/commands/view.h"

namespace reel::tools {
namespace {

constexpr std::uint64_t kLatencySeconds = 2;
constexpr std::uint64_t kTraceSeconds = 10;

absl::StatusOr<Json> Measure(AdminContext& context, v1::MeasureRequest::What what,
                             const std::string& client, std::uint64_t seconds) {
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  const auto session = SessionNamed(context, *volume, client);
  if (!session.ok()) return session.status();
  v1::MeasureRequest request;
  request.set_volume(*volume);
  request.set_session(*session);
  request.set_begin(what);
  if (const auto begun = context.api.Ask<v1::MeasureReply>(request); !begun.ok()) {
    return begun.status();
  }
  if (absl::Status s = context.wait(seconds); !s.ok()) return s;
  request.set_begin(v1::MeasureRequest::COLLECT);
  const auto reply = context.api.Ask<v1::MeasureReply>(request);
  if (!reply.ok()) return reply.status();
  Json series = Json::array();
  for (const auto& one : reply->series()) {
    const bool any = one.count() != 0;
    const auto us = [any](std::uint64_t value) { return any ? Json(value) : Json(); };
    series.push_back({{"session", one.session()},
                      {"host", one.host()},
                      {"operation", one.name()},
                      {"count", one.count()},
                      {"least_us", us(one.least_us())},
                      {"mean_us", us(one.mean_us())},
                      {"median_us", us(one.median_us())},
                      {"p99_us", us(one.p99_us())},
                      {"most_us", us(one.most_us())},
                      {"problem", one.problem()}});
  }
  return Json{
      {"name", *volume}, {"elapsed_ms", reply->elapsed_ms()}, {"series", std::move(series)}};
}

absl::StatusOr<Json> LatencyTest(AdminContext& context, const Words& words) {
  const auto seconds = SecondsAt(words, 2, kLatencySeconds);
  if (!seconds.ok()) return seconds.status();
  return Measure(context, v1::MeasureRequest::ROUND_TRIPS, words.size() > 1 ? words[1] : "all",
                 *seconds);
}

absl::StatusOr<Json> Trace(AdminContext& context, const Words& words) {
  const auto seconds = SecondsAt(words, 2, kTraceSeconds);
  if (!seconds.ok()) return seconds.status();
  return Measure(context, v1::MeasureRequest::OPERATIONS, words[1], *seconds);
}

std::string SeriesText(const Json& json) {
  return TableOf(json["series"], {{"session", "session", Cell::kNumber},
                                  {"host", "host"},
                                  {"operation", "operation"},
                                  {"count", "count", Cell::kNumber},
                                  {"least µs", "least_us", Cell::kNumber},
                                  {"mean", "mean_us", Cell::kNumber},
                                  {"median", "median_us", Cell::kNumber},
                                  {"99 %", "p99_us", Cell::kNumber},
                                  {"most", "most_us", Cell::kNumber},
                                  {"problem", "problem"}});
}

}  // namespace

AdminCommands MeasureCommands() {
  return {{.name = "latency-test",
           .usage = "[CLIENT [SECONDS]]",
           .help = "round trips between the MDC and its clients (or \"all\"), for 2 s",
           .run = LatencyTest,
           .text = SeriesText,
           .examples = {"latency-test", "latency-test edit-1 10"}},
          {.name = "trace",
           .usage = "CLIENT [SECONDS]",
           .help = "how long a client's operations take in the MDC, by kind, for 10 s",
           .run = Trace,
           .text = SeriesText,
           .examples = {"trace edit-1", "trace all 60"}}};
}

}  // namespace reel::tools
