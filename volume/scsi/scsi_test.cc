// Bytes as the standards lay them out (SPC-4, SBC-3), and answers that are cut or lie.
#include "volume/scsi/scsi.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/escaping.h"

namespace reel::scsi {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::byte> Bytes(const std::string& hex) {
  const std::string raw = absl::HexStringToBytes(hex);
  std::vector<std::byte> bytes;
  for (const char c : raw) bytes.push_back(static_cast<std::byte>(c));
  return bytes;
}

std::string Hex(const Cdb& cdb) {
  return absl::BytesToHexString(
      absl::string_view(reinterpret_cast<const char*>(cdb.bytes.data()), cdb.size));
}

TEST(ScsiTest, LaysOutCommands) {
  EXPECT_EQ(Hex(TestUnitReady()), "000000000000");
  EXPECT_EQ(Hex(Inquiry(96)), "120000006000");
  EXPECT_EQ(Hex(InquiryPage(0xb0, 1024)), "1201b0040000");
  EXPECT_EQ(Hex(ReadCapacity16(32)), "9e100000000000000000000000200000");
  EXPECT_EQ(Hex(Read16(0x0102030405060708, 0x0a0b0c0d)),
            "88000102030405060708"
            "0a0b0c0d"
            "0000");
  EXPECT_EQ(Hex(Write16(1, 2)), "8a000000000000000001000000020000");
  EXPECT_EQ(Hex(SynchronizeCache16()), "91000000000000000000000000000000");
  EXPECT_EQ(Hex(SynchronizeCache10()), "35000000000000000000");
  EXPECT_EQ(Hex(PersistentReserveIn(ReserveIn::kReadReservation, 64)), "5e010000000000004000");
  EXPECT_EQ(Hex(PersistentReserveOut(ReserveOut::kPreempt)), "5f040500000000001800");
  const auto keys = ReserveOutKeys(0x0102030405060708, 0x1112131415161718);
  EXPECT_EQ(absl::BytesToHexString(
                absl::string_view(reinterpret_cast<const char*>(keys.data()), keys.size())),
            "01020304050607081112131415161718"
            "0000000000000000");
}

TEST(ScsiTest, ReadsCapacities) {
  const auto capacity =
      DecodeCapacity(Bytes("0000000000003fff"
                           "00001000"
                           "00000000"));
  ASSERT_TRUE(capacity.ok());
  EXPECT_EQ(capacity->blocks, 0x4000U);
  EXPECT_EQ(capacity->block_bytes, 4096U);
  EXPECT_FALSE(DecodeCapacity(Bytes("0000000000003fff0000")).ok());
  EXPECT_FALSE(DecodeCapacity(Bytes("ffffffffffffffff"
                                    "00001000"))
                   .ok());
  EXPECT_FALSE(DecodeCapacity(Bytes("0000000000003fff"
                                    "00000000"))
                   .ok());
}

TEST(ScsiTest, KnowsADisk) {
  EXPECT_TRUE(*DecodeIsDisk(Bytes("0000050200")));
  EXPECT_FALSE(*DecodeIsDisk(Bytes("0c00050200")));  // a controller
  EXPECT_FALSE(*DecodeIsDisk(Bytes("7f00050200")));  // no such LUN
  EXPECT_FALSE(DecodeIsDisk(Bytes("0000")).ok());
}

TEST(ScsiTest, ReadsPages) {
  EXPECT_THAT(*DecodePages(Bytes("00000003"
                                 "0083b0")),
              ElementsAre(0x00, 0x83, 0xb0));
  EXPECT_THAT(*DecodePages(Bytes("000000ff"
                                 "00")),
              ElementsAre(0x00));  // says more than came
  EXPECT_FALSE(DecodePages(Bytes("00830000")).ok());
  const auto limits =
      DecodeBlockLimits(Bytes("00b0003c"
                              "00000001"
                              "00000800"
                              "00000100"
                              "0000"));
  ASSERT_TRUE(limits.ok());
  EXPECT_EQ(limits->max_transfer_blocks, 0x800U);
  EXPECT_EQ(limits->optimal_transfer_blocks, 0x100U);
  EXPECT_FALSE(DecodeBlockLimits(Bytes("00b00004"
                                       "00000001"))
                   .ok());
  EXPECT_EQ(*DecodeSerial(Bytes("00800006"
                                "202061623120")),
            "ab1");
}

TEST(ScsiTest, TakesTheBestDesignator) {
  const std::string t10 =
      "02010004"
      "61626364";
  const std::string naa =
      "01030008"
      "6000000000000001";
  const std::string port =
      "01130002"
      "ffff";  // of the target port, not of the LUN
  EXPECT_EQ(*DecodeDesignator(Bytes("0083001a" + t10 + port + naa)), "3.6000000000000001");
  EXPECT_EQ(*DecodeDesignator(Bytes("00830008" + t10)), "1.61626364");
  EXPECT_EQ(*DecodeDesignator(Bytes("00830000")), "");
  EXPECT_FALSE(DecodeDesignator(Bytes("00830008"
                                      "02010064"
                                      "61626364"))
                   .ok());
}

TEST(ScsiTest, ReadsReservations) {
  const auto keys =
      DecodeKeys(Bytes("00000007"
                       "00000010"
                       "00000000000000aa"
                       "00000000000000bb"));
  ASSERT_TRUE(keys.ok());
  EXPECT_EQ(keys->generation, 7U);
  EXPECT_EQ(keys->length_bytes, 24U);
  EXPECT_THAT(keys->keys, ElementsAre(0xaa, 0xbb));
  const auto cut =
      DecodeKeys(Bytes("00000007"
                       "ffffffff"
                       "00000000000000aa"
                       "0000"));
  ASSERT_TRUE(cut.ok());
  EXPECT_EQ(cut->length_bytes, 8ULL + 0xffffffff);
  EXPECT_THAT(cut->keys, ElementsAre(0xaa));
  EXPECT_THAT(DecodeKeys(Bytes("00000000"
                               "00000000"))
                  ->keys,
              IsEmpty());
  EXPECT_FALSE(DecodeKeys(Bytes("00000000")).ok());

  EXPECT_FALSE(DecodeHolder(Bytes("00000007"
                                  "00000000"))
                   ->has_value());
  const auto holder =
      DecodeHolder(Bytes("00000007"
                         "00000010"
                         "00000000000000aa"
                         "00000000"
                         "00"
                         "05"
                         "0000"));
  ASSERT_TRUE(holder.ok() && holder->has_value());
  EXPECT_EQ((*holder)->key, 0xaaU);
  EXPECT_EQ((*holder)->type, kWriteExclusiveRegistrantsOnly);
  EXPECT_FALSE(DecodeHolder(Bytes("00000007"
                                  "00000010"
                                  "00000000000000aa"))
                   .ok());
}

TEST(ScsiTest, ReadsSense) {
  // Fixed: NOT READY, 04/0A. Descriptor: UNIT ATTENTION, 2A/06, of a deferred error.
  const Sense fixed =
      DecodeSense(Bytes("70000200000000"
                        "0a"
                        "00000000040a00000000"));
  EXPECT_EQ(fixed.key, 2);
  EXPECT_EQ(fixed.code, 0x040a);
  EXPECT_FALSE(fixed.deferred);
  const Sense descriptor = DecodeSense(Bytes("73062a0600000000"));
  EXPECT_EQ(descriptor.key, 6);
  EXPECT_EQ(descriptor.code, 0x2a06);
  EXPECT_TRUE(descriptor.deferred);
  for (const char* nothing : {"", "00", "7f020401"}) EXPECT_EQ(DecodeSense(Bytes(nothing)).key, 0);
  EXPECT_EQ(DecodeSense(Bytes("7000")).code, 0) << "cut off";
}

TEST(ScsiTest, NamesSense) {
  EXPECT_EQ(SenseText(5, 0x2000), "ILLEGAL REQUEST, 20/00 (invalid command operation code)");
  EXPECT_EQ(SenseText(0xff, 0x1234), "SENSE KEY OF ANOTHER KIND, 12/34");
}

}  // namespace
}  // namespace reel::scsi
