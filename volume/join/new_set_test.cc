#include "volume/join/new_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace reel {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t kBlock = 4096;
constexpr std::uint64_t kBreadth = 64 * kBlock;

LunFacts Facts(std::uint8_t n, std::uint64_t size_bytes) {
  Uuid uuid;
  uuid.bytes[0] = n;
  return {.uuid = uuid,
          .name = "lun" + std::to_string(n),
          .path = "/dev/lun" + std::to_string(n),
          .size_bytes = size_bytes,
          .logical_block_bytes = 512};
}

TEST(NewSetTest, TheSmallestLunSaysHowManyRows) {
  const auto made =
      MakeSet({Facts(1, kMiB + 200 * kBreadth), Facts(2, kMiB + 203 * kBreadth)}, kBreadth, kBlock);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->set.rows, 200u);
  EXPECT_THAT(made->unequal_units, ElementsAre(0, 3));
  EXPECT_EQ(made->set.luns[1].data_start_bytes, kMiB);
}

TEST(NewSetTest, SmallLunsAndLargeBlocksAreRefused) {
  EXPECT_THAT(MakeSet({Facts(1, 8 * kMiB)}, kBreadth, kBlock).status().message(),
              HasSubstr("/dev/lun1 is too small"));
  LunFacts coarse = Facts(1, 64 * kMiB);
  coarse.logical_block_bytes = 16384;
  EXPECT_THAT(MakeSet({coarse}, kBreadth, kBlock).status().message(), HasSubstr("logical blocks"));
}

class RestTest : public testing::Test {
 protected:
  RestTest() {
    pool_.name = "data";
    pool_.breadth_blocks = 64;
    pool_.sets = {MakeSet({Facts(1, kMiB + 200 * kBreadth), Facts(2, kMiB + 200 * kBreadth)},
                          kBreadth, kBlock)
                      ->set};
  }
  absl::StatusOr<StripeSet> Rest(std::uint64_t first_rows, std::uint64_t second_rows) {
    return MakeSetOfRest(
        pool_, pool_.sets.back(),
        {Facts(1, kMiB + first_rows * kBreadth), Facts(2, kMiB + second_rows * kBreadth)}, kBlock);
  }
  Pool pool_;
};

TEST_F(RestTest, LiesBehindWhatThePoolHas) {
  const auto rest = Rest(300, 250);
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_EQ(rest->rows, 50u);
  EXPECT_EQ(rest->luns[0].data_start_bytes, kMiB + 200 * kBreadth);
  pool_.sets.push_back(*rest);
  EXPECT_EQ(Rest(300, 300)->luns[1].data_start_bytes, kMiB + 250 * kBreadth);
}

TEST_F(RestTest, IsNothingWhereOneLunHasNotGrown) {
  EXPECT_THAT(Rest(300, 200).status().message(), HasSubstr("lun2"));
  EXPECT_TRUE(absl::IsFailedPrecondition(Rest(200, 200).status()));
}

}  // namespace
}  // namespace reel
