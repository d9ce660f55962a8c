// Jobs: moving data while files are in use (docs/internals/moves.md).
//
// A move is found and switched by operations of the core's own, as a removal is; in between its
// blocks are copied by a thread that the core does not wait for.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/core/core_impl.h"
#include "mdc/metadb/schema.h"
#include "mdc/moves/job_start.h"
#include "mdc/moves/move_switch.h"
#include "mdc/space/units.h"
#include "proto/convert.h"
#include "proto/status.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

// The job has come so far.
void PassOver(v1::JobRecord& job, const MoveFound& found) {
  job.set_next_inode(found.next_inode.value());
  job.set_next_block(found.next_block.value());
  job.set_looked_blocks(job.looked_blocks() + found.looked_blocks);
  job.set_kept_blocks(job.kept_blocks() + found.kept_blocks);
}

}  // namespace

std::uint64_t CoreImpl::UsedDataBlocks() const {
  return allocator_->total_blocks() - allocator_->total_free_blocks();
}

void CoreImpl::RunJobs() {
  if (grace_.on() || !health_.ok() || work_.moves.stepping != JobId(0) || store_room_.full())
    return;
  std::optional<JobId> job;
  if (work_.moves.move) {
    if (work_.moves.move->stage == Move::Stage::kSwitching) job = work_.moves.move->job;
  } else if (clock_.NowMs() >= work_.moves.not_before_ms) {
    job = work_.moves.jobs.Current();
  }
  if (!job || (!work_.moves.move && !AdvanceRestripe(*job))) return;
  auto op = std::make_shared<Pending>();
  op->session = kMover;
  op->job = *job;
  work_.moves.stepping = *job;
  Advance(op);
}

absl::Status CoreImpl::StepJob(const Pending& op, OpContext& ctx, MoveFound& found) {
  if (work_.moves.move) {
    if (work_.moves.move->broken) return ErrnoStatus(ESTALE, "the token was taken back");
    return SwitchBlocks(ctx, *work_.moves.move);
  }
  const v1::JobRecord& job = *work_.moves.jobs.Find(op.job);
  if (job.state() != v1::JOB_RUNNING) return absl::OkStatus();
  const std::uint64_t room = job.only_pool() == 0 || job.without_pool()
                                 ? allocator_->total_free_blocks()
                                 : allocator_->free_blocks(PoolId(job.only_pool() - 1));
  const MoveLimits limits = work_.moves.Limits(descriptor_.block_bytes, room);
  absl::StatusOr<MoveFound> next = FindMove(ctx, job, work_.moves.plan, limits);
  if (!next.ok()) return next.status();
  found = *std::move(next);
  if (found.extents.empty()) return absl::OkStatus();
  const TokenSpan span{found.extents.front().file_block, found.extents.back().end()};
  return ctx.RequireOthersAtMost(found.inode,
                                 work_.moves.insists() ? v1::TOKEN_NONE : v1::TOKEN_SHARED, span);
}

void CoreImpl::FinishJobStep(const PendingRef& op, OpContext& ctx, const absl::Status& status,
                             MoveFound found) {
  work_.moves.stepping = JobId(0);
  if (work_.moves.move) return FinishSwitch(ctx, status);
  allocator_->Abandon();
  v1::JobRecord& job = *work_.moves.jobs.Find(op->job);
  if (!status.ok()) return EndJob(op->job, v1::JOB_FAILED, std::string(status.message()));
  if (job.state() != v1::JOB_RUNNING) return;
  if (!found.extents.empty()) return BeginMove(op->job, ctx, std::move(found));
  work_.moves.plan.reset();
  PassOver(job, found);
  if (found.ended && job.kind() == v1::JOB_RESTRIPE) return FinishSlice(op->job);
  if (!found.ended || LooksAgain(job, *allocator_)) return outbox_.sync_wish.Ask();  // a next step
  const char* const lacks = job.kind() == v1::JOB_DRAIN   ? "elsewhere"
                            : job.kind() == v1::JOB_ALIGN ? "in whole blocks"
                                                          : nullptr;
  const bool failed = lacks != nullptr && job.kept_blocks() > 0;
  EndJob(op->job, failed ? v1::JOB_FAILED : v1::JOB_DONE,
         failed ? absl::StrCat(job.kept_blocks(), " blocks have no room ", lacks) : "");
}

