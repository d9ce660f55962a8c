#include "proto/convert.h"

#include <cerrno>
#include <limits>
#include <string>

#include "gtest/gtest.h"
#include "proto/status.h"

namespace reel {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

TEST(Convert, ExtentGoesThereAndBack) {
  const Extent written{FileBlock(7), 3, ExtentState::kWritten, PoolId(2), PoolBlock(99)};
  EXPECT_EQ(*FromProto(ToProto(written)), written);
  const Extent hole{FileBlock(7), 3, ExtentState::kHole, PoolId(2), PoolBlock(99)};
  EXPECT_EQ(*FromProto(ToProto(hole)), (Extent{FileBlock(7), 3, ExtentState::kHole, PoolId(),
                                               PoolBlock()}));  // a hole lies nowhere
}

TEST(Convert, BadExtentsAreRefused) {
  v1::Extent extent;
  EXPECT_EQ(ErrnoOf(FromProto(extent).status()), EINVAL);  // empty
  extent.set_length_blocks(2);
  extent.set_file_block(kMax - 1);
  EXPECT_EQ(ErrnoOf(FromProto(extent).status()), EINVAL);
  extent.set_file_block(0);
  extent.set_pool_block(kMax);
  EXPECT_EQ(ErrnoOf(FromProto(extent).status()), EINVAL);
  extent.set_pool_block(0);
  EXPECT_TRUE(FromProto(extent).ok());
  extent.set_state(static_cast<v1::ExtentState>(17));
  EXPECT_EQ(ErrnoOf(FromProto(extent).status()), EINVAL);
}

TEST(Convert, Times) {
  const WallTime before_epoch{-5, 999'999'999};
  EXPECT_EQ(FromProto(ToProto(before_epoch))->seconds, -5);
  EXPECT_EQ(FromProto(ToProto(before_epoch))->nanoseconds, 999'999'999u);
  v1::Time time;
  time.set_nanoseconds(1'000'000'000);
  EXPECT_EQ(ErrnoOf(FromProto(time).status()), EINVAL);
}

TEST(Convert, BlocksOfByteRange) {
  EXPECT_EQ(BlocksOf(0, 1, 4096).length_blocks, 1u);
  EXPECT_EQ(BlocksOf(4095, 2, 4096).length_blocks, 2u);
  EXPECT_EQ(BlocksOf(4096, 4096, 4096).start, FileBlock(1));
  EXPECT_EQ(BlocksOf(4096, 4096, 4096).length_blocks, 1u);
}

TEST(Convert, ByteRanges) {
  EXPECT_TRUE(ValidateByteRange(0, kMaxFileBytes).ok());
  EXPECT_EQ(ErrnoOf(ValidateByteRange(5, 0)), EINVAL);
  EXPECT_EQ(ErrnoOf(ValidateByteRange(kMax, 2)), EINVAL);
  EXPECT_EQ(ErrnoOf(ValidateByteRange(1, kMaxFileBytes)), EFBIG);
}

TEST(Convert, Names) {
  EXPECT_TRUE(ValidateName("frame.0001.dpx").ok());
  EXPECT_TRUE(ValidateName("..").ok());
  EXPECT_TRUE(ValidateName(std::string(255, 'x')).ok());
  EXPECT_EQ(ErrnoOf(ValidateName("")), ENOENT);
  EXPECT_EQ(ErrnoOf(ValidateName(std::string(256, 'x'))), ENAMETOOLONG);
  EXPECT_EQ(ErrnoOf(ValidateName("a/b")), EINVAL);
  EXPECT_EQ(ErrnoOf(ValidateName(std::string("a\0b", 3))), EINVAL);
}

}  // namespace
}  // namespace reel
