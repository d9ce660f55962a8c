// Scrubs: the metadata are checked while the volume is in use (docs/internals/scrub.md). The core
// says what is to be looked at, and keeps what was found; the looking is the server's.
#include <ctime>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/base/alarm.h"
#include "mdc/core/core_impl.h"
#include "proto/convert.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

// So many of its lines go into the log.
constexpr int kLoggedLines = 20;

std::string DayText(const v1::Time& time) {
  const std::time_t seconds = time.seconds();
  std::tm parts{};
  char text[32];
  gmtime_r(&seconds, &parts);
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

std::string FoundText(const v1::ScrubRecord& found, const std::string& volume) {
  return absl::StrCat(
      "the scrub of ", DayText(found.as_of()), " found ", found.problems(),
      found.problems() == 1 ? " problem" : " problems",
      " in the metadata, first: ", found.lines_size() > 0 ? found.lines(0) : "",
      "; \"reeladm scrub\" lists them; to mend them: reeladm stop, then fsck.reelfs "
      "--repair ",
      volume, " on a controller, then reeladm start and reeladm scrub start");
}

}  // namespace

v1::JobRecord* CoreImpl::RunningScrub(JobId job) {
  v1::JobRecord* const record = work_.moves.jobs.Find(job);
  const bool runs = record != nullptr && record->kind() == v1::JOB_SCRUB &&
                    record->state() == v1::JOB_RUNNING && health_.ok();
  return runs ? record : nullptr;
}

std::optional<Core::ScrubOrder> CoreImpl::BeginScrub() const {
  const std::optional<JobId> job = work_.moves.jobs.Scrub();
  if (!job || !health_.ok()) return std::nullopt;
  const v1::JobRecord& record = work_.moves.jobs.all().at(*job);
  if (record.state() != v1::JOB_RUNNING) return std::nullopt;
  return ScrubOrder{.job = *job,
                    .rate_records = record.scrub().rate_records(),
                    .as_of = clock_.WallNow(),
                    .volume = descriptor_,
                    .view = db_.TakeSnapshot()};
}

bool CoreImpl::NoteScrub(JobId job, std::uint64_t looked, std::uint64_t total) {
  v1::JobRecord* const record = RunningScrub(job);
  if (record == nullptr) return false;
  record->mutable_scrub()->set_looked_records(looked);
  record->mutable_scrub()->set_total_records(std::max(looked, total));
  return true;
}

void CoreImpl::EndScrub(JobId job, const absl::StatusOr<v1::ScrubRecord>& found) {
  v1::JobRecord* const record = RunningScrub(job);
  if (record == nullptr) return;
  std::string problem;
  if (found.ok()) {
    v1::ScrubRecord kept = *found;
    kept.set_rate_records(record->scrub().rate_records());
    for (int i = 0; i < kept.lines_size() && i < kLoggedLines; ++i) {
      spdlog::error("volume {}: scrub: {}", descriptor_.name, kept.lines(i));
    }
    if (kept.problems() > 0) {
      spdlog::error("volume {}: {}", descriptor_.name, FoundText(kept, descriptor_.name));
    } else {
      spdlog::info("volume {}: job {} (scrub) found nothing wrong with {} records",
                   descriptor_.name, job.value(), kept.looked_records());
    }
    *record->mutable_scrub() = std::move(kept);
  } else {
    problem = std::string(found.status().message());
    spdlog::error("volume {}: job {} (scrub) failed: {}", descriptor_.name, job.value(), problem);
  }
  WriteBatch batch;
  work_.moves.jobs.End(job, found.ok() ? v1::JOB_DONE : v1::JOB_FAILED, std::move(problem),
                       ToProto(clock_.WallNow()), batch);
  Sequence sequence;
  if (Apply(batch, &sequence)) outbox_.sync_wish.Ask();
}

// By the time at which the last one began, so that it stays at its hour.
void CoreImpl::RunScrubSchedule() {
  if (options_.scrub_every_seconds == 0 || clock_.NowMs() < work_.scrub.next_schedule_ms) return;
  work_.scrub.next_schedule_ms = clock_.NowMs() + ScrubWork::kScheduleLookMs;
  if (grace_.on() || work_.moves.jobs.Scrub() || store_room_.full()) return;
  const std::int64_t now = clock_.WallNow().seconds;
  for (const auto& [job, record] : work_.moves.jobs.all()) {
    const auto due =
        record.started().seconds() + static_cast<std::int64_t>(options_.scrub_every_seconds);
    if (record.kind() == v1::JOB_SCRUB && now < due) return;
  }
  v1::StartJobRequest request;
  request.set_kind(v1::JOB_SCRUB);
  const auto begun = StartJob(request);
  if (begun.ok()) {
    spdlog::info("volume {}: job {} (scrub) was begun by the schedule", descriptor_.name,
                 begun->job.value());
  }
}

void CoreImpl::DescribeScrub(v1::ShowReply& reply) const {
  const v1::JobRecord* const last = work_.moves.jobs.LastScrub();
  if (last != nullptr && last->scrub().problems() > 0) {
    AddAlarm(reply, v1::ALARM_SCRUB_FOUND_PROBLEMS, FoundText(last->scrub(), descriptor_.name));
  }
}

}  // namespace reel::mdc