void CoreImpl::BeginMove(JobId id, OpContext& ctx, MoveFound found) {
  v1::JobRecord& job = *work_.moves.jobs.Find(id);
  const std::uint64_t whole = SumOf(found.extents);
  const bool planned = job.kind() == v1::JOB_DEFRAGMENT || job.kind() == v1::JOB_COMPACT;
  Move move{.job = id,
            .inode = found.inode,
            .span = {},
            .extents = std::move(found.extents),
            .targets = {},
            .insists = work_.moves.insists()};
  move.targets = ReserveTargets(*allocator_, std::move(found.request), !planned, move.extents);
  const bool better =
      !planned || move.targets.size() < PiecesOf(move.extents) || move.targets.size() == 1;
  if (move.targets.empty() && allocator_->more_comes() && work_.moves.AwaitRoom(clock_.NowMs())) {
    work_.moves.plan.reset();
    return outbox_.sync_wish.Ask();
  }
  work_.moves.starved = 0;
  work_.moves.plan = std::move(found.plan);
  if (move.targets.empty() || !better) {
    for (const mdc::Run& run : move.targets) allocator_->Unreserve(run);
    PassOver(job, found);
    job.set_kept_blocks(job.kept_blocks() + whole);
    work_.moves.plan.reset();
    return outbox_.sync_wish.Ask();
  }
  move.span = {move.extents.front().file_block, move.extents.back().end()};
  ctx.tokens.Grant(kMover, move.inode, move.insists ? v1::TOKEN_EXCLUSIVE : v1::TOKEN_SHARED,
                   move.span);
  // (What is moved has been looked at once it is.)
  found.looked_blocks -= whole;
  found.next_block = move.span.first;
  PassOver(job, found);
  work_.moves.began_ms = clock_.NowMs();
  work_.moves.move = std::move(move);
  work_.moves.last_copy = work_.moves.last_copy + 1;
  CopyOrder order{.id = work_.moves.last_copy, .copies = CopiesOf(*work_.moves.move)};
  if (!order.copies.empty()) return work_.moves.orders.push_back(std::move(order));
  work_.moves.move->stage = Move::Stage::kSwitching;
  outbox_.sync_wish.Ask();
}

void CoreImpl::OnCopied(CopyId copy, const absl::Status& outcome, bool may_land) {
  if (!health_.ok() || !work_.moves.move || copy != work_.moves.last_copy) return;
  if (!outcome.ok()) {
    const JobId job = work_.moves.move->job;
    GiveUpMove(may_land);
    // A LUN that was reset, or a path that is lost, comes back.
    const bool passes = absl::IsUnavailable(outcome) || absl::IsAborted(outcome);
    if (!passes || !work_.moves.TryAgain(clock_.NowMs())) {
      EndJob(job, v1::JOB_FAILED, std::string(outcome.message()));
    }
  } else if (work_.moves.move->broken) {
    GiveUpMove(false);
  } else {
    work_.moves.move->stage = Move::Stage::kSwitching;
  }
  RunJobs();
  RunWoken();
}

void CoreImpl::FinishSwitch(OpContext& ctx, const absl::Status& status) {
  Move& move = *work_.moves.move;
  if (!status.ok()) {
    allocator_->Abandon();
    const JobId job = move.job;
    const bool stale = ErrnoOf(status) == ESTALE;
    GiveUpMove(false);
    if (!stale) EndJob(job, v1::JOB_FAILED, std::string(status.message()));
    return;
  }
  v1::JobRecord& job = *work_.moves.jobs.Find(move.job);
  job.set_next_block(move.span.end.value());
  job.set_looked_blocks(job.looked_blocks() + move.length_blocks());
  job.set_moved_blocks(job.moved_blocks() + move.length_blocks());
  WriteBatch batch = ctx.txn.TakeBatch();
  JobTable::Store(move.job, job, batch);
  ctx.effects.on_commit.push_back([this] {
    holdings_.tokens.Return(kMover, work_.moves.move->inode, v1::TOKEN_NONE);
    parked_.Wake(work_.moves.move->inode);
  });
  Commit(ctx, batch, Haste::kWhenAsked);
  if (!health_.ok()) return;
  counters_.moved_blocks[static_cast<std::size_t>(job.kind())] += move.length_blocks();
  work_.orphans.Queue(move.inode);
  work_.moves.Pace(job, move.length_blocks() * descriptor_.block_bytes, clock_.NowMs());
  PaceMover(move);
  work_.moves.move.reset();
  work_.moves.tries = 0;
  work_.moves.failures = 0;
  outbox_.sync_wish.Ask();
}

void CoreImpl::GiveUpMove(bool keeps_targets) {
  const Move move = *std::exchange(work_.moves.move, std::nullopt);
  // What may yet be written is nobody's, in this epoch: the next one has fenced this controller.
  if (!keeps_targets) {
    for (const mdc::Run& run : move.targets) allocator_->Unreserve(run);
  }
  if (!move.broken) {
    holdings_.tokens.Return(kMover, move.inode, v1::TOKEN_NONE);
    parked_.Wake(move.inode);
    work_.orphans.Queue(move.inode);
  }
  ++counters_.broken_moves;
  ++work_.moves.tries;
  v1::JobRecord& job = *work_.moves.jobs.Find(move.job);
  if (job.kind() == v1::JOB_COMPACT && work_.moves.insists()) {
    // A file that is always written is not worth its writers' time.
    job.set_kept_blocks(job.kept_blocks() + move.length_blocks());
    job.set_next_inode(move.inode.value() + 1);
    job.clear_next_block();
    work_.moves.tries = 0;
  }
  work_.moves.not_before_ms = clock_.NowMs() + MoveWork::kRetryMs;
  work_.moves.plan.reset();
}

