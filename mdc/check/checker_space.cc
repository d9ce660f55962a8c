// The third pass of the checker: every block of a data pool is in exactly one of an extent, the
// free index, what waits for a dump, and the metadata store.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "mdc/check/checker_facts.h"
#include "mdc/space/areas.h"

namespace reel::mdc::checker {
namespace {

std::string OwnerText(std::uint64_t owner) {
  if (owner == kFreeOwner) return "the free index";
  if (owner == kStoreOwner) return "the metadata store";
  if (owner == kWaitingOwner) return "what waits for a dump";
  if (owner == kGapOwner) return "nobody, as it was taken out of the map";
  return InodeText(owner);
}

std::string BlocksText(const Pool& pool, std::uint64_t start, std::uint64_t end) {
  return absl::StrCat("pool ", pool.name, ", blocks ", start, " to ", end - 1);
}

// The families of runs that no file has: free, or waiting.
template <typename Record>
void TakeRuns(State& state, schema::Family family, std::string_view kind, std::uint64_t owner,
              std::uint64_t& total) {
  const auto& pools = state.input.descriptor.pools;
  FamilyCursor cursor(state.input.view, family, state.report);
  for (; cursor.valid(); cursor.Next()) {
    const std::uint64_t pool = cursor.key().first, start = cursor.key().second;
    const std::string where =
        absl::StrCat(std::string(kind), " run at pool ", pool, ", block ", start);
    Record record;
    if (!cursor.Decode(record, where)) continue;
    if (pool >= pools.size() || (pools[pool].flags & Pool::kData) == 0) {
      state.report.Add("free-extent", where, "it does not lie in a data pool");
      continue;
    }
    const std::uint64_t length = record.length_blocks(), size = pools[pool].size_blocks();
    if (length == 0 || start > size || length > size - start) {
      state.report.Add("free-extent", where,
                       absl::StrCat("its ", length, " blocks are not within the pool of ", size));
      continue;
    }
    total += length;
    // (A controller takes what is free out of the map before it takes it out of the store.)
    std::vector<Run> runs{{PoolId(static_cast<std::uint32_t>(pool)), PoolBlock(start), length}};
    for (const Run& gap : GapsOf(state.input.descriptor, runs[0].pool)) runs = Without(runs, gap);
    for (const Run& run : runs) {
      state.Keep(state.owned[pool], {run.start.value(), run.length_blocks, owner});
    }
  }
}

void CheckPool(State& state, const Pool& pool, Facts<OwnedRun>& runs) {
  std::sort(runs.begin(), runs.end(), [](const OwnedRun& a, const OwnedRun& b) {
    return a.start != b.start ? a.start < b.start : a.owner < b.owner;
  });
  const bool data = (pool.flags & Pool::kData) != 0;
  std::uint64_t end = 0;         // everything before it has been seen
  std::uint64_t last_owner = 0;  // of the run that reaches to `end`
  const auto lost = [&](std::uint64_t to) {
    if (!data || to <= end) return;
    state.report.Add("blocks-lost", BlocksText(pool, end, to), "neither free nor in a file");
  };
  for (const OwnedRun& run : runs) {
    const std::uint64_t run_end = run.start + run.length_blocks;
    lost(run.start);
    if (run.start < end) {
      state.report.Add(
          "blocks-shared", BlocksText(pool, run.start, std::min(end, run_end)),
          absl::StrCat("owned by ", OwnerText(last_owner), " and by ", OwnerText(run.owner)));
    }
    if (run_end > end) {
      end = run_end;
      last_owner = run.owner;
    }
  }
  lost(pool.size_blocks());
}

}  // namespace

void CheckSpace(State& state) {
  const auto& pools = state.input.descriptor.pools;
  for (const Run& region : state.input.regions) {
    const std::uint64_t pool = region.pool.value();
    if (pool >= pools.size() || region.start.value() > pools[pool].size_blocks() ||
        region.length_blocks > pools[pool].size_blocks() - region.start.value()) {
      state.report.Add("metadata-region",
                       absl::StrCat("pool ", pool, ", block ", region.start.value()),
                       "the metadata store's region is not within the pool");
      continue;
    }
    state.Keep(state.owned[pool], {region.start.value(), region.length_blocks, kStoreOwner});
  }
  TakeRuns<v1::FreeRecord>(state, schema::Family::kFree, "free", kFreeOwner,
                           state.totals.free_blocks);
  TakeRuns<v1::WaitingRecord>(state, schema::Family::kWaiting, "waiting", kWaitingOwner,
                              state.totals.waiting_blocks);
  for (std::size_t i = 0; i < pools.size(); ++i) {
    if ((pools[i].flags & Pool::kData) != 0) state.totals.data_blocks += pools[i].capacity_blocks();
    for (const Run& gap : GapsOf(state.input.descriptor, PoolId(static_cast<std::uint32_t>(i)))) {
      state.Keep(state.owned[i], {gap.start.value(), gap.length_blocks, kGapOwner});
    }
    CheckPool(state, pools[i], state.owned[i]);
    Facts<OwnedRun>().swap(state.owned[i]);
  }
}

}  // namespace reel::mdc::checker
