// reeladm scrub: the metadata are checked while the volume is in use.
#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tools/commands/command_table.h"
#include "tools/commands/view.h"

namespace reel::tools {
namespace {

using Job = v1::JobsReply::Job;

bool IsOver(const Job& job) {
  return job.record().state() != v1::JOB_RUNNING && job.record().state() != v1::JOB_PAUSED;
}

const char* StateWord(const Job& job) {
  switch (job.record().state()) {
    case v1::JOB_RUNNING:
      return "running";
    case v1::JOB_PAUSED:
      return "paused";
    case v1::JOB_DONE:
      return "done";
    case v1::JOB_CANCELLED:
      return "cancelled";
    case v1::JOB_FAILED:
      return "failed";
    default:
      return "unknown";
  }
}

Json FoundJson(const Job& job) {
  const v1::ScrubRecord& scrub = job.record().scrub();
  Json by_pieces = Json::array();
  for (const std::uint64_t files : scrub.files_by_pieces()) by_pieces.push_back(files);
  return {{"job", job.job()},
          {"as_of", IsoText(scrub.as_of())},
          {"ended", IsoText(job.record().ended())},
          {"records", scrub.looked_records()},
          {"problem_count", scrub.problems()},
          {"problems", ListOf(scrub.lines())},
          {"files", scrub.files()},
          {"directories", scrub.directories()},
          {"extents", scrub.extents()},
          {"pieces", scrub.pieces()},
          {"files_by_pieces", std::move(by_pieces)}};
}

// The latest scrub, and what the last one that came to its end has found.
Json ScrubsOf(const std::string& volume, const v1::JobsReply& reply) {
  Json data{{"name", volume},     {"job", nullptr},    {"state", "none"}, {"looked_at_records", 0},
            {"total_records", 0}, {"rate_records", 0}, {"problem", ""},   {"found", nullptr}};
  for (const Job& job : reply.jobs()) {
    const v1::JobRecord& record = job.record();
    if (record.kind() != v1::JOB_SCRUB) continue;
    data["job"] = job.job();
    data["state"] = StateWord(job);
    data["looked_at_records"] = record.scrub().looked_records();
    data["total_records"] = record.scrub().total_records();
    data["rate_records"] = record.scrub().rate_records();
    data["problem"] = record.problem();
    if (record.state() == v1::JOB_DONE) data["found"] = FoundJson(job);
  }
  return data;
}

std::string ScrubText(const Json& json) {
  std::string text;
  if (json["job"].is_null()) {
    return "The metadata were never scrubbed. \"scrub start\" begins it.\n";
  }
  absl::StrAppend(&text, "Scrub, job ", json["job"].get<std::uint64_t>(), ": ",
                  json["state"].get<std::string>());
  const auto looked = json["looked_at_records"].get<std::uint64_t>();
  const auto total = json["total_records"].get<std::uint64_t>();
  if (json["state"] == "running") {
    absl::StrAppend(&text, ", ", looked, " of about ", total, " records (", Percent(looked, total),
                    ")");
  }
  if (json["problem"] != "") absl::StrAppend(&text, ": ", json["problem"].get<std::string>());
  text += "\n";
  const Json& found = json["found"];
  if (found.is_null()) return text;
  absl::StrAppend(&text, "As of ", CellText(found["as_of"], Cell::kTime), ": ",
                  found["problem_count"].get<std::uint64_t>(), " problems in ",
                  found["records"].get<std::uint64_t>(), " records of ",
                  found["files"].get<std::uint64_t>(), " files and ",
                  found["directories"].get<std::uint64_t>(), " directories\n");
  for (const Json& line : found["problems"]) {
    absl::StrAppend(&text, "  ", line.get<std::string>(), "\n");
  }
  const auto listed = static_cast<std::uint64_t>(found["problems"].size());
  const auto problems = found["problem_count"].get<std::uint64_t>();
  if (problems > listed) absl::StrAppend(&text, "  and ", problems - listed, " more\n");
  if (problems > 0) {
    absl::StrAppend(&text, "To mend them: reeladm stop, then fsck.reelfs --repair ",
                    json["name"].get<std::string>(),
                    " on a controller, then reeladm start and reeladm scrub start.\n");
  }
  return text;
}

// "start [rate RECORDS]".
absl::StatusOr<v1::StartJobRequest> StartOf(const Words& words) {
  v1::StartJobRequest request;
  request.set_kind(v1::JOB_SCRUB);
  if (words.size() < 4) return request;
  std::uint64_t rate = 0;
  if (!absl::SimpleAtoi(words[3], &rate) || rate == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", words[3],
        "\" is no rate: give how many records to look at in a second, e.g. rate 5000"));
  }
  request.set_rate_records(rate);
  return request;
}

// The scrub that is not over.
std::optional<std::uint64_t> UnendedIn(const v1::JobsReply& reply) {
  for (const Job& job : reply.jobs()) {
    if (job.record().kind() == v1::JOB_SCRUB && !IsOver(job)) return job.job();
  }
  return std::nullopt;
}

absl::Status Change(AdminContext& context, const std::string& volume, const Words& words) {
  if (words[1] == "start") {
    auto request = StartOf(words);
    if (!request.ok()) return request.status();
    request->set_volume(volume);
    return context.api.Ask<v1::JobsReply>(*request, AdminApi::Repeat::kNo).status();
  }
  const auto jobs = context.api.AskOf<v1::JobsReply, v1::JobsRequest>(volume);
  if (!jobs.ok()) return jobs.status();
  const std::optional<std::uint64_t> job = UnendedIn(*jobs);
  if (!job) {
    return absl::FailedPreconditionError(absl::StrCat("volume ", volume,
                                                      " is not being scrubbed; \"scrub start\" "
                                                      "begins it"));
  }
  v1::ChangeJobRequest request;
  request.set_volume(volume);
  request.set_job(*job);
  request.set_state(words[1] == "pause"    ? v1::JOB_PAUSED
                    : words[1] == "resume" ? v1::JOB_RUNNING
                                           : v1::JOB_CANCELLED);
  return context.api.Ask<v1::JobsReply>(request, AdminApi::Repeat::kNo).status();
}

absl::StatusOr<Json> Scrub(AdminContext& context, const Words& words) {
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  if (words.size() > 1) {
    if (absl::Status s = Change(context, *volume, words); !s.ok()) return s;
  }
  const auto reply = context.api.AskOf<v1::JobsReply, v1::JobsRequest>(*volume);
  if (!reply.ok()) return reply.status();
  return ScrubsOf(*volume, *reply);
}

}  // namespace

AdminCommand ScrubCommand() {
  return {.name = "scrub",
          .usage = "[start [rate RECORDS] | pause | resume | cancel]",
          .help = "check the metadata beside the work, as a job; alone: what the last check found",
          .run = Scrub,
          .text = ScrubText,
          .examples = {"scrub start", "scrub start rate 20000", "scrub"},
          .watched = true};
}

}  // namespace reel::tools
