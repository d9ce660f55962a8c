#include "mdc/moves/restripe.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mdc/space/areas.h"
#include "volume/base/size.h"

namespace reel::mdc {
namespace {

// What programs write while a slice is emptied needs room, too.
constexpr std::uint64_t kRoomShare = 4;  // that part of it is left

bool HasLun(const StripeSet& set, const std::string& name) {
  return std::ranges::find(set.luns, name, &LunEntry::name) != set.luns.end();
}

std::uint32_t NewBreadth(const Pool& pool, const StripeSet& set, const Striping& to) {
  return to.breadth_blocks == 0 ? pool.BreadthOf(set) : to.breadth_blocks;
}

bool IsSo(const Pool& pool, const StripeSet& set, const Striping& to) {
  return set.is_gap() || (!to.nothing && NewBreadth(pool, set, to) == pool.BreadthOf(set) &&
                          !HasLun(set, to.without_lun));
}

// So many rows are a whole number of the new stripe units on each LUN.
std::uint64_t RowsTogether(std::uint32_t breadth_blocks, std::uint32_t new_breadth_blocks) {
  return new_breadth_blocks / std::gcd(breadth_blocks, new_breadth_blocks);
}

bool HasRoom(const Run& slice, const Allocator& allocator) {
  const std::uint64_t free = allocator.free_in(slice);
  const std::uint64_t elsewhere = allocator.usable_blocks(slice.pool) - allocator.open_in(slice);
  // (Some is left open, also where nothing lies in the slice: files are written meanwhile.)
  return elsewhere > 0 && slice.length_blocks - free <= elsewhere - elsewhere / kRoomShare;
}

// On each LUN the rows begin there.
std::vector<LunEntry> RowsFrom(const StripeSet& set, std::uint64_t bytes) {
  std::vector<LunEntry> luns = set.luns;
  for (LunEntry& lun : luns) lun.data_start_bytes += bytes;
  return luns;
}

// Nothing lies there any more: joined with a gap before it.
void AddGap(std::vector<StripeSet>& sets, std::size_t at, std::uint64_t blocks) {
  if (at > 0 && sets[at - 1].is_gap()) {
    sets[at - 1].rows += blocks;
    return;
  }
  sets.insert(sets.begin() + static_cast<std::ptrdiff_t>(at),
              StripeSet{.luns = {}, .rows = blocks});
}

// The pool's last set goes on with these rows, where they follow it; else they are a set.
void Append(Pool& pool, StripeSet rows, std::uint64_t block_bytes) {
  StripeSet& last = pool.sets.back();
  const std::uint64_t last_bytes = last.rows * pool.BreadthOf(last) * block_bytes;
  const bool follows = !last.is_gap() && pool.BreadthOf(last) == pool.BreadthOf(rows) &&
                       RowsFrom(last, last_bytes) == rows.luns;
  if (follows) {
    last.rows += rows.rows;
  } else {
    pool.sets.push_back(std::move(rows));
  }
}

}  // namespace

absl::Status CheckBreadth(const VolumeDescriptor& descriptor, PoolId id,
                          std::uint64_t breadth_bytes) {
  const Pool& pool = descriptor.pools[id.value()];
  const std::uint64_t block_bytes = descriptor.block_bytes;
  if (breadth_bytes == 0 || breadth_bytes % block_bytes != 0 ||
      breadth_bytes / block_bytes > UINT32_MAX) {
    return absl::InvalidArgumentError(
        absl::StrCat("a stripe breadth of ", FormatSize(breadth_bytes),
                     " is no multiple of the volume's block size, ", FormatSize(block_bytes)));
  }
  bool differs = false;
  for (const StripeSet& set : pool.sets) {
    if (set.is_gap()) continue;
    differs = differs || pool.BreadthOf(set) * block_bytes != breadth_bytes;
    if (set.rows * pool.BreadthOf(set) * block_bytes < breadth_bytes) {
      return absl::FailedPreconditionError(
          absl::StrCat("a stripe breadth of ", FormatSize(breadth_bytes), " is more than LUN ",
                       set.luns[0].name, " gives to pool ", pool.name));
    }
  }
  if (differs) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("pool ", pool.name, " has a stripe breadth of ",
                                                    FormatSize(breadth_bytes), " already"));
}

