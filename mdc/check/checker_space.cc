// The third pass of the checker: every block of a data pool is in exactly one of an extent, the
// free index, what waits for a dump, and the metadata store. Only the runs of regions whose sums
// say that this is not so are looked at one by one, in rounds.
#include <algorithm>
#include <utility>

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

// Runs of blocks, within the pool, that no file has.
class OtherOwners {
 public:
  OtherOwners(const State& state, Report& report, FactSink& facts)
      : state_(state), report_(report), facts_(facts) {}

  void Take() {
    TakeRegions();
    TakeRuns<v1::FreeRecord>(schema::Family::kFree, "free", kFreeOwner,
                             report_.totals().free_blocks);
    TakeRuns<v1::WaitingRecord>(schema::Family::kWaiting, "waiting", kWaitingOwner,
                                report_.totals().waiting_blocks);
    for (std::size_t i = 0; i < pools().size(); ++i) {
      for (const Run& gap : Gaps(i)) {
        facts_.TakeRun(i, {gap.start.value(), gap.length_blocks, kGapOwner});
      }
    }
  }

 private:
  const std::vector<Pool>& pools() const { return state_.input.descriptor.pools; }
  std::vector<Run> Gaps(std::size_t pool) const {
    return GapsOf(state_.input.descriptor, PoolId(static_cast<std::uint32_t>(pool)));
  }

  void TakeRegions() {
    for (const Run& region : state_.input.regions) {
      const std::uint64_t pool = region.pool.value();
      if (pool >= pools().size() || region.start.value() > pools()[pool].size_blocks() ||
          region.length_blocks > pools()[pool].size_blocks() - region.start.value()) {
        report_.Add("metadata-region",
                    absl::StrCat("pool ", pool, ", block ", region.start.value()),
                    "the metadata store's region is not within the pool");
        continue;
      }
      facts_.TakeRun(pool, {region.start.value(), region.length_blocks, kStoreOwner});
    }
  }

  // A family of them.
  template <typename Record>
  void TakeRuns(schema::Family family, std::string_view kind, std::uint64_t owner,
                std::uint64_t& total) {
    FamilyCursor cursor(state_.input.view, family, report_);
    for (; cursor.valid(); cursor.Next()) {
      const std::uint64_t pool = cursor.key().first, start = cursor.key().second;
      const auto where = [&] {
        return absl::StrCat(std::string(kind), " run at pool ", pool, ", block ", start);
      };
      Record record;
      if (!cursor.Decode(record, where)) continue;
      if (pool >= pools().size() || (pools()[pool].flags & Pool::kData) == 0) {
        report_.Add("free-extent", where(), "it does not lie in a data pool");
        continue;
      }
      const std::uint64_t length = record.length_blocks(), size = pools()[pool].size_blocks();
      if (length == 0 || start > size || length > size - start) {
        report_.Add("free-extent", where(),
                    absl::StrCat("its ", length, " blocks are not within the pool of ", size));
        continue;
      }
      total += length;
      // (A controller takes what is free out of the map before it takes it out of the store.)
      std::vector<Run> runs{{PoolId(static_cast<std::uint32_t>(pool)), PoolBlock(start), length}};
      for (const Run& gap : Gaps(pool)) runs = Without(runs, gap);
      for (const Run& run : runs) {
        facts_.TakeRun(pool, {run.start.value(), run.length_blocks, owner});
      }
    }
  }

  const State& state_;
  Report& report_;
  FactSink& facts_;
};

// Adds them to the sums of the files' runs.
class SpaceSummer final : public FactSink {
 public:
  explicit SpaceSummer(State& state) : state_(state) {}
  void TakeInode(const InodeFact&) override {}
  void TakeName(const NameFact&) override {}
  void TakeRun(std::size_t pool, const OwnedRun& run) override { state_.space[pool].Add(run); }

 private:
  State& state_;
};

// Regions of a pool that follow each other, none of whose sums agree.
struct Stretch {
  std::size_t pool = 0;
  std::uint64_t start = 0, end = 0;  // blocks
  std::vector<OwnedRun> runs{};      // all that have blocks there
};

class RunGatherer final : public FactSink {
 public:
  explicit RunGatherer(std::vector<Stretch> stretches_of_round)
      : stretches(std::move(stretches_of_round)) {}
  void TakeInode(const InodeFact&) override {}
  void TakeName(const NameFact&) override {}
  void TakeRun(std::size_t pool, const OwnedRun& run) override {
    // The first one that ends behind the run's start.
    auto at = std::partition_point(stretches.begin(), stretches.end(), [&](const Stretch& one) {
      return one.pool < pool || (one.pool == pool && one.end <= run.start);
    });
    for (; at != stretches.end() && at->pool == pool && at->start < run.start + run.length_blocks;
         ++at) {
      at->runs.push_back(run);
    }
  }

