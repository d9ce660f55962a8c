#include "mdc/moves/job_start.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "mdc/moves/align.h"
#include "mdc/moves/compact.h"
#include "mdc/moves/fullness.h"
#include "mdc/space/areas.h"
#include "volume/base/size.h"

namespace reel::mdc {
namespace {

absl::Status MayDrain(const Pool& pool) {
  if ((pool.flags & Pool::kMetadata) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("pool ", pool.name, " holds the metadata, which cannot be moved"));
}

// The stripe sets that the LUN is in.
absl::StatusOr<std::vector<Run>> SetsWith(const VolumeDescriptor& descriptor,
                                          const std::string& lun) {
  std::vector<Run> found;
  for (std::uint32_t i = 0; i < descriptor.pools.size(); ++i) {
    const Pool& pool = descriptor.pools[i];
    const std::vector<Run> areas = SetsOf(descriptor, PoolId(i));
    for (std::size_t set = 0; set < pool.sets.size(); ++set) {
      if (std::ranges::find(pool.sets[set].luns, lun, &LunEntry::name) == pool.sets[set].luns.end())
        continue;
      if (absl::Status s = MayDrain(pool); !s.ok()) return s;
      found.push_back(areas[set]);
    }
  }
  if (!found.empty()) return found;
  return absl::NotFoundError(absl::StrCat("volume ", descriptor.name, " has no LUN ", lun,
                                          "; \"reeladm show\" lists them"));
}

absl::Status MakeDrain(const v1::StartJobRequest& request, const VolumeDescriptor& descriptor,
                       NewJob& job) {
  if (request.lun().empty()) {
    const auto pool = PoolNamed(descriptor, request.pool());
    if (!pool.ok()) return pool.status();
    if (absl::Status s = MayDrain(descriptor.pools[pool->value()]); !s.ok()) return s;
    job.closes = LiveSetsOf(descriptor, *pool);
    job.record.set_subject(absl::StrCat("pool ", request.pool()));
  } else {
    auto areas = SetsWith(descriptor, request.lun());
    if (!areas.ok()) return areas.status();
    job.closes = *std::move(areas);
    job.record.set_subject(absl::StrCat("LUN ", request.lun()));
  }
  for (const Run& run : job.closes) AddTo(*job.record.mutable_areas(), run);
  return absl::OkStatus();
}

// The one that is named, or all.
absl::StatusOr<std::optional<PoolId>> OnlyPool(const v1::StartJobRequest& request,
                                               const VolumeDescriptor& descriptor, NewJob& job) {
  job.record.set_subject("all pools");
  if (request.pool().empty()) return std::nullopt;
  const auto pool = PoolNamed(descriptor, request.pool());
  if (!pool.ok()) return pool.status();
  job.record.set_subject(absl::StrCat("pool ", request.pool()));
  job.record.set_only_pool(pool->value() + 1);
  return *pool;
}

absl::Status MakeRebalance(const v1::StartJobRequest& request, const VolumeDescriptor& descriptor,
                           const Allocator& allocator, NewJob& job) {
  const auto only = OnlyPool(request, descriptor, job);
  if (!only.ok()) return only.status();
  FindUneven(allocator.sets(), *only, job.record);
  return absl::OkStatus();
}

absl::Status MakeCompact(const v1::StartJobRequest& request, const VolumeDescriptor& descriptor,
                         const Allocator& allocator, NewJob& job) {
  const auto only = OnlyPool(request, descriptor, job);
  if (!only.ok()) return only.status();
  FindScattered(allocator, *only, job.record);
  return absl::OkStatus();
}

absl::Status MakeAlign(const v1::StartJobRequest& request, const VolumeDescriptor& descriptor,
                       NewJob& job) {
  const auto pool = PoolNamed(descriptor, request.pool());
  if (!pool.ok()) return pool.status();
  if (absl::Status s = CheckUnit(descriptor, *pool, request.block_bytes()); !s.ok()) return s;
  job.record.set_subject(
      absl::StrCat("pool ", request.pool(), ", block size ", FormatSize(request.block_bytes())));
  job.record.set_only_pool(pool->value() + 1);
  job.unit_blocks = request.block_bytes() / descriptor.block_bytes;
  return absl::OkStatus();
}

absl::Status MakeRemoval(const v1::StartJobRequest& request, const VolumeDescriptor& descriptor,
                         const std::optional<Replacement>& instead, NewJob& job) {
  const auto pool = request.lun().empty()
                        ? PoolNamed(descriptor, request.pool())
                        : PoolWithout(descriptor, request.lun(), instead.has_value());
  if (!pool.ok()) return pool.status();
  const std::string& name = descriptor.pools[pool->value()].name;
  job.record.set_only_pool(pool->value() + 1);
  if (!request.lun().empty()) {
    job.record.set_subject(absl::StrCat("pool ", name, ", without LUN ", request.lun()));
    job.record.set_without_lun(request.lun());
    if (instead) {
      job.record.set_subject(
          absl::StrCat("pool ", name, ", LUN ", instead->name, " for ", request.lun()));
      job.record.set_with_name(instead->name);
      job.record.set_with_path(instead->path);
      job.record.set_with_force(instead->force);
    }
    return absl::OkStatus();
  }
  job.record.set_subject(absl::StrCat("removal of pool ", name));
  job.record.set_without_pool(true);
  job.closes = LiveSetsOf(descriptor, *pool);
  return CheckRemoval(descriptor, *pool);
}

absl::Status MakeRestripe(const v1::StartJobRequest& request, const VolumeDescriptor& descriptor,
                          const std::optional<Replacement>& instead, NewJob& job) {
  if (request.remove()) return MakeRemoval(request, descriptor, instead, job);
  const auto pool = PoolNamed(descriptor, request.pool());
  if (!pool.ok()) return pool.status();
  if (absl::Status s = MayDrain(descriptor.pools[pool->value()]); !s.ok()) return s;
  if (absl::Status s = CheckBreadth(descriptor, *pool, request.breadth_bytes()); !s.ok()) return s;
  job.record.set_subject(
      absl::StrCat("pool ", request.pool(), ", breadth ", FormatSize(request.breadth_bytes())));
  job.record.set_only_pool(pool->value() + 1);
  job.record.set_breadth_blocks(
      static_cast<std::uint32_t>(request.breadth_bytes() / descriptor.block_bytes));
  return absl::OkStatus();
}

// What is moved in one pass is a matter of chance: few large files may need more.
constexpr std::uint32_t kPasses = 4;

}  // namespace

bool LooksAgain(v1::JobRecord& job, const Allocator& allocator) {
  if (job.kind() != v1::JOB_REBALANCE) return false;
  job.set_passes(job.passes() + 1);
  const std::optional<PoolId> only =
      job.only_pool() == 0 ? std::nullopt : std::optional(PoolId(job.only_pool() - 1));
  if (job.passes() >= kPasses || !FindUneven(allocator.sets(), only, job)) return false;
  job.clear_next_inode();
  job.clear_next_block();
  job.clear_looked_blocks();
  job.clear_kept_blocks();
  return true;
}

absl::StatusOr<NewJob> MakeJob(const v1::StartJobRequest& request,
                               const VolumeDescriptor& descriptor, const Allocator& allocator,
                               const std::optional<Replacement>& instead) {
  NewJob job;
  job.record.set_kind(request.kind());
  job.record.set_inode(request.inode());
  job.record.set_rate_bytes(request.rate_bytes());
  absl::Status made;
  switch (request.kind()) {
    case v1::JOB_DEFRAGMENT:
    case v1::JOB_PLACE:
      break;
    case v1::JOB_DRAIN:
      made = MakeDrain(request, descriptor, job);
      break;
    case v1::JOB_REBALANCE:
      made = MakeRebalance(request, descriptor, allocator, job);
      break;
    case v1::JOB_RESTRIPE:
      made = MakeRestripe(request, descriptor, instead, job);
      break;
    case v1::JOB_ALIGN:
      made = MakeAlign(request, descriptor, job);
      break;
    case v1::JOB_COMPACT:
      made = MakeCompact(request, descriptor, allocator, job);
      break;
    case v1::JOB_SCRUB:
      job.record.set_subject("metadata");
      job.record.mutable_scrub()->set_rate_records(request.rate_records());
      break;
    default:
      made = absl::InvalidArgumentError(absl::StrCat("a job of kind ",
                                                     static_cast<int>(request.kind()),
                                                     ", which this controller does not know"));
  }
  if (!made.ok()) return made;
  return job;
}

}  // namespace reel::mdc