Uuid LunNamed(const VolumeDescriptor& descriptor, const std::string& name) {
  for (const Pool& pool : descriptor.pools) {
    for (const StripeSet& set : pool.sets) {
      const auto lun = std::ranges::find(set.luns, name, &LunEntry::name);
      if (lun != set.luns.end()) return lun->lun;
    }
  }
  return {};
}

absl::StatusOr<PoolId> PoolWithout(const VolumeDescriptor& descriptor, const std::string& lun,
                                   bool replaced) {
  for (std::uint32_t i = 0; i < descriptor.pools.size(); ++i) {
    const Pool& pool = descriptor.pools[i];
    const auto set =
        std::ranges::find_if(pool.sets, [&](const StripeSet& one) { return HasLun(one, lun); });
    if (set == pool.sets.end()) continue;
    const auto refused = [&](const auto&... why) {
      return absl::FailedPreconditionError(absl::StrCat("LUN ", lun, " ", why...));
    };
    if ((pool.flags & Pool::kMetadata) != 0) {
      return refused("is in pool ", pool.name, ", which holds the metadata: they cannot be moved");
    }
    if (std::ranges::find(set->luns, lun, &LunEntry::name)->lun == descriptor.seat_lun) {
      return refused("says which controller is active: it cannot be removed");
    }
    const bool others = replaced || std::ranges::any_of(pool.sets, [&](const StripeSet& one) {
                          return !one.is_gap() && (one.luns.size() > 1 || !HasLun(one, lun));
                        });
    if (!others) return refused("is the only one of pool ", pool.name);
    return PoolId(i);
  }
  return absl::NotFoundError(absl::StrCat("volume ", descriptor.name, " has no LUN ", lun,
                                          "; \"reeladm show\" lists them"));
}

absl::Status CheckRemoval(const VolumeDescriptor& descriptor, PoolId id) {
  const Pool& pool = descriptor.pools[id.value()];
  const auto refused = [&](std::string_view why) {
    return absl::FailedPreconditionError(
        absl::StrCat("pool ", pool.name, " ", std::string(why), ": it cannot be removed"));
  };
  if (pool.is_removed()) return refused("has been removed");
  if ((pool.flags & Pool::kMetadata) != 0) return refused("holds the metadata");
  const bool has_seat = std::ranges::any_of(pool.sets, [&](const StripeSet& set) {
    return std::ranges::find(set.luns, descriptor.seat_lun, &LunEntry::lun) != set.luns.end();
  });
  if (has_seat) return refused("has the LUN that says which controller is active");
  const bool others = std::ranges::any_of(descriptor.pools, [&](const Pool& other) {
    return &other != &pool && (other.flags & Pool::kData) != 0 &&
           (other.flags & Pool::kExclusive) == 0;
  });
  if (!others) return refused("is the only one for files without an affinity");
  return absl::OkStatus();
}

Striping StripingOf(const v1::JobRecord& job) {
  Striping to{.breadth_blocks = job.breadth_blocks(),
              .without_lun = job.without_lun(),
              .nothing = job.without_pool()};
  if (!job.with_name().empty()) {
    to.instead =
        Replacement{.name = job.with_name(), .path = job.with_path(), .force = job.with_force()};
  }
  return to;
}

