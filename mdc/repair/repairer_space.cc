// The repairer's pass over space: blocks with two owners go to one of them, and what nobody owns is
// free.
#include <algorithm>

#include "mdc/repair/repairer_facts.h"
#include "mdc/space/areas.h"

namespace reel::mdc::repairer {
namespace {

constexpr std::uint64_t kStore = ~std::uint64_t{0};

struct OwnedRun {
  ExtentPart extent_part;
  std::uint64_t inode = 0;  // or kStore
  std::uint64_t end() const { return extent_part.pool_block + extent_part.length_blocks; }
};

// Who keeps blocks that several own comes first.
bool Outranks(const OwnedRun& a, const OwnedRun& b) {
  if ((a.inode == kStore) != (b.inode == kStore)) return a.inode == kStore;
  if (a.extent_part.birth_sequence != b.extent_part.birth_sequence) {
    return a.extent_part.birth_sequence > b.extent_part.birth_sequence;
  }
  return std::pair(a.inode, a.extent_part.file_block) <
         std::pair(b.inode, b.extent_part.file_block);
}

using FreeRuns = std::map<std::uint64_t, std::uint64_t>;  // start → length

class SpacePass {
 public:
  explicit SpacePass(State& state) : state_(state), pools_(state.input.descriptor.pools) {}

  absl::Status Run() {
    DropWaiting();
    TakeOwned();
    for (std::size_t pool = 0; pool < pools_.size(); ++pool) ResolveShared(owned_[pool]);
    for (const auto& [inode, blocks] : lost_blocks_) Uncount(inode, blocks);
    if (!state_.changes.status().ok()) return state_.changes.status();
    for (std::size_t pool = 0; pool < pools_.size(); ++pool) FindFree(pool);
    MendFreeIndex();
    return state_.changes.Finish();
  }

 private:
  // No dump is valid any more for which they would wait.
  void DropWaiting() {
    for (FamilyScan scan(state_, schema::Family::kWaiting); scan.valid(); scan.Next()) {
      state_.changes.Delete(scan.raw_key());
    }
  }

  void TakeOwned() {
    owned_.resize(pools_.size());
    for (const mdc::Run& region : state_.input.regions) {
      const std::uint32_t pool = region.pool.value();
      if (pool >= pools_.size()) continue;
      owned_[pool].push_back({{.length_blocks = region.length_blocks,
                               .pool = pool,
                               .pool_block = region.start.value()},
                              kStore});
    }
    for (FamilyScan scan(state_, schema::Family::kExtent); scan.valid(); scan.Next()) {
      v1::ExtentRecord record;
      if (!scan.Decode(record) || record.places_size() != 1) continue;  // cannot be any more
      const v1::Place& place = record.places(0);
      if (place.pool() >= pools_.size()) continue;  // nor that
      owned_[place.pool()].push_back({{.file_block = scan.key().second,
                                       .length_blocks = record.length_blocks(),
                                       .pool = place.pool(),
                                       .pool_block = place.pool_block(),
                                       .state = record.state(),
                                       .birth_sequence = record.birth_sequence()},
                                      scan.key().first});
    }
  }

  // Runs that overlap, directly or through others, are settled among themselves.
  void ResolveShared(std::vector<OwnedRun>& runs) {
    std::sort(runs.begin(), runs.end(), [](const OwnedRun& a, const OwnedRun& b) {
      return a.extent_part.pool_block < b.extent_part.pool_block;
    });
    for (std::size_t first = 0; first < runs.size();) {
      std::uint64_t end = runs[first].end();
      std::size_t last = first + 1;
      for (; last < runs.size() && runs[last].extent_part.pool_block < end; ++last) {
        end = std::max(end, runs[last].end());
      }
      if (last - first > 1) ResolveGroup(std::vector<OwnedRun>(&runs[first], &runs[last - 1] + 1));
      first = last;
    }
  }

  void ResolveGroup(std::vector<OwnedRun> group) {
    std::sort(group.begin(), group.end(), Outranks);
    Intervals taken;
    for (const OwnedRun& run : group) {
      const auto kept = taken.Add(run.extent_part.pool_block, run.end());
      std::uint64_t blocks = 0;
      for (const auto& [start, end] : kept) blocks += end - start;
      if (run.inode == kStore || blocks == run.extent_part.length_blocks) continue;
      const InodeNumber inode(run.inode);
      state_.changes.Delete(schema::ExtentKey(inode, FileBlock(run.extent_part.file_block)));
      for (const auto& [start, end] : kept) {
        const ExtentPart part =
            PartOf(run.extent_part, start - run.extent_part.pool_block, end - start);
        state_.changes.Put(schema::ExtentKey(inode, FileBlock(part.file_block)),
                           EncodeExtentPart(part));
      }
      lost_blocks_[run.inode] += run.extent_part.length_blocks - blocks;
      state_.Did("blocks-shared",
                 absl::StrCat(InodeText(run.inode), ", file blocks ", run.extent_part.file_block,
                              " to ", run.extent_part.end() - 1),
                 absl::StrCat(run.extent_part.length_blocks - blocks,
                              " of them belong to another: it has a hole there now, which reads as "
                              "zeros"));
    }
  }

