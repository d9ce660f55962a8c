// A formatted volume on image files, for tests of the daemon's parts: one pool for metadata and
// data on two LUNs, with a small metadata region; or a pool on one LUN for each.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "mdc/core/core.h"
#include "mdc/store/store.h"
#include "volume/format/label.h"
#include "volume/format/lun_scan.h"
#include "volume/testing/temporary_image.h"

namespace reel::mdc {

class TestVolumeOnImages {
 public:
  enum class Pools { kShared, kApart, kApartWhole };  // … and all of its pool is the store's

  explicit TestVolumeOnImages(Pools pools = Pools::kShared) : pools_(pools) {
    VolumeDescriptor& volume = descriptor_;
    volume.volume = Uuid::Random();
    volume.name = "reel";
    volume.generation = 1;
    volume.block_bytes = 4096;
    Pool pool;
    pool.name = "data";
    pool.flags = Pool::kMetadata | Pool::kData;
    pool.breadth_blocks = 16;
    StripeSet set;
    set.rows = (kImageBytes - kReservedBytes) / (16 * 4096);
    for (std::size_t i = 0; i < 2; ++i) {
      images_.push_back(std::make_unique<TemporaryImage>(kImageBytes));
      LunEntry lun;
      lun.lun = Uuid::Random();
      lun.name = "lun" + std::to_string(i);
      lun.data_start_bytes = kReservedBytes;
      set.luns.push_back(lun);
    }
    pool.sets = {set};
    volume.pools = {pool};
    if (pools != Pools::kShared) {
      volume.pools = {pool, pool};
      volume.pools[0].name = "meta";
      volume.pools[0].flags = Pool::kMetadata;
      volume.pools[1].flags = Pool::kData;
      for (std::size_t i = 0; i < 2; ++i) volume.pools[i].sets[0].luns = {set.luns[i]};
    }
    volume.seat_lun = set.luns[0].lun;
    Format();
  }

  std::vector<std::string> paths() const { return {images_[0]->path(), images_[1]->path()}; }
  const VolumeDescriptor& descriptor() const { return descriptor_; }
  // As by mkfs.reelfs --force: another volume, of the same name, on the same LUNs.
  void Remake() {
    descriptor_.volume = Uuid::Random();
    Format();
  }

 private:
  static constexpr std::uint64_t kImageBytes = 512 * kMiB;

  void Format() {
    const bool apart = descriptor_.pools.size() == 2;
    for (std::size_t i = 0; i < 2; ++i) {
      const LunEntry& entry = descriptor_.pools[apart ? i : 0].sets[0].luns[apart ? 0 : i];
      auto lun = OpenLun(images_[i]->path(), LunAccess::kReadWrite);
      ASSERT_TRUE(lun.ok()) << lun.status();
      Label label;
      label.lun = entry.lun;
      label.name = entry.name;
      label.volume = descriptor_.volume;
      label.pool = static_cast<std::uint32_t>(apart ? i : 0);
      label.position = static_cast<std::uint32_t>(apart ? 0 : i);
      label.size_bytes = (*lun)->size_bytes();
      if (const auto before = ReadLabel(**lun); before.ok()) {
        label.generation = before->label.generation + 1;
      }
      ASSERT_TRUE(WriteDescriptor(**lun, descriptor_).ok());
      ASSERT_TRUE(WriteLabel(**lun, label).ok());
    }
    auto volume = OpenVolumeByName("reel", paths(), LunAccess::kReadWrite);
    ASSERT_TRUE(volume.ok()) << volume.status();
    const std::uint64_t blocks = pools_ == Pools::kApartWhole ? descriptor_.pools[0].size_blocks()
                                                              : MinimumRegionBlocks(4096);
    auto store = Store::Format(*volume, blocks, StoreOptions());
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE(
        FormatVolume((*store)->db(), descriptor_, (*store)->regions(), WallTime{1, 0}).ok());
  }

  const Pools pools_;
  VolumeDescriptor descriptor_;
  std::vector<std::unique_ptr<TemporaryImage>> images_;
};

}  // namespace reel::mdc
