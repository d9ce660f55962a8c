#include "mdc/metadb/schema.h"

#include <limits>
#include <string>

#include "gtest/gtest.h"

namespace reel::mdc::schema {
namespace {

using std::string_literals::operator""s;

TEST(Schema, GoldenBytes) {
  EXPECT_EQ(VolumeKey(), "V");
  EXPECT_EQ(InodeKey(InodeNumber(0x0102)), "I\0\0\0\0\0\0\1\2"s);
  EXPECT_EQ(DirentKey(InodeNumber(1), "a"), "D\0\0\0\0\0\0\0\1a"s);
  EXPECT_EQ(CookieKey(InodeNumber(1), 3), "C\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\3"s);
  EXPECT_EQ(ExtentKey(InodeNumber(1), FileBlock(255)), "E\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\xff"s);
  EXPECT_EQ(XattrKey(InodeNumber(1), "user.x"), "X\0\0\0\0\0\0\0\1user.x"s);
  EXPECT_EQ(FreeKey(PoolId(2), PoolBlock(5)), "F\0\0\0\2\0\0\0\0\0\0\0\5"s);
  EXPECT_EQ(OrphanKey(InodeNumber(9)), "O\0\0\0\0\0\0\0\t"s);
  EXPECT_EQ(SessionKey(SessionId(9)), "S\0\0\0\0\0\0\0\t"s);
  EXPECT_EQ(ReplyKey(SessionId(9), 4), "R\0\0\0\0\0\0\0\t\0\0\0\4"s);
  EXPECT_EQ(QuotaKey({QuotaKind::kTree, 0x0102}), "Q\3\0\0\1\2"s);
  EXPECT_EQ(QuotaStateKey(), "Q\0\0\0\0\0"s);
  EXPECT_EQ(CapacityKey(PoolId(2), 3), "B\0\0\0\0\2\0\0\0\3"s);
  EXPECT_EQ(ReservationKey(7), "B\1\0\0\0\0\0\0\0\7"s);
}

TEST(Schema, ByteOrderIsNumericOrder) {
  EXPECT_LT(InodeKey(InodeNumber(255)), InodeKey(InodeNumber(256)));
  EXPECT_LT(ExtentKey(InodeNumber(1), FileBlock(~0ull)), ExtentKey(InodeNumber(2), FileBlock(0)));
}

TEST(Schema, EveryKeyParsesBack) {
  const std::string dirent = DirentKey(InodeNumber(7), "name");
  const ParsedKey parsed = Parse(dirent).value();
  EXPECT_EQ(parsed.family, Family::kDirent);
  EXPECT_EQ(parsed.first, 7u);
  EXPECT_EQ(parsed.name, "name");
  const std::string free = FreeKey(PoolId(3), PoolBlock(1ull << 47));
  EXPECT_EQ(Parse(free)->first, 3u);
  EXPECT_EQ(Parse(free)->second, 1ull << 47);
  const std::string reply = ReplyKey(SessionId(5), 64);
  EXPECT_EQ(Parse(reply)->first, 5u);
  EXPECT_EQ(Parse(reply)->second, 64u);
  for (const std::string& key :
       {VolumeKey(), InodeKey(InodeNumber(1)), CookieKey(InodeNumber(1), 2),
        OrphanKey(InodeNumber(1)), ExtentKey(InodeNumber(1), FileBlock(2)),
        XattrKey(InodeNumber(1), "user.a"), SessionKey(SessionId(1)),
        QuotaKey({QuotaKind::kUser, 1000}), QuotaStateKey(), CapacityKey(PoolId(1), 2),
        ReservationKey(3)}) {
    EXPECT_TRUE(Parse(key).ok());
  }
}

TEST(Schema, AnythingElseIsDamage) {
  for (const std::string& key :
       {""s, "I"s, "V\0"s, "Z\0\0\0\0\0\0\0\1"s, DirentKey(InodeNumber(1), ""),
        DirentKey(InodeNumber(1), std::string(256, 'x')), InodeKey(InodeNumber(1)) + "x",
        CookieKey(InodeNumber(1), 2).substr(0, 16), "Q\4\0\0\0\1"s, "B\2\0\0\0\0\0\0\0\1"s}) {
    EXPECT_EQ(Parse(key).status().code(), absl::StatusCode::kDataLoss) << key.size();
  }
}

}  // namespace
}  // namespace reel::mdc::schema
