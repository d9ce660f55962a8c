// Restriping of a pool (mdc/moves/restripe.h): which slice is emptied, and when the map changes.
//
// Invariants:
//   1. While a job has a slice, nothing is allocated there: it is closed with the commit that
//      chooses it, and opened again with the one that gives it up.
//   2. The map is changed when all of the slice is free, durably, and nobody has it reserved.
//   3. From that order to its outcome the job stays as it is, and the slice closed.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "mdc/core/core_impl.h"
#include "mdc/metadb/schema.h"
#include "mdc/space/areas.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

// Blocks that are free for good soon: of removals, and what sessions give back.
constexpr std::uint64_t kSliceRetryMs = 200;

bool Overlap(const mdc::Run& a, const mdc::Run& b) {
  return a.pool == b.pool && a.start < b.start + b.length_blocks &&
         b.start < a.start + a.length_blocks;
}

bool AnyGapIn(const VolumeDescriptor& descriptor, const mdc::Run& slice) {
  const std::vector<mdc::Run> gaps = GapsOf(descriptor, slice.pool);
  return std::ranges::any_of(gaps, [&](const mdc::Run& gap) { return Overlap(gap, slice); });
}

}  // namespace

absl::Status CoreImpl::MayRestripe(const v1::JobRecord& job) const {
  if (job.kind() != v1::JOB_RESTRIPE) return absl::OkStatus();
  if (absl::Status s = MayGrow(); !s.ok()) return s;
  if (valid_dumps().any()) {
    return absl::FailedPreconditionError(
        "a dump of the metadata says where all blocks lie: release it (reeladm dump release), and "
        "take another one afterwards");
  }
  for (const auto& [set, capacity] : work_.bandwidth.book().capacities()) {
    if (set.pool + 1 != job.only_pool()) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "the capacity of its LUN sets was measured as they are now: take it back (reeladm qos "
        "capacity ",
        descriptor_.pools[set.pool].name, " none), and measure it afterwards"));
  }
  const auto other = work_.moves.jobs.Restriping();
  if (!other) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("job ", other->value(), " restripes already"));
}

bool CoreImpl::AdvanceRestripe(JobId id) {
  v1::JobRecord& job = *work_.moves.jobs.Find(id);
  if (job.kind() != v1::JOB_RESTRIPE) return true;
  if (work_.moves.map_changes || work_.map.waits()) return false;
  const bool is_done = !job.areas().empty() && AnyGapIn(descriptor_, ToRun(job.areas(0)));
  if (!is_done && !job.areas().empty()) return true;
  job.clear_areas();
  return ChooseSlice(id);
}

bool CoreImpl::ChooseSlice(JobId id) {
  v1::JobRecord& job = *work_.moves.jobs.Find(id);
  const auto slice =
      NextSlice(descriptor_, PoolId(job.only_pool() - 1), StripingOf(job), *allocator_);
  if (!slice.ok() && allocator_->more_comes()) {
    outbox_.sync_wish.Ask();
    return false;
  }
  if (!slice.ok() || !*slice) {
    EndJob(id, slice.ok() ? v1::JOB_DONE : v1::JOB_FAILED, std::string(slice.status().message()));
    return false;
  }
  auto volume = ReadVolumeRecord();
  absl::Status status = volume.status();
  if (status.ok()) status = ChangeClosed({**slice}, true, *volume);
  if (!status.ok()) {
    EndJob(id, v1::JOB_FAILED, std::string(status.message()));
    return false;
  }
  AddTo(*job.mutable_areas(), **slice);
  job.clear_next_inode();
  job.clear_next_block();
  job.clear_looked_blocks();
  job.clear_kept_blocks();
  WriteBatch batch;
  batch.Put(schema::VolumeKey(), volume->SerializeAsString());
  JobTable::Store(id, job, batch);
  Sequence sequence;
  if (!Apply(batch, &sequence)) return false;
  work_.map.SetClosed(*volume);
  ApplyClosed();
  outbox_.sync_wish.Ask();
  return true;
}

void CoreImpl::FinishSlice(JobId id) {
  v1::JobRecord& job = *work_.moves.jobs.Find(id);
  const mdc::Run slice = ToRun(job.areas(0));
  if (allocator_->IsEmpty(slice)) {
    work_.moves.map_changes = true;
    work_.moves.restripe = RestripeOrder{.job = id, .slice = slice, .to = StripingOf(job)};
    return;
  }
  if (job.kept_blocks() > 0) {
    return EndJob(id, v1::JOB_FAILED,
                  absl::StrCat(job.kept_blocks(), " blocks have no room elsewhere",
                               job.without_pool() ? "" : " in the pool"));
  }
  RecallReserved(slice);
  job.clear_next_inode();
  job.clear_next_block();
  job.clear_looked_blocks();
  work_.moves.not_before_ms = clock_.NowMs() + kSliceRetryMs;
}

void CoreImpl::OnRestriped(JobId job, const absl::Status& outcome) {
  if (!health_.ok()) return;
  work_.moves.map_changes = false;
  if (!outcome.ok()) EndJob(job, v1::JOB_FAILED, std::string(outcome.message()));
  RunJobs();
  RunWoken();
}

// A pool that was to go stays closed, as one that was drained: reeladm pool up opens it.
bool CoreImpl::ReopenSlice(JobId id, WriteBatch& batch) {
  v1::JobRecord& job = *work_.moves.jobs.Find(id);
  if (job.kind() != v1::JOB_RESTRIPE || job.without_pool()) return true;
  auto volume = ReadVolumeRecord();
  if (!volume.ok()) {
    health_ = volume.status();
    return false;
  }
  for (const v1::Area& area : job.areas()) RemoveFrom(*volume->mutable_closed(), ToRun(area));
  job.clear_areas();
  batch.Put(schema::VolumeKey(), volume->SerializeAsString());
  work_.map.SetClosed(*volume);
  ApplyClosed();
  return true;
}

// Blocks reserved for files that sessions may make lie there.
void CoreImpl::RecallReserved(const mdc::Run& area) {
  for (const auto& [session, directory] : delegations_.reserved().In(area)) {
    SendAttrRecalls(holdings_.attr_tokens.RecallOthers(SessionId(0), directory, v1::TOKEN_SHARED));
  }
}

std::optional<JobId> CoreImpl::EmptiedBy(const std::vector<mdc::Run>& areas) const {
  const auto id = work_.moves.jobs.Restriping();
  if (!id || work_.moves.jobs.all().at(*id).areas().empty()) return std::nullopt;
  const mdc::Run slice = ToRun(work_.moves.jobs.all().at(*id).areas(0));
  const bool any =
      std::ranges::any_of(areas, [&](const mdc::Run& area) { return Overlap(area, slice); });
  return any ? id : std::nullopt;
}

void CoreImpl::DropGaps(Txn& txn) {
  for (std::uint32_t i = 0; i < descriptor_.pools.size(); ++i) {
    if ((descriptor_.pools[i].flags & Pool::kData) == 0) continue;
    for (const mdc::Run& gap : GapsOf(descriptor_, PoolId(i))) allocator_->Drop(txn, gap);
  }
}

absl::Status CoreImpl::ForgetGaps() {
  Txn txn(db_, in_flight_, Tier::kMemory);
  DropGaps(txn);
  const WriteBatch batch = txn.TakeBatch();
  return batch.empty() ? absl::OkStatus() : db_.Apply(batch).status();
}

}  // namespace reel::mdc
