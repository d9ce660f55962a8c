#include "volume/testing/faulty_lun.h"

#include <gtest/gtest.h>

#include <set>

#include "volume/base/aligned_buffer.h"
#include "volume/testing/sizes.h"

namespace reel {
namespace {

class FaultyLunTest : public ::testing::Test {
 protected:
  absl::Status Put(std::uint64_t block, char with, std::uint64_t count = 1) {
    const AlignedBuffer buffer(count * kBlock);
    std::memset(buffer.data(), with, buffer.size());
    return lun_.Write(block * kBlock, buffer.span());
  }
  char Get(std::uint64_t block) {
    const AlignedBuffer buffer(kBlock);
    EXPECT_TRUE(lun_.Read(block * kBlock, buffer.span()).ok());
    return static_cast<char>(buffer.data()[0]);
  }
  FaultyLun lun_;
};

TEST_F(FaultyLunTest, OnlyWhatWasFlushedSurvivesALosingCrash) {
  ASSERT_TRUE(Put(1, 'a').ok());
  ASSERT_TRUE(lun_.Flush().ok());
  ASSERT_TRUE(Put(1, 'b').ok());
  ASSERT_TRUE(Put(2, 'c').ok());
  EXPECT_EQ(Get(1), 'b');
  EXPECT_EQ(lun_.unflushed_writes(), 2U);
  lun_.Crash(1, FaultyLun::kLoseAll);
  EXPECT_EQ(Get(1), 'a');
  EXPECT_EQ(Get(2), '\0');
  ASSERT_TRUE(Put(2, 'c').ok());
  lun_.Crash(1, FaultyLun::kKeepAll);
  EXPECT_EQ(Get(2), 'c');
}

TEST_F(FaultyLunTest, CrashesTearAndReorderButNeverInvent) {
  std::set<std::string> outcomes;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    ASSERT_TRUE(Put(0, 'o', 3).ok());
    ASSERT_TRUE(lun_.Flush().ok());
    ASSERT_TRUE(Put(0, 'x', 3).ok());
    ASSERT_TRUE(Put(1, 'y').ok());
    lun_.Crash(seed);
    const std::string outcome = {Get(0), Get(1), Get(2)};
    outcomes.insert(outcome);
    EXPECT_EQ(outcome.find_first_not_of("oxy"), std::string::npos) << outcome;
    EXPECT_NE(outcome[0], 'y');
  }
  for (const char* expected : {"ooo", "xxx", "xyx", "oyo", "xoo", "oox"}) {
    EXPECT_TRUE(outcomes.contains(expected)) << expected;
  }
}

TEST_F(FaultyLunTest, FaultsHitTheNamedRequests) {
  lun_.FailRequest(2, LunRequest::Kind::kWrite);
  EXPECT_TRUE(Put(0, 'a').ok());
  EXPECT_EQ(Get(0), 'a');
  EXPECT_FALSE(Put(0, 'b').ok());
  EXPECT_TRUE(Put(0, 'c').ok());
  lun_.FailRange(8 * kBlock, kBlock, LunRequest::Kind::kWrite);
  EXPECT_FALSE(Put(7, 'd', 2).ok());
  EXPECT_EQ(Get(7), '\0');
  lun_.ClearFaults();
  EXPECT_TRUE(Put(7, 'd', 2).ok());
  lun_.FailFlush(1);
  EXPECT_FALSE(lun_.Flush().ok());
  EXPECT_TRUE(lun_.Flush().ok());
  lun_.SetUnplugged(true);
  EXPECT_FALSE(Put(0, 'e').ok());
  lun_.SetUnplugged(false);
  EXPECT_EQ(Get(0), 'c');
  EXPECT_EQ(lun_.counters().errors, 4U);
}

TEST_F(FaultyLunTest, AFlippedBitStays) {
  ASSERT_TRUE(Put(0, 'a').ok());
  lun_.FlipBit(0, 1);
  EXPECT_EQ(Get(0), 'c');
  ASSERT_TRUE(lun_.Flush().ok());
  lun_.Crash(1, FaultyLun::kLoseAll);
  EXPECT_EQ(Get(0), 'c');
}

TEST_F(FaultyLunTest, IsAsStrictAboutAlignmentAsDirectIo) {
  const AlignedBuffer buffer(2 * kBlock);
  EXPECT_TRUE(absl::IsInvalidArgument(lun_.Read(512, buffer.span().first(kBlock))));
  EXPECT_TRUE(absl::IsInvalidArgument(lun_.Read(0, buffer.span().subspan(8, kBlock))));
  EXPECT_TRUE(absl::IsOutOfRange(lun_.Read(lun_.size_bytes(), buffer.span())));
}

}  // namespace
}  // namespace reel
