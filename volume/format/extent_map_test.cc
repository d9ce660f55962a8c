#include "volume/format/extent_map.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

namespace reel {
namespace {

constexpr auto kHole = ExtentState::kHole;
constexpr auto kUnwritten = ExtentState::kUnwritten;
constexpr auto kWritten = ExtentState::kWritten;

Extent At(std::uint64_t file, std::uint64_t length, ExtentState state, std::uint64_t pool_block = 0,
          std::uint32_t pool = 0) {
  return {FileBlock(file), length, state, PoolId(pool), PoolBlock(pool_block)};
}

TEST(ExtentMap, JoinsOnlyContiguousExtents) {
  ExtentMap map;
  map.Set(At(0, 4, kWritten, 100));
  map.Set(At(4, 4, kWritten, 104));
  EXPECT_EQ(map.All(), (std::vector{At(0, 8, kWritten, 100)}));
  map.Set(At(8, 1, kWritten, 200));     // elsewhere in the pool
  map.Set(At(9, 1, kWritten, 201, 1));  // in another pool
  map.Set(At(10, 1, kUnwritten, 202, 1));
  map.Set(At(12, 1, kHole, 77));  // a gap before it; where a hole lies means nothing
  map.Set(At(11, 1, kHole));
  EXPECT_EQ(map.All(), (std::vector{At(0, 8, kWritten, 100), At(8, 1, kWritten, 200),
                                    At(9, 1, kWritten, 201, 1), At(10, 1, kUnwritten, 202, 1),
                                    At(11, 2, kHole)}));
}

TEST(ExtentMap, SettingTheMiddleCutsTheOldExtent) {
  ExtentMap map;
  map.Set(At(0, 10, kUnwritten, 100));
  map.MarkWritten(FileBlock(4), 2);
  EXPECT_EQ(map.All(), (std::vector{At(0, 4, kUnwritten, 100), At(4, 2, kWritten, 104),
                                    At(6, 4, kUnwritten, 106)}));
  map.MarkWritten(FileBlock(0), 10);
  EXPECT_EQ(map.All(), (std::vector{At(0, 10, kWritten, 100)}));
  map.Erase(FileBlock(3), 1);
  EXPECT_EQ(map.Find(FileBlock(3)), std::nullopt);
  EXPECT_EQ(map.Find(FileBlock(4)), At(4, 6, kWritten, 104));
}

TEST(ExtentMap, ReachesTheLastBlock) {
  ExtentMap map;
  constexpr std::uint64_t kLast = ~std::uint64_t{0};
  map.Set(At(10, kLast, kHole));
  EXPECT_EQ(map.All(), (std::vector{At(10, kLast - 10, kHole)}));
  EXPECT_TRUE(map.Covers(FileBlock(kLast - 5), 100)) << "cut at the end";
  map.EraseFrom(FileBlock(20));
  EXPECT_EQ(map.All(), (std::vector{At(10, 10, kHole)}));
}

// A map of single blocks, by which the real one is judged.
class Model {
 public:
  static constexpr std::uint64_t kBlocks = 64;
  struct Block {
    bool known = false;
    ExtentState state = kHole;
    std::uint32_t pool = 0;
    std::uint64_t pool_block = 0;
  };
  void Set(const Extent& e) {
    for (std::uint64_t i = 0; i < e.length_blocks; ++i) {
      Block& block = blocks_[e.file_block.value() + i];
      block = {true, e.state, e.pool.value(), e.pool_block.value() + i};
      if (e.state == kHole) block.pool = block.pool_block = 0;
    }
  }
  void Erase(std::uint64_t start, std::uint64_t length) {
    for (std::uint64_t i = start; i < start + length; ++i) blocks_[i] = {};
  }
  void MarkWritten(std::uint64_t start, std::uint64_t length) {
    for (std::uint64_t i = start; i < start + length; ++i) {
      if (blocks_[i].known && blocks_[i].state == kUnwritten) blocks_[i].state = kWritten;
    }
  }
  std::vector<Extent> Slice(std::uint64_t start, std::uint64_t length) const {
    std::vector<Extent> pieces;
    for (std::uint64_t i = start; i < start + length; ++i) {
      const Block& b = blocks_[i];
      if (!b.known) continue;
      if (!pieces.empty() && Continues(pieces.back(), i)) {
        ++pieces.back().length_blocks;
      } else {
        pieces.push_back(At(i, 1, b.state, b.pool_block, b.pool));
      }
    }
    return pieces;
  }
  bool Covers(std::uint64_t start, std::uint64_t length) const {
    for (std::uint64_t i = start; i < start + length; ++i) {
      if (!blocks_[i].known) return false;
    }
    return true;
  }

 private:
  bool Continues(const Extent& e, std::uint64_t i) const {
    const Block& b = blocks_[i];
    return e.end() == FileBlock(i) && e.state == b.state &&
           (b.state == kHole ||
            (e.pool.value() == b.pool && e.pool_block.value() + e.length_blocks == b.pool_block));
  }
  std::array<Block, kBlocks> blocks_;
};

TEST(ExtentMap, AgreesWithABlockByBlockModel) {
  for (std::uint32_t seed = 0; seed < 40; ++seed) {
    std::mt19937 random(seed);
    const auto below = [&](std::uint64_t n) { return random() % n; };
    ExtentMap map;
    Model model;
    for (int step = 0; step < 400; ++step) {
      const std::uint64_t start = below(Model::kBlocks);
      const std::uint64_t length = below(std::min<std::uint64_t>(Model::kBlocks - start, 12) + 1);
      switch (below(8)) {
        case 0:
          map.Erase(FileBlock(start), length);
          model.Erase(start, length);
          break;
        case 1:
        case 2:
          map.MarkWritten(FileBlock(start), length);
          model.MarkWritten(start, length);
          break;
        case 3:
          if (below(4) != 0) break;
          map.EraseFrom(FileBlock(start));
          model.Erase(start, Model::kBlocks - start);
          break;
        default: {
          // Mostly one file-to-pool line, so that neighbours often join.
          const Extent e = At(start, length, static_cast<ExtentState>(below(3)),
                              1000 + start + 100 * below(2), static_cast<std::uint32_t>(below(2)));
          map.Set(e);
          model.Set(e);
        }
      }
      ASSERT_EQ(map.All(), model.Slice(0, Model::kBlocks)) << "seed " << seed << " step " << step;
      const std::uint64_t from = below(Model::kBlocks);
      const std::uint64_t count = below(Model::kBlocks - from + 1);
      ASSERT_EQ(map.Slice(FileBlock(from), count), model.Slice(from, count)) << seed << " " << step;
      ASSERT_EQ(map.Covers(FileBlock(from), count), model.Covers(from, count))
          << seed << " " << step;
      ASSERT_EQ(map.Find(FileBlock(from)).has_value(), model.Covers(from, 1))
          << seed << " " << step;
    }
  }
}

}  // namespace
}  // namespace reel