absl::StatusOr<std::optional<Run>> NextSlice(const VolumeDescriptor& descriptor, PoolId id,
                                             const Striping& to, const Allocator& allocator) {
  const Pool& pool = descriptor.pools[id.value()];
  const std::vector<Run> areas = SetsOf(descriptor, id);
  for (std::size_t i = 0; i < areas.size(); ++i) {
    const StripeSet& set = pool.sets[i];
    if (IsSo(pool, set, to)) continue;
    if (to.nothing) return areas[i];
    const std::uint64_t row = std::uint64_t{pool.BreadthOf(set)} * set.luns.size();
    const std::uint64_t together = RowsTogether(pool.BreadthOf(set), NewBreadth(pool, set, to));
    // (Halved, it is found in few tries; what is left of the room makes the next slice larger.)
    Run slice = areas[i];
    while (!HasRoom(slice, allocator)) {
      const std::uint64_t rows = slice.length_blocks / row / 2 / together * together;
      if (rows == 0) {
        return absl::ResourceExhaustedError(
            absl::StrCat("too little is free in pool ", pool.name, " (",
                         FormatSize(allocator.free_blocks(id) * descriptor.block_bytes),
                         "): free some, or add LUNs, then resume it"));
      }
      slice.length_blocks = rows * row;
    }
    return slice;
  }
  return std::nullopt;
}

absl::StatusOr<VolumeDescriptor> Restriped(const VolumeDescriptor& before,
                                           const RestripeOrder& order) {
  VolumeDescriptor next = before;
  ++next.generation;
  next.incompat |= kIncompatSets;
  const PoolId id = order.slice.pool;
  Pool& pool = next.pools[id.value()];
  for (StripeSet& set : pool.sets) {
    if (!set.is_gap()) set.breadth_blocks = pool.BreadthOf(set);
  }
  if (order.to.breadth_blocks != 0) pool.breadth_blocks = order.to.breadth_blocks;
  const std::vector<Run> areas = SetsOf(before, id);
  const auto area = std::ranges::find(areas, order.slice.start, &Run::start);
  const auto index = static_cast<std::size_t>(area - areas.begin());
  const std::uint64_t row =
      area == areas.end() || pool.sets[index].is_gap()
          ? 0
          : std::uint64_t{pool.sets[index].breadth_blocks} * pool.sets[index].luns.size();
  if (row == 0 || order.slice.length_blocks % row != 0 ||
      order.slice.length_blocks > area->length_blocks) {
    return absl::FailedPreconditionError(absl::StrCat("blocks from ", order.slice.start.value(),
                                                      " on are not the first rows of a ",
                                                      "stripe set of pool ", pool.name));
  }
  StripeSet& set = pool.sets[index];
  const std::uint64_t rows = order.slice.length_blocks / row;
  const std::uint64_t bytes = rows * set.breadth_blocks * before.block_bytes;
  StripeSet made{.luns = set.luns, .breadth_blocks = NewBreadth(pool, set, order.to)};
  made.rows = bytes / (std::uint64_t{made.breadth_blocks} * before.block_bytes);
  for (LunEntry& lun : made.luns) {
    if (!order.to.instead || lun.name != order.to.without_lun) continue;
    lun.lun = order.to.instead->lun;
    lun.name = order.to.instead->name;
  }
  std::erase_if(made.luns, [&](const LunEntry& lun) { return lun.name == order.to.without_lun; });
  set.luns = RowsFrom(set, bytes);
  set.rows -= rows;
  if (set.rows == 0) pool.sets.erase(pool.sets.begin() + static_cast<std::ptrdiff_t>(index));
  AddGap(pool.sets, index, order.slice.length_blocks);
  if (made.rows > 0 && !made.luns.empty() && !order.to.nothing)
    Append(pool, std::move(made), before.block_bytes);
  if (pool.is_removed()) {
    pool.flags = Pool::kData | Pool::kExclusive;
    pool.affinities.clear();
  }
  if (absl::Status s = ValidateDescriptor(next); !s.ok()) return s;
  if (const auto framed = EncodeDescriptor(next); !framed.ok()) return framed.status();
  return next;
}

}  // namespace reel::mdc