  std::vector<Stretch> stretches;  // ascending
};

void CheckStretch(State& state, Stretch& stretch) {
  const Pool& pool = state.input.descriptor.pools[stretch.pool];
  auto& runs = stretch.runs;
  std::sort(runs.begin(), runs.end(), [](const OwnedRun& a, const OwnedRun& b) {
    return a.start != b.start ? a.start < b.start : a.owner < b.owner;
  });
  const bool data = (pool.flags & Pool::kData) != 0;
  std::uint64_t end = 0;         // everything before it has been seen
  std::uint64_t last_owner = 0;  // of the run that reaches to `end`
  const auto lost = [&](std::uint64_t to) {
    const std::uint64_t from = std::max(end, stretch.start);
    if (!data || to <= from) return;
    state.report.Add("blocks-lost", BlocksText(pool, from, to), "neither free nor in a file");
  };
  for (const OwnedRun& run : runs) {
    const std::uint64_t run_end = run.start + run.length_blocks;
    lost(run.start);
    // (What overlaps before the stretch begins is said of another one.)
    if (run.start < end && run.start >= stretch.start) {
      state.report.Add(
          "blocks-shared", BlocksText(pool, run.start, std::min(end, run_end)),
          absl::StrCat("owned by ", OwnerText(last_owner), " and by ", OwnerText(run.owner)));
    }
    if (run_end > end) {
      end = run_end;
      last_owner = run.owner;
    }
  }
  lost(stretch.end);
}

void LookCloser(State& state, std::vector<Stretch> stretches) {
  RunGatherer all(std::move(stretches));
  const CheckSink nobody{};
  CheckTotals totals;
  Report muted(nobody, totals, state.pace);
  OtherOwners(state, muted, all).Take();
  const bool files = std::any_of(all.stretches.begin(), all.stretches.end(), [&](const auto& one) {
    return (state.input.descriptor.pools[one.pool].flags & Pool::kData) != 0;
  });
  std::size_t bytes = 0;
  const auto take = [&](RunGatherer& part) {
    for (std::size_t i = 0; i < all.stretches.size(); ++i) {
      auto& runs = all.stretches[i].runs;
      const auto& more = part.stretches[i].runs;
      runs.insert(runs.end(), more.begin(), more.end());
      bytes += more.size() * sizeof(OwnedRun);
      state.pace.Keeps(more.size() * sizeof(OwnedRun));
    }
  };
  if (files) {
    std::vector<Stretch> empty = all.stretches;
    for (Stretch& stretch : empty) stretch.runs.clear();
    WalkAgain<RunGatherer>(state, RunGatherer(std::move(empty)), take);
  }
  for (Stretch& stretch : all.stretches) CheckStretch(state, stretch);
  state.pace.Drops(bytes);
}

// Looks closer at all regions whose sums do not agree, as many at a time as memory allows. Of a
// pool that is the metadata store's alone, nothing need be owned: it is looked at as it is.
void CheckRegions(State& state) {
  std::vector<Stretch> stretches;
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < state.space.size(); ++i) {
    const SpaceSums& sums = state.space[i];
    const bool data = (state.input.descriptor.pools[i].flags & Pool::kData) != 0;
    for (std::size_t region = 0; region < sums.regions(); ++region) {
      if (data && sums.Agrees(region)) continue;
      bytes += sums.BytesOf(region);
      if (!stretches.empty() && bytes > state.effort.round_bytes) {
        LookCloser(state, std::exchange(stretches, {}));
        bytes = sums.BytesOf(region);
      }
      const std::uint64_t start = sums.StartOf(region), end = sums.EndOf(region);
      if (stretches.empty() || stretches.back().pool != i || stretches.back().end != start) {
        stretches.push_back({.pool = i, .start = start, .end = end});
      } else {
        stretches.back().end = end;
      }
    }
  }
  if (!stretches.empty()) LookCloser(state, std::move(stretches));
}

}  // namespace

void CheckSpace(State& state) {
  SpaceSummer summer(state);
  OtherOwners(state, state.report, summer).Take();
  for (const Pool& pool : state.input.descriptor.pools) {
    if ((pool.flags & Pool::kData) != 0) state.totals().data_blocks += pool.capacity_blocks();
  }
  CheckRegions(state);
}

}  // namespace reel::mdc::checker
