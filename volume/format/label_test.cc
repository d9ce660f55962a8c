#include "volume/format/label.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "volume/base/aligned_buffer.h"
#include "volume/base/coding.h"
#include "volume/format/descriptor.h"
#include "volume/testing/faulty_lun.h"
#include "volume/testing/sample_volume.h"
#include "volume/testing/temporary_image.h"

namespace reel {
namespace {

using ::testing::HasSubstr;

Label SampleLabel() {
  return {.lun = SampleUuid(1),
          .name = "lun0",
          .volume = SampleUuid(200),
          .pool = 2,
          .stripe_set = 3,
          .position = 4,
          .generation = 5,
          .size_bytes = 64 << 20};
}

// What a label with these fields looks like on the LUN, for ever.
TEST(Label, GoldenBytes) {
  std::string expected;
  expected += "REELLABL";
  expected += std::string("\x01\x00\x00\x00", 4);
  expected += std::string("\x13\x78\xcd\xc1", 4);
  expected += std::string(15, '\0') + '\x01';
  expected += std::string(15, '\0') + '\xc8';
  expected += std::string("\x02\x00\x00\x00\x03\x00\x00\x00\x04\x00\x00\x00\x04\x00\x00\x00", 16);
  expected += "lun0" + std::string(60, '\0');
  expected += std::string("\x05\x00\x00\x00\x00\x00\x00\x00", 8);
  expected += std::string("\x00\x00\x00\x04\x00\x00\x00\x00", 8);
  const std::string encoded = EncodeLabel(SampleLabel());
  EXPECT_EQ(encoded.substr(0, expected.size()), expected);
  expected.resize(kLabelBytes, '\0');
  EXPECT_TRUE(encoded == expected) << "zeros to the end";
  ASSERT_TRUE(DecodeLabel(AsBytes(expected)).ok());
  EXPECT_EQ(*DecodeLabel(AsBytes(expected)), SampleLabel());
}

TEST(Label, EveryFlippedBitIsNoticed) {
  std::string bytes = EncodeLabel(SampleLabel());
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    const absl::Status status = DecodeLabel(AsBytes(bytes)).status();
    ASSERT_TRUE(bit < 64 ? absl::IsNotFound(status) : absl::IsDataLoss(status)) << bit << status;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  }
}

TEST(Label, EveryTruncationIsNoticed) {
  const std::string bytes = EncodeLabel(SampleLabel());
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_FALSE(DecodeLabel(AsBytes(bytes).first(size)).ok()) << size;
  }
}

std::string ResealLabel(std::string bytes) {
  StoreU32(bytes.data() + 12, 0);
  StoreU32(bytes.data() + 12, Crc32c(AsBytes(bytes)));
  return bytes;
}

TEST(Label, ANewerFormatIsNotMistakenForDamage) {
  std::string bytes = EncodeLabel(SampleLabel());
  bytes[8] = 2;
  EXPECT_TRUE(absl::IsUnimplemented(DecodeLabel(AsBytes(ResealLabel(bytes))).status()));
}

TEST(Label, AWholeChecksumDoesNotExcuseABadName) {
  const std::string good = EncodeLabel(SampleLabel());
  for (const std::string& name_bytes :
       {std::string("\x00", 1), std::string("\x41"), std::string("\xff")}) {
    std::string bytes = good;
    bytes.replace(60, 1, name_bytes);
    EXPECT_TRUE(absl::IsDataLoss(DecodeLabel(AsBytes(ResealLabel(bytes))).status()));
  }
}

TEST(Label, Names) {
  for (const char* name : {"a", "lun-0_A.9"}) EXPECT_TRUE(ValidateLunName(name).ok()) << name;
  EXPECT_TRUE(ValidateLunName(std::string(64, 'a')).ok());
  EXPECT_FALSE(ValidateLunName(std::string(65, 'a')).ok());
  for (const char* name : {"", "a b", "a/b", "\xc3\xa4", "a\n"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ValidateLunName(name))) << name;
  }
}

class LabelOnLunTest : public ::testing::Test {
 protected:
  Label Labelled(std::uint64_t generation) {
    Label label = SampleLabel();
    label.generation = generation;
    EXPECT_TRUE(WriteLabel(lun_, label).ok());
    return label;
  }
  FaultyLun lun_;
};

