#include "proto/byte_locks.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

namespace reel {
namespace {

constexpr std::uint64_t kEnd = ~std::uint64_t{0};
using LockedRanges = std::vector<ByteLocks::LockedRange>;

TEST(ByteLocksTest, ALockReplacesTheOwnersOlderOnes) {
  ByteLocks locks;
  locks.Set({0, kEnd}, v1::LOCK_SHARED);
  locks.Set({10, 19}, v1::LOCK_EXCLUSIVE);
  EXPECT_EQ(locks.All(), (LockedRanges{{{0, 9}, v1::LOCK_SHARED},
                                       {{10, 19}, v1::LOCK_EXCLUSIVE},
                                       {{20, kEnd}, v1::LOCK_SHARED}}));
  locks.Set({15, 15}, v1::LOCK_NONE);
  EXPECT_EQ(locks.size(), 4u);
  locks.Set({10, 19}, v1::LOCK_SHARED);
  EXPECT_EQ(locks.All(), (LockedRanges{{{0, kEnd}, v1::LOCK_SHARED}}));
  locks.Set({0, kEnd}, v1::LOCK_NONE);
  EXPECT_TRUE(locks.empty());
}

TEST(ByteLocksTest, TheLastByteCounts) {
  ByteLocks locks;
  locks.Set({5, kEnd}, v1::LOCK_EXCLUSIVE);
  locks.Set({kEnd, kEnd}, v1::LOCK_NONE);
  EXPECT_EQ(locks.All(), (LockedRanges{{{5, kEnd - 1}, v1::LOCK_EXCLUSIVE}}));
  locks.Set({kEnd, kEnd}, v1::LOCK_EXCLUSIVE);
  EXPECT_EQ(locks.size(), 1u);
}

TEST(ByteLocksTest, ReadersShare) {
  ByteLocks locks;
  locks.Set({10, 19}, v1::LOCK_SHARED);
  EXPECT_FALSE(locks.Conflict({0, kEnd}, v1::LOCK_SHARED));
  EXPECT_FALSE(locks.Conflict({0, 9}, v1::LOCK_EXCLUSIVE));
  EXPECT_FALSE(locks.Conflict({20, 30}, v1::LOCK_EXCLUSIVE));
  EXPECT_EQ(locks.Conflict({19, 30}, v1::LOCK_EXCLUSIVE)->range, (LockRange{19, 19}));
  locks.Set({12, 13}, v1::LOCK_EXCLUSIVE);
  EXPECT_EQ(locks.Conflict({0, kEnd}, v1::LOCK_SHARED)->range, (LockRange{12, 13}));
}

// Against one type a byte.
TEST(ByteLocksTest, AgreesWithBytes) {
  std::mt19937 random(1);
  std::array<v1::LockType, 40> bytes{};
  ByteLocks locks;
  for (int step = 0; step < 20'000; ++step) {
    const std::uint64_t first = random() % bytes.size();
    const std::uint64_t last = first + random() % (bytes.size() - first);
    const auto type = static_cast<v1::LockType>(random() % 3);
    locks.Set({first, last}, type);
    std::fill(bytes.begin() + first, bytes.begin() + last + 1, type);
    LockedRanges expected;
    for (std::uint64_t at = 0; at < bytes.size(); ++at) {
      if (bytes[at] == v1::LOCK_NONE) continue;
      if (at > 0 && bytes[at - 1] == bytes[at]) {
        expected.back().range.last = at;
      } else {
        expected.push_back({{at, at}, bytes[at]});
      }
    }
    ASSERT_EQ(locks.All(), expected) << "step " << step;
  }
}

}  // namespace
}  // namespace reel
