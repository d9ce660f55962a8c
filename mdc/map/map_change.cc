#include "mdc/map/map_change.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "volume/base/size.h"

namespace reel::mdc {
namespace {

using Change = v1::ChangeMapRequest::ChangeCase;

absl::StatusOr<Pool*> FindPool(VolumeDescriptor& volume, const std::string& name) {
  for (Pool& pool : volume.pools) {
    if (pool.name == name && !pool.is_removed()) return &pool;
  }
  const auto name_of = [](std::string* text, const Pool& pool) {
    text->append(pool.is_removed() ? pool.name + " (removed)" : pool.name);
  };
  return absl::NotFoundError(absl::StrCat("volume ", volume.name, " has no pool ", name,
                                          "; it has ", absl::StrJoin(volume.pools, ", ", name_of)));
}

// The metadata lie in the first pool for metadata.
absl::Status CheckFlags(const VolumeDescriptor& volume, const Pool& pool) {
  const bool other_metadata = std::ranges::any_of(
      volume.pools, [](const Pool& one) { return (one.flags & Pool::kMetadata) != 0; });
  if (other_metadata && pool.flags == Pool::kMetadata) {
    return absl::InvalidArgumentError(
        absl::StrCat("a second pool for metadata alone would stay unused; add the LUNs to the "
                     "pool that has them"));
  }
  const bool exclusive = (pool.flags & Pool::kExclusive) != 0;
  if (exclusive && pool.affinities.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "pool ", pool.name, " is exclusive, and has no affinity: nothing would lie there"));
  }
  return absl::OkStatus();
}

absl::Status AddSet(const std::vector<LunFacts>& luns, std::uint64_t block_bytes, Pool& pool) {
  auto made = MakeSet(luns, pool.breadth_blocks * block_bytes, block_bytes);
  if (!made.ok()) return made.status();
  pool.sets.push_back(std::move(made->set));
  return absl::OkStatus();
}

absl::Status AddPool(const v1::ChangeMapRequest::AddPool& add, const std::vector<LunFacts>& luns,
                     VolumeDescriptor& next) {
  Pool pool;
  pool.name = add.pool();
  pool.flags = (add.metadata() ? Pool::kMetadata : 0U) | (add.data() ? Pool::kData : 0U) |
               (add.exclusive() ? Pool::kExclusive : 0U);
  pool.affinities.assign(add.affinities().begin(), add.affinities().end());
  const std::uint64_t breadth_bytes =
      add.breadth_bytes() != 0 ? add.breadth_bytes()
                               : std::uint64_t{next.pools.back().breadth_blocks} * next.block_bytes;
  if (breadth_bytes % next.block_bytes != 0 || breadth_bytes > kMaxVolumeBytes) {
    return absl::InvalidArgumentError(absl::StrCat("a stripe breadth of ", breadth_bytes,
                                                   " bytes is no multiple of the volume's ",
                                                   "block size, ", FormatSize(next.block_bytes)));
  }
  pool.breadth_blocks = static_cast<std::uint32_t>(breadth_bytes / next.block_bytes);
  if (absl::Status s = CheckFlags(next, pool); !s.ok()) return s;
  if (absl::Status s = AddSet(luns, next.block_bytes, pool); !s.ok()) return s;
  const auto removed = std::ranges::find_if(
      next.pools, [&](const Pool& one) { return one.name == pool.name && one.is_removed(); });
  if (removed == next.pools.end()) {
    next.pools.push_back(std::move(pool));
  } else {
    pool.sets.insert(pool.sets.begin(), removed->sets.begin(), removed->sets.end());
    *removed = std::move(pool);
  }
  return absl::OkStatus();
}

// Each group of LUNs whose last set has a rest gets one more.
absl::Status Grow(const std::vector<LunFacts>& now, VolumeDescriptor& next, Pool& pool) {
  std::map<Uuid, std::size_t> last;  // set, by LUN
  for (std::size_t set = 0; set < pool.sets.size(); ++set) {
    for (const LunEntry& lun : pool.sets[set].luns) last[lun.lun] = set;
  }
  const std::size_t sets = pool.sets.size();
  absl::Status none;
  for (std::size_t set = 0; set < sets; ++set) {
    if (pool.sets[set].is_gap() || last[pool.sets[set].luns[0].lun] != set) continue;
    std::vector<LunFacts> luns;
    for (const LunEntry& entry : pool.sets[set].luns) {
      luns.push_back(*std::ranges::find(now, entry.lun, &LunFacts::uuid));
    }
    auto rest = MakeSetOfRest(pool, pool.sets[set], luns, next.block_bytes);
    if (!rest.ok()) {
      none = rest.status();
    } else {
      pool.sets.push_back(*std::move(rest));
    }
  }
  return pool.sets.size() > sets ? absl::OkStatus() : none;
}

