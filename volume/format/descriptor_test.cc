#include "volume/format/descriptor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "volume/base/coding.h"
#include "volume/format/label.h"
#include "volume/testing/faulty_lun.h"
#include "volume/testing/sample_volume.h"

namespace reel {
namespace {

using ::testing::HasSubstr;

VolumeDescriptor Sample() {
  VolumeDescriptor volume = SampleVolume({{16, {{100, 1}}}, {4, {{50, 2}, {25, 1}}}});
  volume.pools[0].flags = Pool::kMetadata;
  volume.pools[1].flags = Pool::kData | Pool::kExclusive;
  volume.pools[1].affinities = {"video", "audio"};
  volume.strategy = AllocationStrategy::kBalance;
  volume.generation = 7;
  return volume;
}

std::string Encoded(const VolumeDescriptor& volume) {
  auto encoded = EncodeDescriptor(volume);
  EXPECT_TRUE(encoded.ok()) << encoded.status();
  return *std::move(encoded);
}

std::string ResealDescriptor(std::string bytes) {
  StoreU32(bytes.data() + 12, 0);
  StoreU32(bytes.data() + 12, Crc32c(AsBytes(bytes)));
  return bytes;
}

// What this descriptor looks like on the LUN, for ever.
TEST(Descriptor, GoldenBytes) {
  const std::string hex = absl::StrCat(
      "5245454c44455343"
      "01000000"
      "d7ce2fe4"
      "0700000000000000"
      "29010000"
      "00000000",
      "0000000000000000"
      "0000000000000000"
      "0000000000000000",
      "000000000000000000000000000000c8"
      "00000000000000000000000000000001",
      "060073747564696f"
      "00100000"
      "02"
      "00f1536500000000"
      "02000000",
      // pool0
      "0500706f6f6c30"
      "01000000"
      "10000000"
      "00000000"
      "01000000",
      "6400000000000000"
      "01000000",
      "00000000000000000000000000000001"
      "04006c756e30"
      "0000100000000000",
      // pool1
      "0500706f6f6c31"
      "06000000"
      "04000000",
      "02000000"
      "0500766964656f"
      "0500617564696f"
      "02000000",
      "3200000000000000"
      "02000000",
      "00000000000000000000000000000002"
      "04006c756e31"
      "0000100000000000",
      "00000000000000000000000000000003"
      "04006c756e32"
      "0000100000000000",
      "1900000000000000"
      "01000000",
      "00000000000000000000000000000004"
      "04006c756e33"
      "0000100000000000");
  EXPECT_EQ(absl::BytesToHexString(Encoded(Sample())), hex);
  const auto decoded = DecodeDescriptor(AsBytes(absl::HexStringToBytes(hex)));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, Sample());
}

TEST(Descriptor, EveryFlippedBitAndTruncationIsNoticed) {
  std::string bytes = Encoded(Sample());
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    const absl::Status status = DecodeDescriptor(AsBytes(bytes)).status();
    ASSERT_TRUE(bit < 64 ? absl::IsNotFound(status) : absl::IsDataLoss(status)) << bit << status;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  }
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_FALSE(DecodeDescriptor(AsBytes(bytes).first(size)).ok()) << size;
  }
  bytes.resize(kDescriptorSlotBytes, 'x');
  EXPECT_TRUE(DecodeDescriptor(AsBytes(bytes)).ok()) << "what follows in the slot is nobody's";
}

TEST(Descriptor, FeatureMasksBoundOlderPrograms) {
  VolumeDescriptor volume = Sample();
  volume.compat = 1;
  EXPECT_FALSE(MustStayReadOnly(*DecodeDescriptor(AsBytes(Encoded(volume)))));
  volume.ro_compat = 2;
  EXPECT_TRUE(MustStayReadOnly(*DecodeDescriptor(AsBytes(Encoded(volume)))));
  volume.incompat = 4;
  EXPECT_TRUE(absl::IsUnimplemented(DecodeDescriptor(AsBytes(Encoded(volume))).status()));
  std::string newer = Encoded(Sample());
  newer[8] = 9;
  EXPECT_TRUE(absl::IsUnimplemented(DecodeDescriptor(AsBytes(ResealDescriptor(newer))).status()));
}

