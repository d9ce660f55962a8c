#include "volume/base/coding.h"

#include <gtest/gtest.h>

#include <random>

namespace reel {
namespace {

TEST(Coding, IsLittleEndian) {
  std::string out;
  PutU8(out, 0x01);
  PutU16(out, 0x0302);
  PutU32(out, 0x07060504);
  PutU64(out, 0x0f0e0d0c0b0a0908);
  PutString(out, "\x12\x13");
  EXPECT_EQ(out, std::string("\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f"
                             "\x02\x00\x12\x13",
                             19));
  ByteReader reader(AsBytes(out));
  EXPECT_EQ(reader.U8(), 0x01);
  EXPECT_EQ(reader.U16(), 0x0302);
  EXPECT_EQ(reader.U32(), 0x07060504U);
  EXPECT_EQ(reader.U64(), 0x0f0e0d0c0b0a0908U);
  EXPECT_EQ(reader.String(), "\x12\x13");
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.remaining(), 0U);
}

TEST(Coding, ReaderStaysBadAfterTheFirstReadPastTheEnd) {
  const std::string three = "abc";
  ByteReader reader(AsBytes(three));
  EXPECT_EQ(reader.U32(), 0U);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.U8(), 0U) << "though there is a byte";
  EXPECT_EQ(reader.Bytes(0), "");
  EXPECT_FALSE(reader.ok());
}

TEST(Coding, ReaderRefusesAStringLongerThanItsBytes) {
  const std::string forged = "\xff\xff xyz";
  ByteReader reader(AsBytes(forged));
  EXPECT_EQ(reader.String(), "");
  EXPECT_FALSE(reader.ok());
}

// RFC 3720, appendix B.4.
TEST(Crc32c, MatchesTheVectorsOfIscsi) {
  std::string ascending;
  for (int i = 0; i < 32; ++i) ascending.push_back(static_cast<char>(i));
  const std::string descending(ascending.rbegin(), ascending.rend());
  const unsigned char read_command[] = {
      0x01, 0xc0, 0, 0,    0, 0, 0, 0,    0,    0, 0, 0, 0, 0, 0, 0, 0x14, 0, 0, 0, 0, 0, 0x04, 0,
      0,    0,    0, 0x14, 0, 0, 0, 0x18, 0x28, 0, 0, 0, 0, 0, 0, 0, 0x02, 0, 0, 0, 0, 0, 0,    0};
  const std::string command(reinterpret_cast<const char*>(read_command), sizeof(read_command));
  for (const auto crc : {&ExtendCrc32c, &ExtendCrc32cPortable}) {
    EXPECT_EQ(crc(0, AsBytes(std::string(32, '\0'))), 0x8a9136aaU);
    EXPECT_EQ(crc(0, AsBytes(std::string(32, '\xff'))), 0x62a8ab43U);
    EXPECT_EQ(crc(0, AsBytes(ascending)), 0x46dd794eU);
    EXPECT_EQ(crc(0, AsBytes(descending)), 0x113fdb5cU);
    EXPECT_EQ(crc(0, AsBytes(command)), 0xd9963a56U);
    EXPECT_EQ(crc(0, {}), 0U);
  }
}

TEST(Crc32c, HardwareAgreesWithTheTableAtEveryLengthAndCut) {
  std::mt19937 random(1);
  std::string bytes;
  for (int i = 0; i < 100; ++i) {
    const auto all = AsBytes(bytes);
    const std::uint32_t expected = ExtendCrc32cPortable(0, all);
    EXPECT_EQ(Crc32c(all), expected) << i;
    const std::size_t cut = i == 0 ? 0 : random() % static_cast<unsigned>(i);
    EXPECT_EQ(ExtendCrc32c(Crc32c(all.first(cut)), all.subspan(cut)), expected) << i << " " << cut;
    bytes.push_back(static_cast<char>(random()));
  }
}

}  // namespace
}  // namespace reel
