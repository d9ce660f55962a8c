#include "tools/lib/geometry.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "volume/format/label.h"

namespace reel::tools {
namespace {

using ::testing::HasSubstr;

class GeometryTest : public ::testing::Test {
 protected:
  void AddPool(const std::string& name, std::uint32_t flags, std::uint64_t breadth_bytes,
               const std::vector<std::uint64_t>& lun_sizes, std::uint32_t optimal_io_bytes = 0) {
    PoolDescription pool;
    pool.name = name;
    pool.flags = flags;
    pool.breadth_bytes = breadth_bytes;
    std::vector<LunFacts> facts;
    for (std::size_t i = 0; i < lun_sizes.size(); ++i) {
      const std::string lun = name + std::to_string(i);
      pool.luns.push_back({lun, ""});
      facts.push_back({Uuid::Random(), lun, "/luns/" + lun, lun_sizes[i], 512, optimal_io_bytes});
    }
    description_.pools.push_back(pool);
    luns_.push_back(facts);
  }
  absl::StatusOr<Geometry> Compute() {
    description_.name = "reel1";
    return ComputeGeometry({.description = description_,
                            .luns = luns_,
                            .min_region_blocks = min_region_bytes_ / description_.block_bytes,
                            .volume = Uuid::Random(),
                            .now = {}});
  }

  VolumeDescription description_;
  std::vector<std::vector<LunFacts>> luns_;
  std::uint64_t min_region_bytes_ = 16 * kMiB;
};

constexpr std::uint32_t kBoth = Pool::kMetadata | Pool::kData;

TEST_F(GeometryTest, TheSmallestLunCounts) {
  AddPool("meta", Pool::kMetadata, 256 * kKiB, {1 * kGiB});
  AddPool("data", Pool::kData, 1 * kMiB, {10 * kGiB, 10 * kGiB + 3 * kMiB + 17 * 512});
  const auto geometry = Compute();
  ASSERT_TRUE(geometry.ok()) << geometry.status();
  EXPECT_EQ(geometry->descriptor.pools[1].sets[0].rows, 10 * 1024u - 1);
  EXPECT_EQ(geometry->luns[1][0].unequal_bytes, 0u);
  EXPECT_EQ(geometry->luns[1][1].unequal_bytes, 3 * kMiB);
  EXPECT_EQ(geometry->data_bytes(), 2 * (10 * kGiB - kMiB));
  EXPECT_EQ(geometry->descriptor.seat_lun, luns_[0][0].uuid);
}

TEST_F(GeometryTest, DataBeginAtBreadthAndOptimalIo) {
  AddPool("a", kBoth, 768 * kKiB, {1 * kGiB});
  AddPool("b", Pool::kData, 1 * kMiB, {1 * kGiB}, 1280 * kKiB);
  AddPool("odd", Pool::kData, 1 * kMiB, {1 * kGiB}, 33553920);  // USB bridges: 65535 sectors
  const auto geometry = Compute();
  ASSERT_TRUE(geometry.ok()) << geometry.status();
  EXPECT_EQ(geometry->luns[0][0].data_start_bytes, 1536 * kKiB);
  EXPECT_EQ(geometry->luns[1][0].data_start_bytes, 5 * kMiB);
  EXPECT_EQ(geometry->luns[2][0].data_start_bytes, kMiB);
}

TEST_F(GeometryTest, MetadataRegion) {
  struct Case {
    std::uint32_t flags;
    std::uint64_t lun_bytes, region_bytes;
  };
  for (const Case& c : {Case{kBoth, 64 * kMiB + kMiB, 16 * kMiB},            // small: a quarter
                        Case{kBoth, 2 * kGiB + kMiB, 256 * kMiB},            // the floor
                        Case{kBoth, 128 * kGiB + kMiB, 2 * kGiB},            // 1/64
                        Case{kBoth, 4096 * kGiB + kMiB, 8 * kGiB},           // the ceiling
                        Case{Pool::kMetadata, 64 * kMiB + kMiB, 64 * kMiB},  // taken wholly
                        Case{Pool::kMetadata, 500 * kGiB, 64 * kGiB}}) {
    description_.pools.clear();
    luns_.clear();
    AddPool("m", c.flags, 256 * kKiB, {c.lun_bytes});
    AddPool("d", Pool::kData, 256 * kKiB, {1 * kGiB});
    const auto geometry = Compute();
    ASSERT_TRUE(geometry.ok()) << geometry.status();
    EXPECT_EQ(geometry->region_blocks * geometry->descriptor.block_bytes, c.region_bytes)
        << c.lun_bytes;
  }
}

TEST_F(GeometryTest, NamesTheLunThatIsTooSmall) {
  AddPool("m", kBoth, 256 * kKiB, {40 * kMiB});
  min_region_bytes_ = 24 * kMiB;
  EXPECT_THAT(Compute().status().message(),
              HasSubstr("pool \"m\" is too small for metadata: 39 MiB"));
  luns_[0][0].size_bytes = kMiB;
  EXPECT_THAT(Compute().status().message(), HasSubstr("LUN /luns/m0 is too small"));
  luns_[0][0].size_bytes = kGiB;
  description_.pools[0].breadth_bytes = kGiB;
  EXPECT_THAT(Compute().status().message(), HasSubstr("too small for a stripe breadth of 1 GiB"));
}

TEST_F(GeometryTest, RefusesContradictions) {
  AddPool("d", Pool::kData, 256 * kKiB, {1 * kGiB, 1 * kGiB});
  EXPECT_THAT(Compute().status().message(), HasSubstr("no pool has the flag \"metadata\""));
  AddPool("m", Pool::kMetadata, 256 * kKiB, {1 * kGiB});
  AddPool("n", Pool::kMetadata, 256 * kKiB, {1 * kGiB});
  EXPECT_THAT(Compute().status().message(), HasSubstr("would stay unused"));
  description_.pools.pop_back();
  luns_.pop_back();
  luns_[0][1].uuid = luns_[0][0].uuid;
  EXPECT_THAT(Compute().status().message(), HasSubstr("is given twice"));
  luns_[0][1].uuid = Uuid::Random();
  luns_[0][1].name = "d0";
  EXPECT_THAT(Compute().status().message(), HasSubstr("named \"d0\" like another one"));
  luns_[0][1].name = "d1";
  EXPECT_TRUE(Compute().ok()) << Compute().status();
}

}  // namespace
}  // namespace reel::tools