TEST(Descriptor, AWholeChecksumDoesNotExcuseNonsense) {
  const std::string good = Encoded(Sample());
  for (std::size_t at = 32 + 24; at < good.size(); ++at) {  // behind the frame and the masks
    std::string bytes = good;
    bytes[at] = static_cast<char>(~bytes[at]);
    const auto decoded = DecodeDescriptor(AsBytes(ResealDescriptor(bytes)));
    if (decoded.ok()) {
      EXPECT_TRUE(ValidateDescriptor(*decoded).ok());
    } else {
      EXPECT_TRUE(absl::IsDataLoss(decoded.status())) << at << decoded.status();
    }
  }
}

TEST(Descriptor, TheLargestVolumeFitsItsSlot) {
  VolumeDescriptor volume = SampleVolume({});
  std::uint32_t n = 0;
  const auto name = [&n] { return absl::StrCat("a-name-of-a-good-length-", ++n); };
  for (int p = 0; p < 16; ++p) {
    Pool& pool = volume.pools.emplace_back();
    pool.name = name();
    pool.flags = Pool::kMetadata | Pool::kData;
    pool.breadth_blocks = 1;
    pool.sets.push_back({.luns = {}, .rows = 1});
    for (std::uint32_t l = 0; l < kMaxLunsPerPool; ++l) {
      LunEntry lun{.lun = {}, .name = name(), .data_start_bytes = kReservedBytes};
      StoreU32(lun.lun.bytes.data(), n);
      pool.sets[0].luns.push_back(lun);
    }
  }
  volume.seat_lun = volume.pools[0].sets[0].luns[0].lun;
  ASSERT_TRUE(ValidateDescriptor(volume).ok()) << ValidateDescriptor(volume);
  EXPECT_EQ(*DecodeDescriptor(AsBytes(Encoded(volume))), volume);
  for (Pool& pool : volume.pools) {
    for (LunEntry& lun : pool.sets[0].luns) lun.name.resize(kMaxLunNameBytes + 20, 'x');
  }
  EXPECT_TRUE(absl::IsInvalidArgument(EncodeDescriptor(volume).status()))
      << "too long for the slot";
}

