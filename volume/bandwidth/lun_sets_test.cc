#include "volume/bandwidth/lun_sets.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace reel {
namespace {

// A pool for metadata, and one for data with two stripe sets; its first LUN has grown since, and
// stands in a third.
VolumeDescriptor TwoSets() {
  VolumeDescriptor descriptor;
  descriptor.name = "v";
  descriptor.block_bytes = 4096;
  const auto lun = [](const char* name) {
    return LunEntry{.lun = Uuid::Random(), .name = name, .data_start_bytes = 1 << 20};
  };
  const LunEntry first = lun("a");
  const auto pool = [](const char* name, std::uint32_t flags) {
    return Pool{.name = name, .flags = flags, .breadth_blocks = 16, .affinities = {}, .sets = {}};
  };
  descriptor.pools = {pool("meta", Pool::kMetadata), pool("data", Pool::kData)};
  descriptor.pools[0].sets.push_back({.luns = {lun("m")}, .rows = 100});
  descriptor.pools[1].sets.push_back({.luns = {first, lun("b")}, .rows = 100});
  descriptor.pools[1].sets.push_back({.luns = {lun("c")}, .rows = 100});
  descriptor.pools[1].sets.push_back({.luns = {first}, .rows = 100});
  return descriptor;
}

TEST(LunSets, ALunThatGrewIsOfItsFirstSet) {
  const VolumeDescriptor descriptor = TwoSets();
  EXPECT_THAT(DataLunSets(descriptor), ::testing::ElementsAre(LunSetId{1, 0}, LunSetId{1, 1}));
  EXPECT_EQ(LunSetsOf(descriptor)[4], (LunSetId{1, 0}));
  EXPECT_EQ(LunSetAt(descriptor, PoolId(1), PoolBlock(0)), (LunSetId{1, 0}));
  EXPECT_EQ(LunSetAt(descriptor, PoolId(1), PoolBlock(3200)), (LunSetId{1, 1}));
  EXPECT_EQ(LunSetAt(descriptor, PoolId(1), PoolBlock(4800)), (LunSetId{1, 0}));
}

}  // namespace
}  // namespace reel
