// A volume on images, for tests: labels and descriptors as mkfs.reelfs leaves them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "volume/format/descriptor.h"
#include "volume/testing/temporary_image.h"

namespace reel {

using Images = std::vector<std::unique_ptr<TemporaryImage>>;

// Adds a labelled image of kImageBytes for each LUN of the volume, in the order of its pools, with
// the descriptor on it.
void AddImages(const VolumeDescriptor& volume, Images& images);
// Turns one bit over.
void FlipBit(const TemporaryImage& image, std::uint64_t offset);

}  // namespace reel
