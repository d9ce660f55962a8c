// What mkfs.reelfs is asked to make: the description of a volume, as a TOML file or as arguments
// say it.
//
//   name = "reel1"
//   block_size = "16KiB"
//   stripe_breadth = "256KiB"
//   strategy = "round"                 # round, fill or balance
//   luns = ["/dev/mapper/*"]           # where to look for LUNs that are named by label
//   [[pool]]
//   name = "data"
//   flags = ["data"]                   # metadata, data, exclusive
//   affinities = ["video"]
//   stripe_breadth = "1MiB"
//   luns = ["d0", "d1"]                # by label; with a '/' by path
//
// Parsing checks all that can be said without the LUNs; every error is one line that begins with
// "SOURCE:LINE: ". Thread rule: plain values and pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "volume/format/descriptor.h"

namespace reel::tools {

inline constexpr std::uint64_t kDefaultBlockBytes = 16 * kKiB;
inline constexpr std::uint64_t kDefaultBreadthBytes = 256 * kKiB;
inline constexpr std::uint64_t kMaxBreadthBytes = 1 * kGiB;

struct LunReference {
  std::string text;   // a label's name, or a path (it contains a '/')
  std::string where;  // "volume.toml:12: ", or empty: goes before messages about it

  bool is_path() const { return text.find('/') != std::string::npos; }
};

struct PoolDescription {
  std::string name;
  std::uint32_t flags = 0;  // Pool::Flags
  std::vector<std::string> affinities;
  std::uint64_t breadth_bytes = 0;  // the volume's, when the pool does not say
  std::vector<LunReference> luns;
  std::string where;
};

struct VolumeDescription {
  std::string name;
  std::uint64_t block_bytes = kDefaultBlockBytes;
  AllocationStrategy strategy = AllocationStrategy::kRound;
  std::vector<PoolDescription> pools;
  std::vector<std::string> lun_patterns;
};

// INVALID_ARGUMENT. `source` names the text in messages. Safe on any bytes.
absl::StatusOr<VolumeDescription> ParseVolumeToml(std::string_view text, std::string_view source);
absl::StatusOr<VolumeDescription> ReadVolumeToml(const std::string& path);

// The top-level `luns` of a TOML file alone, whatever else is in it: for tools that look for a
// volume. Empty where it has none.
absl::StatusOr<std::vector<std::string>> ReadLunPatterns(const std::string& path);

// The rule of volume, pool, LUN and affinity names.
absl::Status ValidateVolumeName(std::string_view name);

}  // namespace reel::tools