// Each case breaks one rule of a valid volume.
TEST(Descriptor, ValidationNamesTheBrokenRule) {
  using Break = void (*)(VolumeDescriptor&);
  const std::pair<const char*, Break> cases[] = {
      {"no UUID", [](VolumeDescriptor& d) { d.volume = {}; }},
      {"volume name", [](VolumeDescriptor& d) { d.name = "a b"; }},
      {"generations", [](VolumeDescriptor& d) { d.generation = 0; }},
      {"block size", [](VolumeDescriptor& d) { d.block_bytes = 2048; }},
      {"block size", [](VolumeDescriptor& d) { d.block_bytes = 12288; }},
      {"block size", [](VolumeDescriptor& d) { d.block_bytes = 2 << 20; }},
      {"strategy", [](VolumeDescriptor& d) { d.strategy = AllocationStrategy{3}; }},
      {"pools", [](VolumeDescriptor& d) { d.pools.clear(); }},
      {"pools", [](VolumeDescriptor& d) { d.pools.resize(65); }},
      {"pool name", [](VolumeDescriptor& d) { d.pools[1].name = ""; }},
      {"two pools", [](VolumeDescriptor& d) { d.pools[1].name = d.pools[0].name; }},
      {"flags", [](VolumeDescriptor& d) { d.pools[1].flags = Pool::kExclusive; }},
      {"flags", [](VolumeDescriptor& d) { d.pools[1].flags |= 8; }},
      {"no pool takes metadata", [](VolumeDescriptor& d) { d.pools[0].flags = Pool::kData; }},
      {"no pool takes data", [](VolumeDescriptor& d) { d.pools[1].flags = Pool::kMetadata; }},
      {"breadth", [](VolumeDescriptor& d) { d.pools[0].breadth_blocks = 0; }},
      {"affinity", [](VolumeDescriptor& d) { d.pools[1].affinities = {"/"}; }},
      {"twice",
       [](VolumeDescriptor& d) {
         d.pools[1].affinities = {"v", "v"};
       }},
      {"no LUNs", [](VolumeDescriptor& d) { d.pools[1].sets.clear(); }},
      {"is empty", [](VolumeDescriptor& d) { d.pools[1].sets[1].luns.clear(); }},
      {"is empty", [](VolumeDescriptor& d) { d.pools[1].sets[0].rows = 0; }},
      {"exceeds", [](VolumeDescriptor& d) { d.pools[1].sets[0].rows = ~std::uint64_t{0}; }},
      {"exceeds", [](VolumeDescriptor& d) { d.pools[1].sets[0].rows = 1ULL << 45; }},
      {"LUN name", [](VolumeDescriptor& d) { d.pools[1].sets[0].luns[0].name = "?"; }},
      {"no UUID", [](VolumeDescriptor& d) { d.pools[1].sets[0].luns[0].lun = {}; }},
      {"start", [](VolumeDescriptor& d) { d.pools[1].sets[0].luns[0].data_start_bytes = 4096; }},
      {"start", [](VolumeDescriptor& d) { d.pools[1].sets[0].luns[0].data_start_bytes += 512; }},
      {"two LUNs", [](VolumeDescriptor& d) { d.pools[1].sets[0].luns[0].name = "lun0"; }},
      {"used twice", [](VolumeDescriptor& d) { d.pools[1].sets[0].luns[0].lun = SampleUuid(1); }},
      {"seat", [](VolumeDescriptor& d) { d.seat_lun = SampleUuid(99); }},
      {"more than",
       [](VolumeDescriptor& d) {
         d.pools[1].sets[0].luns.resize(257, d.pools[1].sets[0].luns[0]);
       }},
  };
  ASSERT_TRUE(ValidateDescriptor(Sample()).ok()) << ValidateDescriptor(Sample());
  for (const auto& [word, break_rule] : cases) {
    VolumeDescriptor broken = Sample();
    break_rule(broken);
    const absl::Status status = ValidateDescriptor(broken);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << word;
    EXPECT_THAT(std::string(status.message()), HasSubstr(word));
  }
}

TEST(Descriptor, ALunThatGrewMayStandInALaterSetOfItsPool) {
  VolumeDescriptor volume = Sample();
  Pool& pool = volume.pools[1];
  LunEntry grown = pool.sets[0].luns[0];
  grown.data_start_bytes += pool.sets[0].rows * pool.breadth_blocks * volume.block_bytes;
  pool.sets.push_back({.luns = {grown}, .rows = 5});
  EXPECT_TRUE(ValidateDescriptor(volume).ok()) << ValidateDescriptor(volume);
  pool.sets.back().luns[0].data_start_bytes -= volume.block_bytes;
  EXPECT_FALSE(ValidateDescriptor(volume).ok()) << "it overlaps itself";
}

TEST(Descriptor, SetsMayHaveABreadthOfTheirOwnAndGapsWithTheFeatureAlone) {
  VolumeDescriptor volume = Sample();
  Pool& pool = volume.pools[1];
  const std::uint64_t before = pool.size_blocks();
  pool.sets.insert(pool.sets.begin(), StripeSet{.luns = {}, .rows = 17});
  EXPECT_FALSE(ValidateDescriptor(volume).ok()) << "a gap";
  volume.incompat = kIncompatSets;
  EXPECT_TRUE(ValidateDescriptor(volume).ok()) << ValidateDescriptor(volume);
  EXPECT_EQ(pool.size_blocks(), before + 17);
  EXPECT_EQ(pool.capacity_blocks(), before);
  pool.sets[1].breadth_blocks = 2 * pool.breadth_blocks;
  pool.sets[1].rows /= 2;
  EXPECT_EQ(pool.capacity_blocks(), before);
  const auto read = DecodeDescriptor(AsBytes(Encoded(volume)));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, volume);
  volume.incompat = 0;
  pool.sets.erase(pool.sets.begin());
  EXPECT_FALSE(ValidateDescriptor(volume).ok()) << "a breadth";
}

