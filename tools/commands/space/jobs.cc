#include "tools/commands/space/jobs.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tools/commands/view.h"
#include "volume/base/size.h"

namespace reel::tools {
namespace {

// "JOB_RUNNING" for people and programs: "running".
std::string Word(const std::string& name) {
  return absl::AsciiStrToLower(absl::StripPrefix(name, "JOB_"));
}

// Takes "rate SIZE" at the end off the words; 0: it is not there.
absl::StatusOr<std::uint64_t> TakeRate(Words& words) {
  if (words.size() < 3 || words[words.size() - 2] != "rate") return 0;
  const auto rate = ParseSize(words.back());
  if (!rate.ok() || *rate == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "\"", words.back(), "\" is no rate: give what to move in a second, e.g. rate 100M"));
  }
  words.resize(words.size() - 2);
  return *rate;
}

}  // namespace

Json JobsOf(const std::string& volume, const v1::JobsReply& reply) {
  Json jobs = Json::array();
  for (const auto& job : reply.jobs()) {
    const v1::JobRecord& record = job.record();
    const std::uint64_t block = job.block_bytes();
    jobs.push_back({{"job", job.job()},
                    {"kind", Word(v1::JobKind_Name(record.kind()))},
                    {"of", record.inode() != 0         ? absl::StrCat("inode ", record.inode())
                           : !record.subject().empty() ? record.subject()
                                                       : "all files"},
                    {"state", Word(v1::JobState_Name(record.state()))},
                    {"looked_at_bytes", record.looked_blocks() * block},
                    {"total_bytes", job.total_blocks() * block},
                    {"moved_bytes", record.moved_blocks() * block},
                    {"kept_bytes", record.kept_blocks() * block},
                    {"rate_bytes", record.rate_bytes()},
                    {"looked_at_records", record.scrub().looked_records()},
                    {"total_records", record.scrub().total_records()},
                    {"problems_found", record.scrub().problems()},
                    {"started", IsoText(record.started())},
                    {"ended", record.has_ended() ? Json(IsoText(record.ended())) : Json()},
                    {"problem", record.problem()}});
  }
  return Json{{"name", volume}, {"jobs", std::move(jobs)}};
}

std::string JobsText(const Json& json) {
  if (json["jobs"].empty()) return "There are no jobs.\n";
  Json rows = json["jobs"];
  for (Json& row : rows) {
    const bool scrub = row["kind"] == "scrub";
    for (const char* what : {"looked_at", "total"}) {
      row[what] = scrub ? CellText(row[absl::StrCat(what, "_records")], Cell::kNumber) + " records"
                        : CellText(row[absl::StrCat(what, "_bytes")], Cell::kSize);
    }
    if (row["problems_found"] != 0) {
      row["problem"] = CellText(row["problems_found"], Cell::kNumber) + " found; see \"scrub\"";
    }
  }
  return TableOf(rows, {{"job", "job", Cell::kNumber},
                        {"kind", "kind"},
                        {"of", "of"},
                        {"state", "state"},
                        {"looked at", "looked_at"},
                        {"in all", "total"},
                        {"moved", "moved_bytes", Cell::kSize},
                        {"kept", "kept_bytes", Cell::kSize},
                        {"since", "started", Cell::kTime},
                        {"ended", "ended", Cell::kTime},
                        {"problem", "problem"}});
}

absl::StatusOr<Words> WithoutRate(const Words& given, v1::StartJobRequest& request) {
  Words words = given;
  const auto rate = TakeRate(words);
  if (!rate.ok()) return rate.status();
  request.set_rate_bytes(*rate);
  return words;
}

absl::StatusOr<Json> StartJob(AdminContext& context, v1::StartJobRequest request) {
  const auto volume = ChosenVolume(context);
  if (!volume.ok()) return volume.status();
  request.set_volume(*volume);
  const auto reply = context.api.Ask<v1::JobsReply>(request, AdminApi::Repeat::kNo);
  if (!reply.ok()) return reply.status();
  return JobsOf(*volume, *reply);
}

}  // namespace reel::tools