void CoreImpl::BreakMove(InodeNumber inode) {
  if (!work_.moves.move || work_.moves.move->inode != inode || work_.moves.move->insists) return;
  work_.moves.move->broken = true;
  holdings_.tokens.Return(kMover, inode, v1::TOKEN_NONE);
  parked_.Wake(inode);
  work_.orphans.Queue(inode);
}

void CoreImpl::EndJob(JobId id, v1::JobState state, std::string problem) {
  WriteBatch batch;
  const v1::JobRecord& job = *work_.moves.jobs.Find(id);
  if (problem.empty()) {
    spdlog::info("volume {}: job {} ({}) is done: {} of {} blocks moved", descriptor_.name,
                 id.value(), JobTable::KindWord(job.kind()), job.moved_blocks(),
                 job.looked_blocks());
  } else {
    spdlog::error("volume {}: job {} ({}) failed: {}", descriptor_.name, id.value(),
                  JobTable::KindWord(job.kind()), problem);
  }
  if (!job.areas().empty() && !ReopenSlice(id, batch)) return;
  work_.moves.jobs.End(id, state, std::move(problem), ToProto(clock_.WallNow()), batch);
  work_.moves.plan.reset();
  work_.moves.tries = 0;
  work_.moves.failures = 0;
  Sequence sequence;
  if (Apply(batch, &sequence)) outbox_.sync_wish.Ask();
}

absl::StatusOr<Core::ChangedJob> CoreImpl::StartJob(const v1::StartJobRequest& request,
                                                    const std::optional<Replacement>& instead) {
  if (!health_.ok()) return health_;
  if (grace_.on()) {
    return absl::UnavailableError("the volume is being taken over; try again in a moment");
  }
  if (store_room_.full()) return StoreIsFull();
  absl::StatusOr<NewJob> made = MakeJob(request, descriptor_, *allocator_, instead);
  if (!made.ok()) return made.status();
  if (absl::Status s = MayRestripe(made->record); !s.ok()) return s;
  if (made->record.kind() == v1::JOB_COMPACT && valid_dumps().any()) {
    return absl::FailedPreconditionError(
        "a dump of the metadata keeps blocks that are moved away: release it (reeladm dump "
        "release), and take another one afterwards");
  }
  *made->record.mutable_started() = ToProto(clock_.WallNow());
  auto volume = ReadVolumeRecord();
  if (!volume.ok()) return volume.status();
  if (absl::Status s = ChangeClosed(made->closes, true, *volume); !s.ok()) return s;
  const bool sets_unit = made->unit_blocks != 0;
  if (sets_unit) SetUnit(PoolId(made->record.only_pool() - 1), made->unit_blocks, *volume);
  volume->set_format(std::max(volume->format(), schema::kJobsFormat));
  WriteBatch batch;
  const absl::StatusOr<JobId> job =
      work_.moves.jobs.Add(std::move(made->record), work_.moves.used(), batch);
  if (!job.ok()) return job.status();
  batch.Put(schema::VolumeKey(), volume->SerializeAsString());
  work_.scrub.changed = true;
  ChangedJob changed{.job = *job, .sequence = {}};
  if (!Apply(batch, &changed.sequence)) return health_;
  work_.map.SetClosed(*volume);
  ApplyClosed();
  if (sets_unit) allocator_->SetUnits(UnitsOf(*volume));
  outbox_.sync_wish.Ask();
  return changed;
}

absl::StatusOr<Core::ChangedJob> CoreImpl::ChangeJob(JobId job, v1::JobState state) {
  if (!health_.ok()) return health_;
  WriteBatch batch;
  const v1::JobRecord* const record = work_.moves.jobs.Find(job);
  if (record != nullptr && record->kind() == v1::JOB_RESTRIPE) {
    if (work_.moves.map_changes) {
      return absl::UnavailableError(absl::StrCat("the map is being changed for job ", job.value(),
                                                 "; try again in a moment"));
    }
  }
  if (record != nullptr && state == v1::JOB_CANCELLED && !ReopenSlice(job, batch)) return health_;
  absl::Status status = work_.moves.jobs.Change(job, state, ToProto(clock_.WallNow()), batch);
  if (!status.ok()) return status;
  work_.scrub.changed = true;
  ChangedJob changed{.job = job, .sequence = {}};
  if (!Apply(batch, &changed.sequence)) return health_;
  outbox_.sync_wish.Ask();
  return changed;
}

void CoreImpl::Describe(v1::JobsReply& reply) const {
  for (const auto& [id, record] : work_.moves.jobs.all()) {
    v1::JobsReply::Job& job = *reply.add_jobs();
    job.set_job(id.value());
    *job.mutable_record() = record;
    job.set_block_bytes(descriptor_.block_bytes);
    job.set_total_blocks(UsedDataBlocks());
  }
}

}  // namespace reel::mdc