TEST_F(LabelOnLunTest, AnEmptyLunHasNone) {
  EXPECT_TRUE(absl::IsNotFound(ReadLabel(lun_).status()));
  FaultyLun tiny({.size_bytes = 4096});
  EXPECT_TRUE(absl::IsNotFound(ReadLabel(tiny).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(WriteLabel(tiny, SampleLabel())));
}

TEST_F(LabelOnLunTest, EitherCopySurvivesTheOther) {
  const Label label = Labelled(1);
  for (const std::uint64_t offset : {kLabelOffset, kLabelCopyOffset}) {
    lun_.FlipBit(offset + 100, 3);
    const auto reading = ReadLabel(lun_);
    ASSERT_TRUE(reading.ok()) << reading.status();
    EXPECT_EQ(reading->label, label);
    EXPECT_EQ(reading->primary.ok(), offset != kLabelOffset);
    EXPECT_EQ(reading->copy.ok(), offset != kLabelCopyOffset);
    lun_.FlipBit(offset + 100, 3);
  }
  lun_.FlipBit(kLabelOffset + 100, 3);
  lun_.FlipBit(kLabelCopyOffset, 0);
  EXPECT_TRUE(absl::IsDataLoss(ReadLabel(lun_).status())) << "a trace of one is left";
}

TEST_F(LabelOnLunTest, AnUnreadableCopyIsNotTakenForAMissingOne) {
  const Label label = Labelled(1);
  lun_.FailRange(kLabelOffset, 4096);
  ASSERT_TRUE(ReadLabel(lun_).ok());
  lun_.FailRange(kLabelCopyOffset, 4096);
  EXPECT_TRUE(absl::IsUnknown(ReadLabel(lun_).status()));
}

TEST_F(LabelOnLunTest, ACrashWhileRewritingLeavesTheOldOrTheNew) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Label before = Labelled(2 * seed + 1);
    Label after = before;
    after.generation += 1;
    after.name = "renamed";
    // The power goes at one of the two writes or two flushes.
    if (seed % 2 == 0) {
      lun_.FailRequest(1 + seed / 2 % 2);
    } else {
      lun_.FailFlush(1 + seed / 2 % 2);
    }
    EXPECT_FALSE(WriteLabel(lun_, after).ok());
    lun_.Crash(seed);
    const auto reading = ReadLabel(lun_);
    ASSERT_TRUE(reading.ok()) << seed << reading.status();
    EXPECT_TRUE(reading->label == before || reading->label == after) << seed;
  }
}

TEST_F(LabelOnLunTest, ClearingLeavesNothing) {
  Labelled(1);
  ASSERT_TRUE(WriteDescriptor(lun_, SampleVolume({{2, {{4, 2}}}})).ok());
  ASSERT_TRUE(ClearReservedArea(lun_).ok());
  EXPECT_EQ(lun_.DurableContent(0, kReservedBytes), std::string(kReservedBytes, '\0'));
}

TEST(ForeignContent, KnowsFileSystemsAndTablesButNotOurOwnArea) {
  const TemporaryImage image(8 << 20);
  EXPECT_EQ(*ProbeForeignContent(image.path()), "");
  {
    const auto lun = OpenLun(image.path(), LunAccess::kReadWrite);
    ASSERT_TRUE(lun.ok()) << lun.status();
    ASSERT_TRUE(WriteLabel(**lun, SampleLabel()).ok());
    ASSERT_TRUE(WriteDescriptor(**lun, SampleVolume({{2, {{4, 2}}}})).ok());
    EXPECT_EQ(*ProbeForeignContent(image.path()), "");
    ASSERT_TRUE(ClearReservedArea(**lun).ok());
  }
  const auto put = [&](std::uint64_t offset, const std::string& bytes) {
    std::fstream file(image.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(offset));
    file << bytes;
  };
  put(4096 - 10, "SWAPSPACE2");
  put(1024, std::string("\x01\x00\x00\x00\xff\x00\x00\x00", 8));
  EXPECT_THAT(*ProbeForeignContent(image.path()), HasSubstr("swap"));
  put(4096 - 10, std::string(10, '\0'));
  EXPECT_EQ(*ProbeForeignContent(image.path()), "");
  // A DOS table with one Linux partition.
  put(446, std::string("\x00\x00\x00\x00\x83\x00\x00\x00\x08\x00\x00\x00\x10\x00\x00\x00", 16));
  put(510, "\x55\xaa");
  EXPECT_THAT(*ProbeForeignContent(image.path()), HasSubstr("dos partition table"));
  EXPECT_TRUE(absl::IsNotFound(ProbeForeignContent("/no/such/lun").status()));
}

}  // namespace
}  // namespace reel
