#include "tools/lib/volume_toml.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "volume/base/size.h"
#include "volume/base/toml_reader.h"
#include "volume/format/label.h"

namespace reel::tools {
namespace {

constexpr std::size_t kMaxPatterns = 1024;
constexpr std::size_t kMaxAffinities = 64;

absl::StatusOr<std::uint32_t> ParseFlags(const std::vector<TomlText>& texts,
                                         const std::string& where) {
  std::uint32_t flags = 0;
  for (const auto& [text, text_where] : texts) {
    if (text == "metadata") {
      flags |= Pool::kMetadata;
    } else if (text == "data") {
      flags |= Pool::kData;
    } else if (text == "exclusive") {
      flags |= Pool::kExclusive;
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat(text_where, "unknown flag \"", absl::CHexEscape(text),
                       "\"; the flags are metadata, data and exclusive"));
    }
  }
  if ((flags & (Pool::kMetadata | Pool::kData)) == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, "the pool needs flags: \"metadata\", \"data\" or both"));
  }
  return flags;
}

absl::Status CheckBreadth(std::uint64_t breadth, std::uint64_t block, const std::string& where) {
  if (breadth != 0 && breadth % block == 0 && breadth <= kMaxBreadthBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      where, "stripe_breadth is ", FormatSize(breadth), "; it must be a multiple of the ",
      "block size (", FormatSize(block), ") and at most ", FormatSize(kMaxBreadthBytes)));
}

absl::StatusOr<PoolDescription> ParsePool(const TomlNode& table, std::string_view source) {
  TomlTable reader(table, source);
  PoolDescription pool;
  pool.where = reader.Where(table);
  pool.name = reader.Text("name").value_or("");
  const auto flag_texts = reader.Texts("flags", 8);
  const auto affinities = reader.Texts("affinities", kMaxAffinities);
  const auto breadth = reader.Size("stripe_breadth");
  for (TomlText& lun : reader.Texts("luns", kMaxLunsPerPool)) {
    pool.luns.push_back({std::move(lun.text), std::move(lun.where)});
  }
  if (absl::Status status = reader.Finish(); !status.ok()) return status;

  if (absl::Status status = ValidateVolumeName(pool.name); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(pool.where, "pool name: ", status.message()));
  }
  auto flags = ParseFlags(flag_texts, pool.where);
  if (!flags.ok()) return flags.status();
  pool.flags = *flags;
  for (const auto& [text, where] : affinities) {
    if (absl::Status status = ValidateVolumeName(text); !status.ok()) {
      return absl::InvalidArgumentError(absl::StrCat(where, "affinity: ", status.message()));
    }
    if (std::count(pool.affinities.begin(), pool.affinities.end(), text) > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, "affinity \"", text, "\" appears twice"));
    }
    pool.affinities.push_back(text);
  }
  if ((pool.flags & Pool::kExclusive) != 0 && pool.affinities.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(pool.where, "pool \"", pool.name,
                     "\" is exclusive and has no affinities: ", "nothing could be stored in it"));
  }
  if (breadth.has_value()) {
    if (*breadth == 0) return CheckBreadth(0, kMinBlockBytes, pool.where);
    pool.breadth_bytes = *breadth;
  }
  if (pool.luns.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(pool.where, "pool \"", pool.name, "\" has no luns"));
  }
  return pool;
}

absl::Status CheckBlockBytes(std::uint64_t block_bytes, const std::string& where) {
  if (IsPowerOfTwo(block_bytes) && block_bytes >= kMinBlockBytes && block_bytes <= kMaxBlockBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      where, "block_size is ", FormatSize(block_bytes), "; it must be a power of two from ",
      FormatSize(kMinBlockBytes), " to ", FormatSize(kMaxBlockBytes)));
}

absl::StatusOr<AllocationStrategy> ParseStrategy(const std::string& text,
                                                 const std::string& where) {
  if (text == "round") return AllocationStrategy::kRound;
  if (text == "fill") return AllocationStrategy::kFill;
  if (text == "balance") return AllocationStrategy::kBalance;
  return absl::InvalidArgumentError(absl::StrCat(
      where, "unknown strategy \"", absl::CHexEscape(text), "\"; it is round, fill or balance"));
}

