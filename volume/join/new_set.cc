#include "volume/join/new_set.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "volume/base/size.h"
#include "volume/format/label.h"

namespace reel {
namespace {

// Rule 1. An alignment that would cost more than 1/64 of the LUN gives way to the breadth alone.
std::uint64_t DataStart(const LunFacts& lun, std::uint64_t breadth_bytes) {
  const std::uint64_t plain = RoundUp(kReservedBytes, breadth_bytes);
  const std::uint64_t optimal = lun.optimal_io_bytes;
  if (optimal == 0 || optimal % 4096 != 0 || optimal > kMaxOptimalIoBytes) return plain;
  const std::uint64_t both = std::lcm(breadth_bytes, optimal);
  const std::uint64_t start = RoundUp(kReservedBytes, both);
  return start <= std::max(plain, lun.size_bytes / 64) ? start : plain;
}

absl::Status CheckLun(const LunFacts& lun, std::uint64_t block_bytes) {
  if (lun.logical_block_bytes > block_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "LUN ", lun.path, " has logical blocks of ", FormatSize(lun.logical_block_bytes),
        ", larger than the volume's block size of ", FormatSize(block_bytes)));
  }
  if (lun.size_bytes < kMinLunBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("LUN ", lun.path, " is too small: ", FormatSize(lun.size_bytes), ", at least ",
                     FormatSize(kMinLunBytes), " are needed"));
  }
  return absl::OkStatus();
}

}  // namespace

std::uint64_t EndOn(const Pool& pool, const Uuid& lun, std::uint64_t block_bytes) {
  std::uint64_t end_bytes = 0;
  for (const StripeSet& set : pool.sets) {
    for (const LunEntry& entry : set.luns) {
      if (entry.lun != lun) continue;
      end_bytes = std::max(end_bytes,
                           entry.data_start_bytes + set.rows * pool.BreadthOf(set) * block_bytes);
    }
  }
  return end_bytes;
}

LunFacts FactsOf(const Lun& lun, const Uuid& uuid, std::string name) {
  return {.uuid = uuid,
          .name = std::move(name),
          .path = lun.name(),
          .size_bytes = lun.size_bytes(),
          .logical_block_bytes = lun.logical_block_bytes(),
          .optimal_io_bytes = lun.optimal_io_bytes()};
}

absl::StatusOr<NewSet> MakeSet(const std::vector<LunFacts>& luns, std::uint64_t breadth_bytes,
                               std::uint64_t block_bytes) {
  NewSet made;
  std::vector<std::uint64_t> rows;
  for (const LunFacts& lun : luns) {
    if (absl::Status status = CheckLun(lun, block_bytes); !status.ok()) return status;
    const std::uint64_t start = DataStart(lun, breadth_bytes);
    if (start >= lun.size_bytes || (lun.size_bytes - start) / breadth_bytes == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("LUN ", lun.path, " (", FormatSize(lun.size_bytes),
                       ") is too small for a stripe breadth of ", FormatSize(breadth_bytes)));
    }
    rows.push_back((lun.size_bytes - start) / breadth_bytes);
    made.set.luns.push_back({lun.uuid, lun.name, start});
  }
  made.set.rows = *std::min_element(rows.begin(), rows.end());
  for (const std::uint64_t units : rows) made.unequal_units.push_back(units - made.set.rows);
  return made;
}

absl::StatusOr<StripeSet> MakeSetOfRest(const Pool& pool, const StripeSet& last,
                                        const std::vector<LunFacts>& luns,
                                        std::uint64_t block_bytes) {
  const std::uint64_t breadth_bytes = pool.breadth_blocks * block_bytes;
  StripeSet rest;
  rest.rows = UINT64_MAX;
  for (std::size_t i = 0; i < last.luns.size(); ++i) {
    LunEntry entry = last.luns[i];
    entry.data_start_bytes = EndOn(pool, entry.lun, block_bytes);
    const std::uint64_t size_bytes = luns[i].size_bytes;
    const std::uint64_t more =
        size_bytes > entry.data_start_bytes ? size_bytes - entry.data_start_bytes : 0;
    if (more < breadth_bytes) {
      return absl::FailedPreconditionError(absl::StrCat(
          "LUN ", entry.name, " (", luns[i].path, ") has nothing that pool ", pool.name,
          " does not use: it holds ", FormatSize(size_bytes), "; enlarge all ", last.luns.size(),
          " LUNs of the set at the target, and let this controller's host see it"));
    }
    rest.rows = std::min(rest.rows, more / breadth_bytes);
    rest.luns.push_back(std::move(entry));
  }
  return rest;
}

}  // namespace reel