// What a restripe leaves: the LUN's first bytes in the last set.
TEST(Descriptor, ALunMayStandInItsSetsInAnyOrder) {
  VolumeDescriptor volume = Sample();
  Pool& pool = volume.pools[1];
  LunEntry first = pool.sets[0].luns[0];
  pool.sets[0].luns[0].data_start_bytes += 5 * pool.breadth_blocks * volume.block_bytes;
  pool.sets.push_back({.luns = {first}, .rows = 5});
  EXPECT_TRUE(ValidateDescriptor(volume).ok()) << ValidateDescriptor(volume);
  pool.sets.back().rows = 6;
  EXPECT_FALSE(ValidateDescriptor(volume).ok()) << "it overlaps itself";
}

class DescriptorOnLunTest : public ::testing::Test {
 protected:
  static VolumeDescriptor Generation(std::uint64_t generation) {
    VolumeDescriptor volume = Sample();
    volume.generation = generation;
    return volume;
  }
  FaultyLun lun_;
};

TEST_F(DescriptorOnLunTest, SlotsAlternateAndTheHighestRules) {
  EXPECT_TRUE(absl::IsNotFound(ReadDescriptor(lun_).status()));
  for (std::uint64_t generation = 1; generation <= 4; ++generation) {
    ASSERT_TRUE(WriteDescriptor(lun_, Generation(generation)).ok());
    const auto reading = ReadDescriptor(lun_);
    ASSERT_TRUE(reading.ok()) << reading.status();
    EXPECT_EQ(reading->descriptor, Generation(generation));
  }
  lun_.FlipBit(kDescriptorSlotOffsets[1] + 50, 1);  // generation 4
  const auto reading = ReadDescriptor(lun_);
  ASSERT_TRUE(reading.ok());
  EXPECT_EQ(reading->descriptor.generation, 3U);
  EXPECT_TRUE(absl::IsDataLoss(reading->slots[1]));
  lun_.FlipBit(kDescriptorSlotOffsets[0] + 50, 1);
  EXPECT_TRUE(absl::IsDataLoss(ReadDescriptor(lun_).status()));
}

TEST_F(DescriptorOnLunTest, ACrashLeavesTheOldOrTheNew) {
  ASSERT_TRUE(WriteDescriptor(lun_, Generation(1)).ok());
  for (std::uint64_t g = 1; g < 60; ++g) {
    lun_.FailFlush(1);
    EXPECT_FALSE(WriteDescriptor(lun_, Generation(g + 1)).ok());
    lun_.Crash(g);
    const auto reading = ReadDescriptor(lun_);
    ASSERT_TRUE(reading.ok()) << g << reading.status();
    EXPECT_TRUE(reading->descriptor == Generation(g) || reading->descriptor == Generation(g + 1));
    ASSERT_TRUE(WriteDescriptor(lun_, Generation(g + 1)).ok());
  }
}

TEST_F(DescriptorOnLunTest, RefusesToGoBackAndReplacesAnotherVolume) {
  ASSERT_TRUE(WriteDescriptor(lun_, Generation(8)).ok());
  ASSERT_TRUE(WriteDescriptor(lun_, Generation(9)).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(WriteDescriptor(lun_, Generation(7))));
  VolumeDescriptor different = Generation(9);
  different.name = "other";
  EXPECT_TRUE(absl::IsFailedPrecondition(WriteDescriptor(lun_, different)));
  VolumeDescriptor made_anew = Generation(1);
  made_anew.volume = SampleUuid(201);
  ASSERT_TRUE(WriteDescriptor(lun_, made_anew).ok());
  EXPECT_EQ(ReadDescriptor(lun_)->descriptor, made_anew) << "though 9 and 8 were there";
}

}  // namespace
}  // namespace reel
