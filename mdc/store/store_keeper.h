// Keeps a volume's metadata store from running full: takes blocks of its pool for it while there
// are any, holds back what makes it grow until they are its own, refuses that when there are none,
// and has it compacted when files were removed.
//
// Passive: what takes long (AddRegion, Compact) is the caller's to do, elsewhere, and to tell the
// outcome of; at most one of each is under way. Threads: the core's.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "mdc/core/core.h"
#include "mdc/space/space_watch.h"
#include "mdc/store/store.h"
#include "volume/base/env.h"
#include "volume/format/descriptor.h"

namespace reel::mdc {

class StoreKeeper {
 public:
  using FreeBytes = std::function<std::uint64_t(const metafs::MetaFs& fs)>;
  // REQUIRES: all of them outlive it. `free_bytes`: what counts as free in the store; empty: what
  // is.
  StoreKeeper(Store& store, Core& core, const VolumeDescriptor& descriptor, const Clock& clock,
              FreeBytes free_bytes = {})
      : store_(store),
        core_(core),
        descriptor_(descriptor),
        clock_(clock),
        free_bytes_(std::move(free_bytes)) {}

  // To be called after every few events, because a busy core fills a small store in less than a
  // tick. True: MetaDb::Compact is due, and then OnCompacted.
  [[nodiscard]] bool Watch();
  void OnCompacted(const absl::Status& outcome);

  // The region that Store::AddRegion is due for, now that so much is durable, and then
  // OnRegionAdded. Allocator first, superblock second: a crash in between leaks blocks, which fsck
  // finds.
  std::optional<Run> OnDurable(Sequence durable);
  void OnRegionAdded(const absl::Status& outcome);
  // What the allocator has given away may be no region of the store yet.
  bool grows() const { return region_.has_value(); }
  // Whether the store runs full, where it has a pool of its own (else that pool is what runs full).
  void WatchRoom(const SpaceLimits& limits);
  std::vector<std::string> Alarms() const { return room_.Alarms(); }

 private:
  void Grow(std::uint64_t free_bytes);
  bool Compacts();
  bool IsTight(std::uint64_t free_bytes, std::uint64_t reserved_bytes) const;

  Store& store_;
  Core& core_;
  const VolumeDescriptor& descriptor_;
  const Clock& clock_;
  const FreeBytes free_bytes_;
  SpaceWatch room_;
  std::uint64_t next_growth_ms_ = 0;    // not before then, after a failure
  std::optional<Core::Region> region_;  // taken for the store, not yet part of it
  bool region_handed_over_ = false;     // it is durable, and being made part of it
  bool tight_ = false;
  bool compacting_ = false;
  std::uint64_t compaction_begun_ms_ = 0;
  std::uint64_t next_compaction_ms_ = 0;
  std::uint64_t compacted_removals_ = 0;  // when the last compaction began
};

}  // namespace reel::mdc
