#include "tools/volume_toml.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

// Compiled into this file alone, and without exceptions: the packaged library is built with them.
#undef TOML_SHARED_LIB
#undef TOML_HEADER_ONLY
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tools/size.h"
#include "volume/label.h"

namespace reel::tools {
namespace {

constexpr std::size_t kMaxTextBytes = 1 << 20;
constexpr std::size_t kMaxPatterns = 1024;
constexpr std::size_t kMaxAffinities = 64;

// One TOML table that is read key by key. The first error sticks; Finish reports it, or a key that
// nobody asked for.
class TableReader {
 public:
  TableReader(const toml::table& table, std::string_view source) : table_(table), source_(source) {}

  std::string Where(const toml::node& node) const {
    return absl::StrCat(source_, ":", node.source().begin.line, ": ");
  }
  void Fail(const toml::node& node, std::string_view what) {
    if (status_.ok()) {
      status_ = absl::InvalidArgumentError(absl::StrCat(Where(node), std::string(what)));
    }
  }

  const toml::node* Find(std::string_view key) {
    known_.emplace_back(key);
    return table_.get(key);
  }

  std::optional<std::string> Text(std::string_view key) {
    const toml::node* node = Find(key);
    if (node == nullptr) return std::nullopt;
    return TextOf(key, *node);
  }

  std::optional<std::uint64_t> Size(std::string_view key) {
    const toml::node* node = Find(key);
    if (node == nullptr) return std::nullopt;
    if (const auto* number = node->as_integer(); number != nullptr && number->get() >= 0) {
      return static_cast<std::uint64_t>(number->get());
    }
    if (!node->is_string()) {
      Fail(*node, absl::StrCat(std::string(key), " must be a size, such as \"256KiB\""));
      return std::nullopt;
    }
    const auto size = ParseSize(node->as_string()->get());
    if (!size.ok()) {
      Fail(*node, absl::StrCat(std::string(key), ": ", size.status().message()));
      return std::nullopt;
    }
    return *size;
  }

  // An array of strings, each with its own place; empty when the key is absent.
  std::vector<LunReference> Texts(std::string_view key, std::size_t max_count) {
    std::vector<LunReference> texts;
    const toml::node* node = Find(key);
    if (node == nullptr) return texts;
    const toml::array* array = node->as_array();
    if (array == nullptr) {
      Fail(*node, absl::StrCat(std::string(key), " must be a list of strings"));
      return texts;
    }
    if (array->size() > max_count) {
      Fail(*node, absl::StrCat(std::string(key), " has ", array->size(), " entries; at most ",
                               max_count, " are possible"));
      return texts;
    }
    for (const toml::node& element : *array) {
      texts.push_back({TextOf(key, element).value_or(""), Where(element)});
    }
    return texts;
  }

  absl::Status Finish() {
    for (const auto& [key, node] : table_) {
      if (std::find(known_.begin(), known_.end(), key.str()) != known_.end()) continue;
      Fail(node, absl::StrCat("unknown key \"", absl::CHexEscape(std::string(key.str())), "\""));
    }
    return status_;
  }

 private:
  std::optional<std::string> TextOf(std::string_view key, const toml::node& node) {
    const auto* text = node.as_string();
    if (text == nullptr) {
      Fail(node, absl::StrCat(std::string(key), " must be ",
                              &node == table_.get(key) ? "a string" : "a list of strings"));
      return std::nullopt;
    }
    if (text->get().empty() || text->get().size() > 4096) {
      Fail(node,
           absl::StrCat(std::string(key), " is ", text->get().empty() ? "empty" : "too long"));
      return std::nullopt;
    }
    return text->get();
  }

  const toml::table& table_;
  std::string source_;
  std::vector<std::string> known_;
  absl::Status status_;
};

absl::StatusOr<std::uint32_t> ParseFlags(const std::vector<LunReference>& texts,
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

absl::StatusOr<PoolDescription> ParsePool(const toml::table& table, std::string_view source) {
  TableReader reader(table, source);
  PoolDescription pool;
  pool.where = reader.Where(table);
  pool.name = reader.Text("name").value_or("");
  const auto flag_texts = reader.Texts("flags", 8);
  const auto affinities = reader.Texts("affinities", kMaxAffinities);
  const auto breadth = reader.Size("stripe_breadth");
  pool.luns = reader.Texts("luns", kMaxLunsPerPool);
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

std::string FirstLine(std::string_view text) {
  return std::string(text.substr(0, text.find('\n')));
}

absl::StatusOr<toml::table> ParseText(std::string_view text, std::string_view source) {
  if (text.size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(source), ":1: longer than 1 MiB: not a volume description"));
  }
  toml::parse_result result = toml::parse(text, source);
  if (!result) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(source), ":", result.error().source().begin.line, ": ",
                     absl::CHexEscape(FirstLine(result.error().description()))));
  }
  return std::move(result).table();
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text(kMaxTextBytes + 1, '\0');
  if (!file) {
    return absl::NotFoundError(absl::StrCat("cannot open ", path, ": ", std::strerror(errno)));
  }
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.bad()) return absl::UnavailableError(absl::StrCat("cannot read ", path));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text;
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

