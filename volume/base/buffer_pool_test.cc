#include "volume/base/buffer_pool.h"

#include <gtest/gtest.h>

#include <set>

namespace reel {
namespace {

constexpr std::size_t kSize = 16'384;

TEST(BufferPool, UsesABufferAgain) {
  BufferPool pool(kSize, 4 * kSize);
  std::byte* memory = nullptr;
  {
    PooledBuffer first = pool.Take();
    ASSERT_EQ(first.size(), kSize);
    memory = first.data();
    EXPECT_NE(pool.Take().data(), memory);  // it is in use
    PooledBuffer moved = std::move(first);
    EXPECT_EQ(moved.data(), memory);
  }
  EXPECT_EQ(pool.Take().data(), memory);
}

TEST(BufferPool, KeepsNoMoreThanItMay) {
  BufferPool pool(kSize, 2 * kSize);
  std::set<std::byte*> used;
  {
    std::vector<PooledBuffer> buffers;
    for (int i = 0; i < 3; ++i) buffers.push_back(pool.Take());
    for (const PooledBuffer& buffer : buffers) used.insert(buffer.data());
  }
  EXPECT_EQ(used.size(), 3u);
  EXPECT_EQ(pool.kept_bytes(), 2 * kSize);
}

TEST(BufferPool, ABufferOfNoPoolIsFreed) {
  BufferPool pool(kSize, 4 * kSize);
  PooledBuffer own{AlignedBuffer(kSize)};
  own = pool.Take();
  EXPECT_EQ(pool.kept_bytes(), 0u);
  own = PooledBuffer();
  EXPECT_EQ(pool.kept_bytes(), kSize);
}

}  // namespace
}  // namespace reel
