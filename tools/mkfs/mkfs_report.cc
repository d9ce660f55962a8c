#include "tools/mkfs/mkfs_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "tools/lib/table.h"
#include "volume/base/size.h"

namespace reel::tools {
namespace {

std::string OrDash(std::string text) {
  return text.empty() ? "-" : text;
}

const LunEntry* SeatOf(const VolumeDescriptor& descriptor) {
  for (const Pool& pool : descriptor.pools) {
    for (const StripeSet& set : pool.sets) {
      for (const LunEntry& lun : set.luns) {
        if (lun.lun == descriptor.seat_lun) return &lun;
      }
    }
  }
  return nullptr;
}

std::uint64_t LostBytes(const std::vector<LunGeometry>& luns) {
  std::uint64_t sum = 0;
  for (const LunGeometry& lun : luns) sum += lun.unequal_bytes;
  return sum;
}

}  // namespace

std::string StrategyText(AllocationStrategy strategy) {
  switch (strategy) {
    case AllocationStrategy::kRound:
      return "round";
    case AllocationStrategy::kFill:
      return "fill";
    case AllocationStrategy::kBalance:
      return "balance";
  }
  return "unknown";
}

std::vector<std::string> FlagTexts(std::uint32_t pool_flags) {
  std::vector<std::string> texts;
  if ((pool_flags & Pool::kMetadata) != 0) texts.emplace_back("metadata");
  if ((pool_flags & Pool::kData) != 0) texts.emplace_back("data");
  if ((pool_flags & Pool::kExclusive) != 0) texts.emplace_back("exclusive");
  return texts;
}

std::string GeometryText(const Geometry& geometry) {
  const VolumeDescriptor& d = geometry.descriptor;
  const auto right = Table::Align::kRight;
  Table pools({{"pool"},
               {"flags"},
               {"affinities"},
               {"breadth", right},
               {"LUNs", right},
               {"size", right},
               {"lost", right}});
  Table luns({{"LUN"},
              {"pool"},
              {"path"},
              {"size", right},
              {"data from", right},
              {"used", right},
              {"lost", right}});
  for (std::size_t i = 0; i < d.pools.size(); ++i) {
    const Pool& pool = d.pools[i];
    pools.Add({pool.name, absl::StrJoin(FlagTexts(pool.flags), ","),
               OrDash(absl::StrJoin(pool.affinities, ",")),
               FormatSize(std::uint64_t{pool.breadth_blocks} * d.block_bytes),
               absl::StrCat(geometry.luns[i].size()),
               FormatSize(pool.capacity_blocks() * d.block_bytes),
               FormatSize(LostBytes(geometry.luns[i]))});
    for (const LunGeometry& lun : geometry.luns[i]) {
      luns.Add({lun.facts.name, pool.name, lun.facts.path, FormatSize(lun.facts.size_bytes),
                FormatSize(lun.data_start_bytes), FormatSize(lun.used_bytes),
                FormatSize(lun.unequal_bytes)});
    }
  }
  std::string text =
      absl::StrCat("Volume ", d.name, ", UUID ", d.volume.ToString(), "\n", "Block size ",
                   FormatSize(d.block_bytes), ", strategy ", StrategyText(d.strategy), "\n",
                   "Metadata ", FormatSize(geometry.region_blocks * d.block_bytes), " of pool ",
                   d.pools[geometry.region_pool.value()].name, ", seat LUN ", SeatOf(d)->name, "\n",
                   "For files ", FormatSize(geometry.data_bytes()), "\n\n", pools.ToString(), "\n",
                   luns.ToString());
  for (std::size_t i = 0; i < d.pools.size(); ++i) {
    if (const std::uint64_t lost = LostBytes(geometry.luns[i]); lost > 0) {
      absl::StrAppend(&text, "\nThe LUNs of pool ", d.pools[i].name,
                      " are unequal: the smallest counts, ", FormatSize(lost), " stay unused.\n");
    }
  }
  return text;
}

nlohmann::ordered_json GeometryJson(const Geometry& geometry) {
  using Json = nlohmann::ordered_json;
  const VolumeDescriptor& d = geometry.descriptor;
  Json pools = Json::array();
  for (std::size_t i = 0; i < d.pools.size(); ++i) {
    const Pool& pool = d.pools[i];
    Json luns = Json::array();
    for (const LunGeometry& lun : geometry.luns[i]) {
      luns.push_back({{"name", lun.facts.name},
                      {"path", lun.facts.path},
                      {"lun", lun.facts.uuid.ToString()},
                      {"size_bytes", lun.facts.size_bytes},
                      {"data_start_bytes", lun.data_start_bytes},
                      {"used_bytes", lun.used_bytes},
                      {"lost_bytes", lun.unequal_bytes}});
    }
    pools.push_back({{"name", pool.name},
                     {"flags", FlagTexts(pool.flags)},
                     {"affinities", pool.affinities},
                     {"breadth_bytes", std::uint64_t{pool.breadth_blocks} * d.block_bytes},
                     {"size_bytes", pool.capacity_blocks() * d.block_bytes},
                     {"lost_bytes", LostBytes(geometry.luns[i])},
                     {"luns", std::move(luns)}});
  }
  return {{"name", d.name},
          {"volume", d.volume.ToString()},
          {"block_bytes", d.block_bytes},
          {"strategy", StrategyText(d.strategy)},
          {"seat", SeatOf(d)->name},
          {"metadata_pool", d.pools[geometry.region_pool.value()].name},
          {"metadata_bytes", geometry.region_blocks * d.block_bytes},
          {"data_bytes", geometry.data_bytes()},
          {"pools", std::move(pools)}};
}

}  // namespace reel::tools