absl::StatusOr<std::vector<PoolDescription>> ParsePools(const toml::node* node,
                                                        std::string_view source) {
  std::vector<PoolDescription> pools;
  const toml::array* array = node == nullptr ? nullptr : node->as_array();
  if (array == nullptr || array->empty() || !array->is_homogeneous(toml::node_type::table)) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(source), ":",
                                                   node == nullptr ? 1 : node->source().begin.line,
                                                   ": at least one [[pool]] is needed"));
  }
  if (array->size() > kMaxPools) {
    return absl::InvalidArgumentError(absl::StrCat(std::string(source), ":",
                                                   node->source().begin.line, ": ", array->size(),
                                                   " pools; at most ", kMaxPools, " are possible"));
  }
  for (const toml::node& element : *array) {
    auto pool = ParsePool(*element.as_table(), source);
    if (!pool.ok()) return pool.status();
    pools.push_back(std::move(*pool));
  }
  return pools;
}

}  // namespace

absl::Status ValidateVolumeName(std::string_view name) {
  return ValidateLunName(name);
}

absl::StatusOr<VolumeDescription> ParseVolumeToml(std::string_view text, std::string_view source) {
  auto table = ParseText(text, source);
  if (!table.ok()) return table.status();
  const auto where = [&](std::string_view key) {
    const toml::node* node = table->get(key);
    return absl::StrCat(std::string(source), ":", node == nullptr ? 1 : node->source().begin.line,
                        ": ");
  };

  TableReader reader(*table, source);
  VolumeDescription volume;
  volume.name = reader.Text("name").value_or("");
  volume.block_bytes = reader.Size("block_size").value_or(kDefaultBlockBytes);
  const auto breadth = reader.Size("stripe_breadth");
  const auto strategy_text = reader.Text("strategy").value_or("round");
  for (LunReference& pattern : reader.Texts("luns", kMaxPatterns)) {
    volume.lun_patterns.push_back(std::move(pattern.text));
  }
  const toml::node* pools_node = reader.Find("pool");
  if (absl::Status status = reader.Finish(); !status.ok()) return status;

  if (absl::Status status = ValidateVolumeName(volume.name); !status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(where("name"), "name: ", status.message()));
  }
  if (auto status = CheckBlockBytes(volume.block_bytes, where("block_size")); !status.ok()) {
    return status;
  }
  // With blocks larger than the default breadth, one block is the narrowest stripe there is.
  const std::uint64_t volume_breadth =
      breadth.value_or(std::max(kDefaultBreadthBytes, volume.block_bytes));
  if (auto status = CheckBreadth(volume_breadth, volume.block_bytes, where("stripe_breadth"));
      !status.ok()) {
    return status;
  }
  auto strategy = ParseStrategy(strategy_text, where("strategy"));
  if (!strategy.ok()) return strategy.status();
  volume.strategy = *strategy;

  auto pools = ParsePools(pools_node, source);
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

absl::StatusOr<VolumeDescription> ReadVolumeToml(const std::string& path) {
  auto text = ReadText(path);
  if (!text.ok()) return text.status();
  return ParseVolumeToml(*text, path);
}

absl::StatusOr<std::vector<std::string>> ReadLunPatterns(const std::string& path) {
  auto text = ReadText(path);
  if (!text.ok()) return text.status();
  auto table = ParseText(*text, path);
  if (!table.ok()) return table.status();
  std::vector<std::string> patterns;
  const toml::array* array = table->get_as<toml::array>("luns");
  if (array == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ":1: no luns = [\"/dev/mapper/*\", …] that says where to look"));
  }
  for (const toml::node& element : *array) {
    const auto* pattern = element.as_string();
    if (pattern == nullptr || patterns.size() == kMaxPatterns) {
      return absl::InvalidArgumentError(absl::StrCat(path, ":", element.source().begin.line,
                                                     ": luns must be a list of at most ",
                                                     kMaxPatterns, " strings"));
    }
    patterns.push_back(pattern->get());
  }
  return patterns;
}

}  // namespace reel::tools
