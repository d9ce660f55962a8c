#include "mdc/moves/job_table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/metadb/schema.h"

namespace reel::mdc {

absl::Status JobTable::Load(const MetaDb& db) {
  const std::string prefix = schema::Prefix(schema::Family::kJob);
  auto cursor = db.Scan(prefix, prefix, Tier::kAll);
  for (; cursor->Valid(); cursor->Next()) {
    const auto key = schema::Parse(cursor->key());
    if (!key.ok()) return key.status();
    v1::JobRecord record;
    if (!record.ParseFromArray(cursor->value().data(), static_cast<int>(cursor->value().size()))) {
      return absl::DataLossError(
          absl::StrCat("the record of job ", key->first, " is damaged; run fsck.reelfs"));
    }
    jobs_[JobId(key->first)] = std::move(record);
  }
  return cursor->status();
}

v1::JobRecord* JobTable::Find(JobId job) {
  const auto found = jobs_.find(job);
  return found == jobs_.end() ? nullptr : &found->second;
}

std::optional<JobId> JobTable::Restriping() const {
  for (const auto& [job, record] : jobs_) {
    if (record.kind() == v1::JOB_RESTRIPE && !IsOver(record)) return job;
  }
  return std::nullopt;
}

std::optional<JobId> JobTable::Current() const {
  for (const auto& [job, record] : jobs_) {
    if (record.state() == v1::JOB_RUNNING && record.kind() != v1::JOB_SCRUB) return job;
  }
  return std::nullopt;
}

std::optional<JobId> JobTable::Scrub() const {
  for (const auto& [job, record] : jobs_) {
    if (record.kind() == v1::JOB_SCRUB && !IsOver(record)) return job;
  }
  return std::nullopt;
}

const v1::JobRecord* JobTable::LastScrub() const {
  const v1::JobRecord* last = nullptr;
  for (const auto& [job, record] : jobs_) {
    if (record.kind() == v1::JOB_SCRUB && record.state() == v1::JOB_DONE) last = &record;
  }
  return last;
}

std::string_view JobTable::KindWord(v1::JobKind kind) {
  switch (kind) {
    case v1::JOB_DEFRAGMENT:
      return "defragment";
    case v1::JOB_DRAIN:
      return "drain";
    case v1::JOB_REBALANCE:
      return "rebalance";
    case v1::JOB_PLACE:
      return "place";
    case v1::JOB_RESTRIPE:
      return "restripe";
    case v1::JOB_ALIGN:
      return "align";
    case v1::JOB_COMPACT:
      return "compact";
    case v1::JOB_SCRUB:
      return "scrub";
    default:
      return "of another kind";
  }
}

void JobTable::Store(JobId job, const v1::JobRecord& record, WriteBatch& batch) {
  batch.Put(schema::JobKey(job.value()), record.SerializeAsString());
}

absl::StatusOr<JobId> JobTable::Add(v1::JobRecord record, JobId kept, WriteBatch& batch) {
  if (const auto scrub = Scrub(); scrub && record.kind() == v1::JOB_SCRUB) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", scrub->value(), " is a scrub of this volume already; wait, or cancel it"));
  }
  std::vector<JobId> over;
  const v1::JobRecord* const last_scrub = LastScrub();
  for (const auto& [job, old] : jobs_) {
    if (IsOver(old) && &old != last_scrub) over.push_back(job);
  }
  const std::size_t kept_scrubs = last_scrub == nullptr ? 0 : 1;
  if (jobs_.size() - over.size() - kept_scrubs >= kMaxJobs) {
    return absl::FailedPreconditionError(
        absl::StrCat("there are ", kMaxJobs, " jobs already; wait, or cancel some"));
  }
  for (std::size_t i = 0; i + kKeptJobs <= over.size(); ++i) {
    if (over[i] == kept) continue;
    batch.Delete(schema::JobKey(over[i].value()));
    jobs_.erase(over[i]);
  }
  const JobId job(jobs_.empty() ? 1 : jobs_.rbegin()->first.value() + 1);
  Store(job, record, batch);
  jobs_[job] = std::move(record);
  return job;
}

absl::Status JobTable::Change(JobId job, v1::JobState state, const v1::Time& now,
                              WriteBatch& batch) {
  v1::JobRecord* const record = Find(job);
  if (record == nullptr) return absl::NotFoundError(absl::StrCat("there is no job ", job.value()));
  if (IsOver(*record) && !(record->state() == v1::JOB_FAILED && state == v1::JOB_RUNNING)) {
    return absl::FailedPreconditionError(absl::StrCat("job ", job.value(), " is over"));
  }
  if (state == record->state()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "job ", job.value(), state == v1::JOB_PAUSED ? " is paused already" : " is not paused"));
  }
  if (state == v1::JOB_CANCELLED) {
    End(job, state, "", now, batch);
    return absl::OkStatus();
  }
  if (const auto scrub = Scrub(); IsOver(*record) && record->kind() == v1::JOB_SCRUB && scrub) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", scrub->value(), " is a scrub already; wait, or cancel it"));
  }
  if (IsOver(*record)) {  // what it has passed over may have room now
    record->clear_next_inode();
    record->clear_next_block();
    record->clear_looked_blocks();
    record->clear_kept_blocks();
  }
  record->set_state(state);
  record->clear_problem();
  record->clear_ended();
  Store(job, *record, batch);
  return absl::OkStatus();
}

void JobTable::End(JobId job, v1::JobState state, std::string problem, const v1::Time& now,
                   WriteBatch& batch) {
  v1::JobRecord& record = jobs_.at(job);
  record.set_state(state);
  record.set_problem(std::move(problem));
  *record.mutable_ended() = now;
  Store(job, record, batch);
}

}  // namespace reel::mdc