  void Uncount(std::uint64_t inode, std::uint64_t blocks) {
    const std::string key = schema::InodeKey(InodeNumber(inode));
    v1::InodeRecord record;
    if (!state_.Get(key, record)) return;
    record.set_allocated_blocks(record.allocated_blocks() -
                                std::min(record.allocated_blocks(), blocks));
    state_.changes.Put(key, record.SerializeAsString());
  }

  void FindFree(std::size_t pool) {
    free_.resize(pools_.size());
    if ((pools_[pool].flags & Pool::kData) == 0) return;
    std::uint64_t end = 0;
    const auto is_free = [&](std::uint64_t to) {
      if (to > end) free_[pool][end] = to - end;
    };
    for (const OwnedRun& run : owned_[pool]) {
      is_free(run.extent_part.pool_block);
      end = std::max(end, run.end());
    }
    is_free(pools_[pool].size_blocks());
    std::vector<OwnedRun>().swap(owned_[pool]);
    for (const mdc::Run& gap :
         GapsOf(state_.input.descriptor, PoolId(static_cast<std::uint32_t>(pool)))) {
      KeepOut(free_[pool], gap);
    }
  }

  static void KeepOut(FreeRuns& free, const mdc::Run& gap) {
    const std::uint64_t from = gap.start.value(), to = from + gap.length_blocks;
    auto at = free.upper_bound(from);
    if (at != free.begin()) --at;
    while (at != free.end() && at->first < to) {
      const auto [start, length] = *at;
      if (start + length <= from) {
        ++at;
        continue;
      }
      at = free.erase(at);
      if (start < from) free[start] = from - start;
      if (start + length > to) free[to] = start + length - to;
    }
  }

  // Writes what differs; one line a pool, however many records that is.
  void MendFreeIndex() {
    std::vector<FreeRuns> missing = free_;
    std::vector<std::uint64_t> dropped(pools_.size());
    for (FamilyScan scan(state_, schema::Family::kFree); scan.valid(); scan.Next()) {
      const std::uint64_t pool = scan.key().first, start = scan.key().second;
      v1::FreeRecord record;
      if (pool < pools_.size() && scan.Decode(record)) {
        const auto wanted = missing[pool].find(start);
        if (wanted != missing[pool].end() && wanted->second == record.length_blocks()) {
          missing[pool].erase(wanted);
          continue;
        }
      }
      if (pool < pools_.size()) {
        ++dropped[pool];
      } else {
        state_.Did("free-extent", absl::StrCat("pool ", pool, ", block ", start),
                   "dropped from the free index: there is no such pool");
      }
      if (pool >= pools_.size() || !missing[pool].contains(start)) {
        state_.changes.Delete(scan.raw_key());
      }
    }
    for (std::uint32_t pool = 0; pool < pools_.size(); ++pool) {
      for (const auto& [start, length] : missing[pool]) {
        v1::FreeRecord record;
        record.set_length_blocks(length);
        state_.changes.Put(schema::FreeKey(PoolId(pool), PoolBlock(start)),
                           record.SerializeAsString());
      }
      if (missing[pool].empty() && dropped[pool] == 0) continue;
      std::uint64_t blocks = 0;
      for (const auto& [start, length] : free_[pool]) blocks += length;
      state_.Did("free-extent", absl::StrCat("pool ", pools_[pool].name),
                 absl::StrCat("its free index was made right: ", missing[pool].size(),
                              " extents written, ", dropped[pool], " replaced or dropped, ", blocks,
                              " blocks free"));
    }
  }

  State& state_;
  const std::vector<Pool>& pools_;
  std::vector<std::vector<OwnedRun>> owned_;            // by pool
  std::map<std::uint64_t, std::uint64_t> lost_blocks_;  // inode → blocks
  std::vector<FreeRuns> free_;                          // by pool
};

}  // namespace

absl::Status MendSpace(State& state) {
  return SpacePass(state).Run();
}

}  // namespace reel::mdc::repairer
