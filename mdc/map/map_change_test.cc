#include "mdc/map/map_change.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "volume/testing/sample_volume.h"

namespace reel::mdc {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr std::uint64_t kBreadth = 16 * 4096;

class MapChangeTest : public testing::Test {
 protected:
  // Two pools of 16 blocks breadth: 1000 rows on two LUNs, 500 on one.
  MapChangeTest() : before_(SampleVolume({{16, {{1000, 2}}}, {16, {{500, 1}}}})) {
    for (const Pool& pool : before_.pools) {
      for (const LunEntry& lun : pool.sets[0].luns) now_.push_back(Facts(lun.lun, lun.name));
    }
  }
  static LunFacts Facts(const Uuid& uuid, const std::string& name, std::uint64_t rows = 1000) {
    return {.uuid = uuid,
            .name = name,
            .path = "/dev/" + name,
            .size_bytes = kMiB + rows * kBreadth,
            .logical_block_bytes = 512};
  }
  absl::StatusOr<VolumeDescriptor> Next(const std::vector<LunFacts>& added = {}) {
    return NextMap(before_, request_, added, now_);
  }

  VolumeDescriptor before_;
  std::vector<LunFacts> now_;
  v1::ChangeMapRequest request_;
};

TEST_F(MapChangeTest, LunsAreASetAtTheEndOfThePool) {
  request_.mutable_add_luns()->set_pool("pool0");
  const auto next = Next({Facts(SampleUuid(9), "new", 700)});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->generation, before_.generation + 1);
  ASSERT_EQ(next->pools[0].sets.size(), 2u);
  EXPECT_EQ(next->pools[0].sets[0], before_.pools[0].sets[0]);
  EXPECT_EQ(next->pools[0].sets[1].rows, 700u);
  EXPECT_EQ(next->pools[1], before_.pools[1]);
  EXPECT_TRUE(Grows(request_));
}

TEST_F(MapChangeTest, ALunWhoseNameIsTakenIsRefused) {
  request_.mutable_add_luns()->set_pool("pool0");
  EXPECT_THAT(Next({Facts(SampleUuid(9), "lun0")}).status().message(),
              HasSubstr("two LUNs are named lun0"));
  EXPECT_THAT(Next({}).status().message(), HasSubstr("no LUN"));
  request_.mutable_add_luns()->set_pool("nowhere");
  EXPECT_THAT(Next({Facts(SampleUuid(9), "new")}).status().message(),
              HasSubstr("no pool nowhere; it has pool0, pool1"));
}

TEST_F(MapChangeTest, APoolComesLastWithTheBreadthOfTheOneBefore) {
  auto& pool = *request_.mutable_add_pool();
  pool.set_pool("archive");
  pool.set_data(true);
  pool.add_affinities("old");
  const auto next = Next({Facts(SampleUuid(9), "new")});
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->pools[2].name, "archive");
  EXPECT_EQ(next->pools[2].flags, Pool::kData);
  EXPECT_EQ(next->pools[2].breadth_blocks, 16u);
  EXPECT_THAT(next->pools[2].affinities, ElementsAre("old"));
  pool.set_breadth_bytes(1 << 20);
  EXPECT_EQ(Next({Facts(SampleUuid(9), "new")})->pools[2].breadth_blocks, 256u);
  pool.set_breadth_bytes(5000);
  EXPECT_FALSE(Next({Facts(SampleUuid(9), "new")}).ok());
}

TEST_F(MapChangeTest, PoolsThatWouldHoldNothingAreRefused) {
  auto& pool = *request_.mutable_add_pool();
  pool.set_pool("more");
  pool.set_metadata(true);
  EXPECT_THAT(Next({Facts(SampleUuid(9), "new")}).status().message(), HasSubstr("stay unused"));
  pool.set_metadata(false);
  pool.set_data(true);
  pool.set_exclusive(true);
  EXPECT_THAT(Next({Facts(SampleUuid(9), "new")}).status().message(), HasSubstr("no affinity"));
}

TEST_F(MapChangeTest, LunsThatGrewGiveAFurtherSet) {
  request_.mutable_grow()->set_pool("pool0");
  EXPECT_TRUE(absl::IsFailedPrecondition(Next().status())) << "none has grown";
  for (std::size_t lun : {0, 1}) now_[lun].size_bytes += 100 * kBreadth;
  const auto next = Next();
  ASSERT_TRUE(next.ok()) << next.status();
  ASSERT_EQ(next->pools[0].sets.size(), 2u);
  EXPECT_EQ(next->pools[0].sets[1].rows, 100u);
  EXPECT_EQ(next->pools[0].sets[1].luns[1].lun, before_.pools[0].sets[0].luns[1].lun);
}

TEST_F(MapChangeTest, OfSeveralGroupsThoseThatGrewGiveOne) {
  StripeSet other = before_.pools[0].sets[0];
  other.luns = {{SampleUuid(9), "lun9", kMiB}};
  before_.pools[0].sets.push_back(other);
  now_.insert(now_.begin() + 2, Facts(SampleUuid(9), "lun9", 1010));
  request_.mutable_grow()->set_pool("pool0");
  const auto next = Next();
  ASSERT_TRUE(next.ok()) << next.status();
  ASSERT_EQ(next->pools[0].sets.size(), 3u);
  EXPECT_EQ(next->pools[0].sets[2].luns[0].name, "lun9");
  EXPECT_EQ(next->pools[0].sets[2].rows, 10u);
}

TEST_F(MapChangeTest, NamesAndAffinitiesChangeNothingElse) {
  request_.mutable_rename()->set_pool("pool1");
  request_.mutable_rename()->set_name("edit");
  auto next = Next();
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->pools[1].name, "edit");
  EXPECT_EQ(next->pools[1].sets, before_.pools[1].sets);
  EXPECT_FALSE(Grows(request_));
  request_.mutable_rename()->set_name("pool0");
  EXPECT_THAT(Next().status().message(), HasSubstr("two pools are named pool0"));
  request_.mutable_rename()->set_name("pool1");
  EXPECT_THAT(Next().status().message(), HasSubstr("so already"));

  auto& set = *request_.mutable_set_pool();
  set.set_pool("pool1");
  set.set_sets_affinities(true);
  set.add_affinities("proxies");
  set.set_exclusive(true);
  next = Next();
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_THAT(next->pools[1].affinities, ElementsAre("proxies"));
  EXPECT_NE(next->pools[1].flags & Pool::kExclusive, 0u);
}

TEST_F(MapChangeTest, SomePoolStaysForFilesWithoutAffinity) {
  before_.pools[0].flags = Pool::kMetadata;
  auto& set = *request_.mutable_set_pool();
  set.set_pool("pool1");
  set.set_sets_affinities(true);
  set.add_affinities("proxies");
  set.set_exclusive(true);
  EXPECT_THAT(Next().status().message(), HasSubstr("every pool for data would be exclusive"));
}

}  // namespace
}  // namespace reel::mdc
