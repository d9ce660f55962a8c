// The metadata store's address space over the pools of an open volume.
//
// I/O to one range goes to all its LUNs in one batch; Flush flushes each LUN that was written to
// since its last flush. What a LUN cannot do just now, or ended, is done again for LunBusyLimitMs:
// a batch that fails is the end of the controller. When the volume's map has changed, it goes by a
// later one; what is under way goes on by the one before. Threads: as Space says.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <vector>

#include "mdc/metafs/space.h"
#include "volume/base/mutex.h"
#include "volume/format/lun_scan.h"
#include "volume/format/stripe_map.h"
#include "volume/lun/io_batch.h"

namespace reel::metafs {

class PoolSpace : public Space {
 public:
  // Asked before each write to the LUNs, by whatever thread writes; it fails with this error.
  using MayWrite = std::function<absl::Status()>;
  // Covers the head of the first metadata pool until SetRegions. REQUIRES: `volume` outlives the
  // space; its descriptor is valid.
  explicit PoolSpace(const OpenVolume& volume, MayWrite may_write = {});
  // The volume by a later map; it outlives the space.
  void TakeMap(const OpenVolume& volume);

  std::uint32_t block_bytes() const override { return block_bytes_; }
  std::uint64_t size_bytes() const override;
  absl::Status SetRegions(const std::vector<Region>& regions) override;
  absl::Status Read(std::uint64_t offset_bytes, std::span<std::byte> to) override;
  absl::Status Write(std::uint64_t offset_bytes, std::span<const std::byte> from) override;
  absl::Status Flush() override;

 private:
  // Counts completed writes, and up to which of them a flush has covered.
  struct Progress {
    std::atomic<std::uint64_t> written{0};
    std::atomic<std::uint64_t> flushed{0};
  };
  // The volume by one map.
  struct View {
    const OpenVolume& volume;
    StripeMap map;
    std::vector<std::shared_ptr<Progress>> progress;  // by flat LUN index: of the LUN
  };
  std::shared_ptr<const View> view() const;
  absl::Status Transfer(const View& view, LunRequest::Kind kind, std::uint64_t offset_bytes,
                        std::byte* memory, std::uint64_t length_bytes,
                        std::vector<LunRange>& lun_ranges);
  // Until it comes to something that time alone does not mend.
  absl::Status Persist(const std::function<absl::Status()>& once) const;

  const std::uint32_t block_bytes_;
  const MayWrite may_write_;
  mutable Mutex mutex_;
  std::shared_ptr<const View> view_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<const std::vector<Region>> regions_ ABSL_GUARDED_BY(mutex_);
};

// The first region that a volume's store must have: block 0 of its first metadata pool on.
// REQUIRES: the descriptor is valid.
Region FirstRegion(const VolumeDescriptor& descriptor, std::uint64_t length_blocks);

}  // namespace reel::metafs