absl::Status SetPool(const v1::ChangeMapRequest::SetPool& set, const VolumeDescriptor& next,
                     Pool& pool) {
  if (set.sets_affinities()) {
    pool.affinities.assign(set.affinities().begin(), set.affinities().end());
  }
  if (set.has_exclusive()) {
    pool.flags = set.exclusive() ? pool.flags | Pool::kExclusive : pool.flags & ~Pool::kExclusive;
  }
  VolumeDescriptor others = next;
  std::erase_if(others.pools, [&](const Pool& one) { return one.name == pool.name; });
  if (absl::Status s = CheckFlags(others, pool); !s.ok()) return s;
  const bool any_plain = std::ranges::any_of(next.pools, [](const Pool& one) {
    return (one.flags & Pool::kData) != 0 && (one.flags & Pool::kExclusive) == 0;
  });
  if (any_plain) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "every pool for data would be exclusive: files without an affinity could not be written");
}

// What of the change is about a pool that there is.
absl::Status ChangePool(const v1::ChangeMapRequest& request, const std::vector<LunFacts>& added,
                        const std::vector<LunFacts>& now, VolumeDescriptor& next) {
  const std::string& name = request.has_add_luns() ? request.add_luns().pool()
                            : request.has_grow()   ? request.grow().pool()
                            : request.has_rename() ? request.rename().pool()
                                                   : request.set_pool().pool();
  const auto pool = FindPool(next, name);
  if (!pool.ok()) return pool.status();
  switch (request.change_case()) {
    case Change::kAddLuns:
      return AddSet(added, next.block_bytes, **pool);
    case Change::kGrow:
      return Grow(now, next, **pool);
    case Change::kRename:
      (*pool)->name = request.rename().name();
      return absl::OkStatus();
    case Change::kSetPool:
      return SetPool(request.set_pool(), next, **pool);
    default:
      return absl::InvalidArgumentError("no change of the map was asked for");
  }
}

}  // namespace

bool Grows(const v1::ChangeMapRequest& request) {
  return request.has_add_luns() || request.has_add_pool() || request.has_grow();
}

std::vector<std::string> AddedLuns(const v1::ChangeMapRequest& request) {
  const auto& luns = request.has_add_luns() ? request.add_luns().luns() : request.add_pool().luns();
  return {luns.begin(), luns.end()};
}

absl::StatusOr<VolumeDescriptor> NextMap(const VolumeDescriptor& before,
                                         const v1::ChangeMapRequest& request,
                                         const std::vector<LunFacts>& added,
                                         const std::vector<LunFacts>& now) {
  VolumeDescriptor next = before;
  ++next.generation;
  if ((request.has_add_luns() || request.has_add_pool()) && added.empty()) {
    return absl::InvalidArgumentError("no LUN was named");
  }
  absl::Status changed = request.has_add_pool() ? AddPool(request.add_pool(), added, next)
                                                : ChangePool(request, added, now, next);
  if (!changed.ok()) return changed;
  if (absl::Status s = ValidateDescriptor(next); !s.ok()) return s;
  if (const auto framed = EncodeDescriptor(next); !framed.ok()) return framed.status();
  VolumeDescriptor same = next;
  same.generation = before.generation;
  if (same == before) return absl::FailedPreconditionError("the volume is so already");
  return next;
}

std::string TextOf(const v1::ChangeMapRequest& request) {
  const std::string luns = absl::StrJoin(AddedLuns(request), ", ");
  switch (request.change_case()) {
    case Change::kAddLuns:
      return absl::StrCat(luns, " added to pool ", request.add_luns().pool());
    case Change::kAddPool:
      return absl::StrCat("pool ", request.add_pool().pool(), " added, of ", luns);
    case Change::kGrow:
      return absl::StrCat("pool ", request.grow().pool(), " uses what its LUNs have grown by");
    case Change::kRename:
      return absl::StrCat("pool ", request.rename().pool(), " is ", request.rename().name(),
                          " now");
    case Change::kSetPool:
      return absl::StrCat("pool ", request.set_pool().pool(), " changed");
    default:
      return "nothing";
  }
}

}  // namespace reel::mdc
