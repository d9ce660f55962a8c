#include "mdc/space/open_space.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "volume/testing/sample_volume.h"

namespace reel::mdc {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

class OpenSpaceTest : public testing::Test {
 protected:
  // A pool of 2 × 100 rows and one of 1 × 50.
  OpenSpaceTest() : descriptor_(SampleVolume({{4, {{100, 2}}}, {4, {{50, 1}}}})) {
    SetAllOpen(descriptor_, record_);
  }
  void AddSet(std::size_t pool, std::uint64_t rows) {
    StripeSet set = descriptor_.pools[pool].sets[0];
    set.rows = rows;
    descriptor_.pools[pool].sets.push_back(set);
  }
  VolumeDescriptor descriptor_;
  v1::VolumeRecord record_;
};

TEST_F(OpenSpaceTest, AVolumeThatHasNeverGrownIsOpen) {
  EXPECT_EQ(OpenPart(descriptor_, record_), descriptor_);
  EXPECT_THAT(UnopenedRuns(descriptor_, record_), IsEmpty());
  AddSet(0, 10);
  EXPECT_THAT(UnopenedRuns(descriptor_, v1::VolumeRecord()), IsEmpty()) << "no release said so";
}

TEST_F(OpenSpaceTest, WhatWasAddedIsNotOpen) {
  const VolumeDescriptor before = descriptor_;
  AddSet(0, 10);
  EXPECT_EQ(OpenPart(descriptor_, record_).pools, before.pools);
  EXPECT_THAT(UnopenedRuns(descriptor_, record_),
              ElementsAre(mdc::Run{PoolId(0), PoolBlock(800), 80}));
  SetAllOpen(descriptor_, record_);
  EXPECT_EQ(OpenPart(descriptor_, record_), descriptor_);
}

TEST_F(OpenSpaceTest, ANewPoolIsOpenWithItsFirstBlockOrNotAtAll) {
  descriptor_.pools.push_back(descriptor_.pools[1]);
  EXPECT_EQ(OpenPart(descriptor_, record_).pools[2].size_blocks(), 0u);
  EXPECT_THAT(UnopenedRuns(descriptor_, record_),
              ElementsAre(mdc::Run{PoolId(2), PoolBlock(0), 200}));
}

TEST_F(OpenSpaceTest, APoolWithoutDataIsAlwaysOpen) {
  descriptor_.pools[0].flags = Pool::kMetadata;
  AddSet(0, 10);
  EXPECT_THAT(UnopenedRuns(descriptor_, record_), IsEmpty());
}

}  // namespace
}  // namespace reel::mdc
