// A formatted volume on image files, for tests of the daemon's parts: one pool for metadata and
// data on two LUNs, with a small metadata region.
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
  TestVolumeOnImages() {
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
    volume.seat_lun = set.luns[0].lun;
    Format(set);
  }

  std::vector<std::string> paths() const { return {images_[0]->path(), images_[1]->path()}; }
  const VolumeDescriptor& descriptor() const { return descriptor_; }
  // As by mkfs.reelfs --force: another volume, of the same name, on the same LUNs.
  void Remake() {
    descriptor_.volume = Uuid::Random();
    Format(descriptor_.pools[0].sets[0]);
  }

 private:
  static constexpr std::uint64_t kImageBytes = 512 * kMiB;

  void Format(const StripeSet& set) {
    for (std::size_t i = 0; i < 2; ++i) {
      auto lun = OpenLun(images_[i]->path(), LunAccess::kReadWrite);
      ASSERT_TRUE(lun.ok()) << lun.status();
      Label label;
      label.lun = set.luns[i].lun;
      label.name = set.luns[i].name;
      label.volume = descriptor_.volume;
      label.position = static_cast<std::uint32_t>(i);
      label.size_bytes = (*lun)->size_bytes();
      if (const auto before = ReadLabel(**lun); before.ok()) {
        label.generation = before->label.generation + 1;
      }
      ASSERT_TRUE(WriteDescriptor(**lun, descriptor_).ok());
      ASSERT_TRUE(WriteLabel(**lun, label).ok());
    }
    auto volume = OpenVolumeByName("reel", paths(), LunAccess::kReadWrite);
    ASSERT_TRUE(volume.ok()) << volume.status();
    auto store = Store::Format(*volume, MinimumRegionBlocks(4096), StoreOptions());
    ASSERT_TRUE(store.ok()) << store.status();
    ASSERT_TRUE(
        FormatVolume((*store)->db(), descriptor_, (*store)->regions(), WallTime{1, 0}).ok());
  }

  VolumeDescriptor descriptor_;
  std::vector<std::unique_ptr<TemporaryImage>> images_;
};

}  // namespace reel::mdc
