// Finds, opens and claims the LUNs that a description names, and refuses those that hold something.
//
// A name is looked up among the labels at the patterns; a path stands for itself and may have no
// label yet. What an interrupted mkfs left of a volume that never was may be used again. Nothing is
// written. Thread rule: one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/lib/geometry.h"
#include "tools/lib/volume_toml.h"
#include "volume/join/new_lun.h"
#include "volume/lun/lun.h"

namespace reel::tools {

struct PickedLun {
  LunFacts facts;
  std::string name{};  // what OpenLun takes
  std::unique_ptr<Lun> lun;
  std::uint64_t label_generation = 0;
  bool start_over =
      false;  // no usable label: clear the reserved area, and label it as `facts` says

  NewLun AsNew() const {
    return {.uuid = facts.uuid,
            .name = facts.name,
            .volume = {},
            .label_generation = label_generation,
            .start_over = start_over};
  }
};

struct PickOptions {
  std::vector<std::string> patterns;
  std::vector<std::string> force;  // paths of LUNs that may be overwritten whatever they hold
  bool look_only = false;          // open for reading and claim nothing (--dry-run)
};

// By pool, in the description's order. NOT_FOUND, FAILED_PRECONDITION (in use, holds a volume, a
// partition table or a file system), INVALID_ARGUMENT (given twice); messages begin with the
// reference's place.
absl::StatusOr<std::vector<std::vector<PickedLun>>> PickLuns(const VolumeDescription& description,
                                                             const PickOptions& options);

}  // namespace reel::tools
