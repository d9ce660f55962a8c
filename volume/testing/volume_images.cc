#include "volume/testing/volume_images.h"

#include <fstream>

#include "volume/base/check.h"
#include "volume/format/label.h"
#include "volume/lun/lun.h"
#include "volume/testing/sizes.h"

namespace reel {

void AddImages(const VolumeDescriptor& volume, Images& images) {
  for (std::uint32_t p = 0; p < volume.pools.size(); ++p) {
    for (std::uint32_t s = 0; s < volume.pools[p].sets.size(); ++s) {
      const StripeSet& set = volume.pools[p].sets[s];
      for (std::uint32_t i = 0; i < set.luns.size(); ++i) {
        images.push_back(std::make_unique<TemporaryImage>(kImageBytes));
        const auto lun = OpenLun(images.back()->path(), LunAccess::kReadWrite);
        REEL_CHECK(lun.ok(), "an image opens");
        const Label label{.lun = set.luns[i].lun,
                          .name = set.luns[i].name,
                          .volume = volume.volume,
                          .pool = p,
                          .stripe_set = s,
                          .position = i,
                          .generation = 1,
                          .size_bytes = kImageBytes};
        REEL_CHECK(WriteLabel(**lun, label).ok(), "an image takes a label");
        REEL_CHECK(WriteDescriptor(**lun, volume).ok(), "an image takes a descriptor");
      }
    }
  }
}

void FlipBit(const TemporaryImage& image, std::uint64_t offset) {
  std::fstream file(image.path(), std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(byte ^ 4));
}

}  // namespace reel
