// Where blocks come from: pools in their order, and what is cut out of each.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "mdc/space/pool_allocator.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

// Preallocation never takes more than this part of what is left.
constexpr std::uint64_t kPreallocationShare = 16;

// The last blocks of what is asked for, which are still to be found.
FreeSpace::Wish WishFor(const AllocationRequest& request, std::uint64_t need) {
  return {.blocks = need,
          .file_block = request.file_block.value() + (request.length_blocks - need),
          .in_units = request.in_units};
}

}  // namespace

using FreeRun = FreeIndex::Run;

std::vector<FreeSpace*> PoolAllocator::Order(const AllocationRequest& request) {
  if (request.goal_pool_only || request.within) {
    const std::uint32_t goal = (request.within ? request.within->pool : request.goal_pool).value();
    if (goal >= pools_.size() || !IsData(pools_[goal])) return {};
    return {&pools_[goal]};
  }
  std::vector<FreeSpace*> preferred, others;
  for (FreeSpace& pool : pools_) {
    if (!IsData(pool)) continue;
    if (HasAffinity(pool, request.affinity)) {
      preferred.push_back(&pool);
    } else if ((pool.pool().flags & Pool::kExclusive) == 0) {
      others.push_back(&pool);
    }
  }
  if (request.affinity_only && !preferred.empty()) others.clear();
  OrderByStrategy(preferred);
  OrderByStrategy(others);
  if (!request.has_goal) ++round_;
  // A file that got its affinity when it had blocks elsewhere goes on where it belongs.
  const bool goal_counts =
      request.has_goal &&
      (std::none_of(preferred.begin(), preferred.end(),
                    [](const FreeSpace* p) { return p->usable_blocks() > 0; }) ||
       std::any_of(preferred.begin(), preferred.end(),
                   [&](const FreeSpace* p) { return p->id() == request.goal_pool; }));
  preferred.insert(preferred.end(), others.begin(), others.end());
  if (goal_counts) {
    const auto goal = std::find_if(preferred.begin(), preferred.end(), [&](const FreeSpace* p) {
      return p->id() == request.goal_pool;
    });
    if (goal != preferred.end()) std::rotate(preferred.begin(), goal, goal + 1);
  }
  return preferred;
}

bool PoolAllocator::Belongs(std::string_view affinity, PoolId pool) const {
  const FreeSpace& space = pools_[pool.value()];
  if (HasAffinity(space, affinity)) return true;
  return (space.pool().flags & Pool::kExclusive) == 0 &&
         std::ranges::none_of(pools_, [&](const FreeSpace& other) {
           return IsData(other) && HasAffinity(other, affinity);
         });
}

std::vector<Allocator::SetSpace> PoolAllocator::sets() const {
  std::vector<SetSpace> all;
  for (const FreeSpace& pool : pools_) {
    if (!IsData(pool)) continue;
    for (const FreeSpace::SetGeometry& set : pool.sets()) {
      if (set.is_gap) continue;
      const FreeRun run{set.first_block, set.end_block - set.first_block};
      all.push_back({.area = {pool.id(), PoolBlock(run.start), run.length_blocks},
                     .stored_free_blocks = set.free,
                     .closed = pool.AnyClosed(run)});
    }
  }
  return all;
}

void PoolAllocator::OrderByStrategy(std::vector<FreeSpace*>& pools) const {
  if (pools.size() < 2) return;
  switch (strategy_) {
    case AllocationStrategy::kRound:
      std::rotate(pools.begin(), pools.begin() + static_cast<std::ptrdiff_t>(round_ % pools.size()),
                  pools.end());
      return;
    case AllocationStrategy::kFill:
      return;
    case AllocationStrategy::kBalance:
      std::stable_sort(pools.begin(), pools.end(), [](const FreeSpace* a, const FreeSpace* b) {
        // a's free fraction > b's, without division; sizes are at most 2^48.
        return static_cast<unsigned __int128>(a->free_blocks()) * b->capacity_blocks() >
               static_cast<unsigned __int128>(b->free_blocks()) * a->capacity_blocks();
      });
      return;
  }
}

void PoolAllocator::Add(std::vector<Run>& runs, const FreeSpace& pool, FreeRun run) {
  if (!runs.empty() && runs.back().pool == pool.id() &&
      runs.back().start + runs.back().length_blocks == PoolBlock(run.start)) {
    runs.back().length_blocks += run.length_blocks;
  } else {
    runs.push_back({pool.id(), PoolBlock(run.start), run.length_blocks});
  }
}