// Names that must be unique across the pools, and LUNs that may be given once.
absl::Status CheckUnique(const VolumeDescription& volume) {
  std::map<std::string, std::string> pools, luns;
  for (const PoolDescription& pool : volume.pools) {
    if (!pools.emplace(pool.name, pool.where).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(pool.where, "a pool \"", pool.name, "\" exists already"));
    }
    for (const LunReference& lun : pool.luns) {
      if (!luns.emplace(lun.text, pool.name).second) {
        return absl::InvalidArgumentError(
            absl::StrCat(lun.where, "LUN \"", absl::CHexEscape(lun.text),
                         "\" is given twice (it is in pool \"", luns[lun.text], "\" already)"));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<PoolDescription>> ParsePools(const TomlNode* node,
                                                        const std::string& where,
                                                        std::string_view source) {
  const auto is_table = [](const TomlNode& element) {
    return element.kind == TomlNode::Kind::kTable;
  };
  if (node == nullptr || node->kind != TomlNode::Kind::kArray || node->elements.empty() ||
      !std::all_of(node->elements.begin(), node->elements.end(), is_table)) {
    return absl::InvalidArgumentError(absl::StrCat(where, "at least one [[pool]] is needed"));
  }
  if (node->elements.size() > kMaxPools) {
    return absl::InvalidArgumentError(
        absl::StrCat(where, node->elements.size(), " pools; at most ", kMaxPools, " are possible"));
  }
  std::vector<PoolDescription> pools;
  for (const TomlNode& element : node->elements) {
    auto pool = ParsePool(element, source);
    if (!pool.ok()) return pool.status();
    pools.push_back(std::move(*pool));
  }
  return pools;
}

absl::StatusOr<VolumeDescription> DescribeVolume(const TomlNode& table, std::string_view source) {
  TomlTable reader(table, source);
  VolumeDescription volume;
  volume.name = reader.Text("name").value_or("");
  volume.block_bytes = reader.Size("block_size").value_or(kDefaultBlockBytes);
  const auto breadth = reader.Size("stripe_breadth");
  const auto strategy_text = reader.Text("strategy").value_or("round");
  for (TomlText& pattern : reader.Texts("luns", kMaxPatterns)) {
    volume.lun_patterns.push_back(std::move(pattern.text));
  }
  const TomlNode* pools_node = reader.Find("pool");
  if (absl::Status status = reader.Finish(); !status.ok()) return status;

  if (absl::Status status = ValidateVolumeName(volume.name); !status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(reader.Where("name"), "name: ", status.message()));
  }
  if (auto status = CheckBlockBytes(volume.block_bytes, reader.Where("block_size")); !status.ok()) {
    return status;
  }
  // With blocks larger than the default breadth, one block is the narrowest stripe there is.
  const std::uint64_t volume_breadth =
      breadth.value_or(std::max(kDefaultBreadthBytes, volume.block_bytes));
  if (auto status =
          CheckBreadth(volume_breadth, volume.block_bytes, reader.Where("stripe_breadth"));
      !status.ok()) {
    return status;
  }
  auto strategy = ParseStrategy(strategy_text, reader.Where("strategy"));
  if (!strategy.ok()) return strategy.status();
  volume.strategy = *strategy;

  auto pools = ParsePools(pools_node, reader.Where("pool"), source);
  if (!pools.ok()) return pools.status();
  volume.pools = std::move(*pools);
  for (PoolDescription& pool : volume.pools) {
    if (pool.breadth_bytes == 0) pool.breadth_bytes = volume_breadth;
    if (auto status = CheckBreadth(pool.breadth_bytes, volume.block_bytes, pool.where);
        !status.ok()) {
      return status;
    }
  }
  if (absl::Status status = CheckUnique(volume); !status.ok()) return status;
  return volume;
}

}  // namespace

absl::Status ValidateVolumeName(std::string_view name) {
  return ValidateLunName(name);
}

absl::StatusOr<VolumeDescription> ParseVolumeToml(std::string_view text, std::string_view source) {
  auto table = ParseToml(text, source);
  if (!table.ok()) return table.status();
  return DescribeVolume(*table, source);
}

absl::StatusOr<VolumeDescription> ReadVolumeToml(const std::string& path) {
  auto table = ReadToml(path);
  if (!table.ok()) return table.status();
  return DescribeVolume(*table, path);
}

absl::StatusOr<std::vector<std::string>> ReadLunPatterns(const std::string& path) {
  auto table = ReadToml(path);
  if (!table.ok()) return table.status();
  TomlTable reader(*table, path);
  std::vector<std::string> patterns;
  for (TomlText& pattern : reader.Texts("luns", kMaxPatterns)) {
    patterns.push_back(std::move(pattern.text));
  }
  // The other keys are somebody else's.
  for (const TomlNode& node : table->elements) reader.Find(node.key);
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  return patterns;
}

}  // namespace reel::tools
