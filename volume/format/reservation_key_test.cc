#include "volume/format/reservation_key.h"

#include <gtest/gtest.h>

#include <set>

namespace reel {
namespace {

Uuid Volume(std::uint8_t byte) {
  Uuid uuid;
  uuid.bytes[3] = byte;
  return uuid;
}

TEST(ReservationKeyTest, AKeyNamesItsOwner) {
  const std::uint64_t mdc = MakeControllerKey(Volume(1), Epoch(7), 0xffff);
  const std::uint64_t session = MakeSessionKey(Volume(1), Epoch(7), kMaxSessionKeys);
  ASSERT_TRUE(PartsOfKey(Volume(1), mdc).has_value());
  EXPECT_TRUE(PartsOfKey(Volume(1), mdc)->controller);
  EXPECT_EQ(PartsOfKey(Volume(1), mdc)->epoch, Epoch(7));
  ASSERT_TRUE(PartsOfKey(Volume(1), session).has_value());
  EXPECT_FALSE(PartsOfKey(Volume(1), session)->controller);
  EXPECT_EQ(PartsOfKey(Volume(1), session)->epoch, Epoch(7));
}

TEST(ReservationKeyTest, AnotherVolumesKeyHasNoOwner) {
  EXPECT_FALSE(PartsOfKey(Volume(1), MakeSessionKey(Volume(2), Epoch(1), 1)).has_value());
  EXPECT_FALSE(PartsOfKey(Volume(1), 0).has_value());
  EXPECT_FALSE(PartsOfKey(Volume(1), 0xdeadbeef).has_value());
  EXPECT_TRUE(PartsOfKey(Uuid(), MakeSessionKey(Uuid(), Epoch(1), 1)).has_value());
}

TEST(ReservationKeyTest, NeverRepeats) {
  std::set<std::uint64_t> keys;
  for (const std::uint64_t epoch : {1, 2, 1 << 23, (1 << 23) - 1}) {
    for (const std::uint64_t number : {std::uint64_t{1}, std::uint64_t{2}, kMaxSessionKeys}) {
      EXPECT_TRUE(keys.insert(MakeSessionKey(Volume(1), Epoch(epoch), number)).second);
    }
    EXPECT_TRUE(keys.insert(MakeControllerKey(Volume(1), Epoch(epoch), 1)).second);
    EXPECT_TRUE(keys.insert(MakeControllerKey(Volume(1), Epoch(epoch), 2)).second);
  }
}

TEST(ReservationKeyTest, IsShownInHexadecimal) {
  EXPECT_EQ(KeyText(0x1f), "0x000000000000001f");
}

}  // namespace
}  // namespace reel