void PoolAllocator::Take(const AllocationRequest& request, const std::vector<FreeSpace*>& order,
                         std::uint64_t& need, std::vector<Run>& runs) {
  if (request.within) {
    FreeSpace& pool = pools_[request.within->pool.value()];
    const FreeRun area{request.within->start.value(), request.within->length_blocks};
    while (need > 0 && runs.size() < request.max_runs) {
      const auto run = pool.TakeWithin(area, WishFor(request, need));
      if (!run) return;
      Add(runs, pool, *run);
      need -= run->length_blocks;
    }
    return;
  }
  for (FreeSpace* pool : order) {
    if (const auto run = pool->TakeRun(WishFor(request, need), request.preallocated_blocks)) {
      Add(runs, *pool, *run);
      need = 0;
      return;
    }
  }
  for (FreeSpace* pool : order) {
    while (need > 0 && runs.size() < request.max_runs) {
      const auto run = pool->TakeLargest(WishFor(request, need));
      if (!run) break;
      Add(runs, *pool, *run);
      need -= run->length_blocks;
    }
  }
}

void PoolAllocator::TakePreallocation(const AllocationRequest& request, std::vector<Run>& runs) {
  Run& last = runs.back();
  FreeSpace& pool = pools_[last.pool.value()];
  const std::uint64_t want =
      std::min(request.preallocated_blocks, pool.usable_blocks() / kPreallocationShare);
  if (want == 0) return;
  const std::uint64_t end = last.start.value() + last.length_blocks;
  if (const auto run = pool.TakeAt(end, {.blocks = want}, request.session)) {
    last.length_blocks += run->length_blocks;
  }
}

void PoolAllocator::TakeAtGoal(const AllocationRequest& request,
                               const std::vector<FreeSpace*>& order, std::uint64_t& need,
                               std::vector<Run>& runs) {
  const bool counts =
      request.has_goal && !order.empty() && order.front()->id() == request.goal_pool;
  if (!counts) return;
  FreeSpace::Wish wish = WishFor(request, need);
  if (request.within) {
    const PoolBlock end = request.within->start + request.within->length_blocks;
    if (request.goal_block < request.within->start || end <= request.goal_block) return;
    wish.blocks = std::min(need, end - request.goal_block);
  }
  FreeSpace& pool = *order.front();
  if (const auto run = pool.TakeAt(request.goal_block.value(), wish, request.session)) {
    Add(runs, pool, *run);
    need -= run->length_blocks;
  }
}

absl::StatusOr<std::vector<Run>> PoolAllocator::Cut(const AllocationRequest& request) {
  if (request.length_blocks == 0 || request.max_runs == 0) {
    return ErrnoStatus(EINVAL, "an allocation of no blocks");
  }
  if (in_grace_) return ErrnoStatus(EAGAIN, "blocks of the last epoch are still to be claimed");
  const std::vector<FreeSpace*> order = Order(request);
  std::uint64_t usable = 0, waiting = 0;
  for (const FreeSpace* pool : order) {
    usable += pool->usable_blocks();
    waiting += waiting_blocks_[pool->id().value()];
  }
  lacks_waiting_ = false;
  if (usable < request.length_blocks) {
    lacks_waiting_ = usable + waiting >= request.length_blocks;
    return ErrnoStatus(ENOSPC, absl::StrCat("no space left: ", request.length_blocks,
                                            " blocks asked for, ", usable, " free"));
  }

  std::vector<Run> runs;
  std::uint64_t need = request.length_blocks;
  TakeAtGoal(request, order, need, runs);
  const bool begins = request.file_block.value() % largest_unit_ == 0;
  if (need > 0 && begins && request.directory != InodeNumber(0)) {
    if (const auto run =
            order.front()->TakeFromWindow({request.session, request.directory}, need)) {
      Add(runs, *order.front(), *run);
      need = 0;
    }
  }
  if (need > 0) Take(request, order, need, runs);
  if (need > 0 && runs.size() < request.max_runs) {
    for (FreeSpace* pool : order) pool->DropWindows(std::nullopt);
    Take(request, order, need, runs);
  }
  if (need == 0 && request.preallocated_blocks > 0) TakePreallocation(request, runs);
  return runs;
}

}  // namespace reel::mdc
