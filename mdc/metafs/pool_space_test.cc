// The store's address space over the LUNs of a volume.
#include "mdc/metafs/pool_space.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

#include "mdc/metafs/metafs.h"
#include "volume/base/aligned_buffer.h"
#include "volume/lun/borrowed_lun.h"
#include "volume/testing/faulty_lun.h"
#include "volume/testing/sample_volume.h"

namespace reel::metafs {
namespace {

// A data pool of one LUN, then a metadata pool of two, 16 blocks (64 KiB) on one before the other.
class PoolSpaceTest : public ::testing::Test {
 protected:
  PoolSpaceTest() {
    volume_.descriptor = SampleVolume({{16, {{100, 1}}}, {16, {{100, 2}}}});
    volume_.descriptor.pools[0].flags = Pool::kData;
    volume_.descriptor.pools[1].flags = Pool::kMetadata;
    for (FaultyLun& lun : luns_) volume_.luns.push_back(std::make_unique<BorrowedLun>(lun));
    space_ = std::make_unique<PoolSpace>(volume_);
  }
  absl::Status Write(std::uint64_t offset, char fill, std::uint64_t length) {
    AlignedBuffer buffer(length);
    std::memset(buffer.data(), fill, length);
    return space_->Write(offset, buffer.span());
  }
  std::string Read(std::uint64_t offset, std::uint64_t length) {
    AlignedBuffer buffer(length);
    if (!space_->Read(offset, buffer.span()).ok()) return "(error)";
    return {reinterpret_cast<const char*>(buffer.data()), length};
  }
  std::uint64_t flushes(int lun) const { return luns_[lun].counters().flushes; }

  FaultyLun luns_[3];
  OpenVolume volume_;
  std::unique_ptr<PoolSpace> space_;
};

TEST_F(PoolSpaceTest, BeginsWithTheHeadOfTheFirstMetadataPool) {
  EXPECT_EQ(space_->size_bytes(), kHeadBytes);
  EXPECT_EQ(FirstRegion(volume_.descriptor, 3), (Region{PoolId(1), PoolBlock(0), 3}));
  EXPECT_TRUE(absl::IsOutOfRange(space_->SetRegions({{PoolId(0), PoolBlock(0), 1}})));
  EXPECT_TRUE(absl::IsOutOfRange(space_->SetRegions({{PoolId(1), PoolBlock(1), 3200}})));
  EXPECT_TRUE(absl::IsOutOfRange(space_->SetRegions({{PoolId(9), PoolBlock(0), 1}})));
  EXPECT_EQ(space_->size_bytes(), kHeadBytes);
}

// An array whose controllers change places, a target that is asked too much, another host's reset.
TEST_F(PoolSpaceTest, ABusyLunsRequestIsRepeatedWhileTheSeatIsHeld) {
  for (const LunFault fault : {LunFault::kBusy, LunFault::kAborted}) {
    luns_[1].FailNext(3, fault);
    EXPECT_TRUE(Write(0, 'a', 4096).ok());
    luns_[1].FailNext(3, fault);
    EXPECT_EQ(Read(0, 4096), std::string(4096, 'a'));
    luns_[1].FailNext(3, fault);
    EXPECT_TRUE(space_->Flush().ok());
    EXPECT_EQ(luns_[1].unflushed_writes(), 0U);
  }
  luns_[1].FailNext(1, LunFault::kUnknown);
  EXPECT_EQ(FaultOf(Write(0, 'b', 4096)), LunFault::kUnknown) << "for recovery to find out";

  int looks = 0;
  space_ = std::make_unique<PoolSpace>(volume_, [&looks] {
    return ++looks < 3 ? absl::OkStatus() : absl::AbortedError("the seat is over");
  });
  luns_[1].FailNext(1000, LunFault::kBusy);
  EXPECT_TRUE(absl::IsAborted(Write(0, 'c', 4096))) << "it looks again before each try";
}

TEST_F(PoolSpaceTest, JoinsRegionsAndFlushesOnlyWhatWasWritten) {
  ASSERT_TRUE(
      space_->SetRegions({{PoolId(1), PoolBlock(0), 20}, {PoolId(1), PoolBlock(100), 30}}).ok());
  ASSERT_EQ(space_->size_bytes(), 50 * 4096u);
  ASSERT_TRUE(Write(0, 'a', 50 * 4096).ok());
  ASSERT_TRUE(Write(19 * 4096, 'b', 2 * 4096).ok());  // over the seam
  ASSERT_TRUE(space_->Flush().ok());
  EXPECT_EQ(flushes(0), 0u);
  EXPECT_EQ(flushes(1), 1u);
  EXPECT_EQ(flushes(2), 1u);
  ASSERT_TRUE(space_->Flush().ok());
  EXPECT_EQ(flushes(1), 1u);
  ASSERT_TRUE(Write(4096, 'c', 4096).ok());  // on the pool's first LUN
  ASSERT_TRUE(space_->Flush().ok());
  EXPECT_EQ(flushes(1), 2u);
  EXPECT_EQ(flushes(2), 1u);
  EXPECT_EQ(Read(0, 50 * 4096), std::string(4096, 'a') + std::string(4096, 'c') +
                                    std::string(17 * 4096, 'a') + std::string(2 * 4096, 'b') +
                                    std::string(29 * 4096, 'a'));
  EXPECT_TRUE(absl::IsOutOfRange(Write(49 * 4096, 'd', 2 * 4096)));
}

TEST_F(PoolSpaceTest, WritesNothingWithoutTheSeat) {
  bool may = true;
  space_ = std::make_unique<PoolSpace>(
      volume_, [&may] { return may ? absl::OkStatus() : absl::AbortedError("not any more"); });
  ASSERT_TRUE(Write(0, 'a', 4096).ok());
  may = false;
  EXPECT_TRUE(absl::IsAborted(Write(0, 'b', 4096)));
  EXPECT_EQ(Read(0, 4096), std::string(4096, 'a'));
}

TEST_F(PoolSpaceTest, AFailedFlushIsNotForgotten) {
  ASSERT_TRUE(Write(0, 'a', 4096).ok());
  luns_[1].FailFlush(1);
  EXPECT_FALSE(space_->Flush().ok());
  EXPECT_TRUE(space_->Flush().ok());
  EXPECT_EQ(flushes(1), 2u);
}

TEST_F(PoolSpaceTest, HoldsAStore) {
  FormatOptions options;
  options.regions = {FirstRegion(volume_.descriptor, 3000)};
  options.epoch = Epoch(1);
  ASSERT_TRUE(MetaFs::Format(*space_, options).ok());
  PoolSpace other(volume_);
  const auto fs = MetaFs::Mount(other, {.epoch = Epoch(2), .read_only = false});
  ASSERT_TRUE(fs.ok()) << fs.status();
  EXPECT_TRUE((*fs)->Create("/1.log").ok());
  EXPECT_TRUE(MetaFs::Check(other).empty());
}

}  // namespace
}  // namespace reel::metafs
