#include "client/inode/locked_blocks.h"

#include <gtest/gtest.h>

namespace reel::client {
namespace {

BlockLock Shared(std::uint64_t first, std::uint64_t end) {
  return {.first = first, .end = end};
}
BlockLock Exclusive(std::uint64_t first, std::uint64_t end) {
  return {.first = first, .end = end, .exclusive = true};
}

TEST(LockedBlocks, WholeBlocksAreShared) {
  LockedBlocks blocks;
  blocks.Lock({Shared(0, 8)});
  EXPECT_FALSE(blocks.Conflict({Shared(4, 12)}));
  EXPECT_TRUE(blocks.Conflict({Exclusive(7, 8)}));
  EXPECT_FALSE(blocks.Conflict({Exclusive(8, 9)}));
}

TEST(LockedBlocks, APartOfABlockIsLockedExclusively) {
  LockedBlocks blocks;
  blocks.Lock({Shared(0, 8), Exclusive(7, 8)});
  EXPECT_FALSE(blocks.Conflict({Shared(0, 7)}));
  EXPECT_TRUE(blocks.Conflict({Shared(10, 12), Shared(7, 9)}));
}

TEST(LockedBlocks, AnUnlockFreesItsBlocksOnly) {
  LockedBlocks blocks;
  const BlockLocks first{Shared(0, 4), Exclusive(0, 1)};
  blocks.Lock(first);
  blocks.Lock({Shared(0, 4)});
  blocks.Unlock(first);
  EXPECT_FALSE(blocks.Conflict({Shared(0, 4)}));
  EXPECT_TRUE(blocks.Conflict({Exclusive(0, 1)}));
  blocks.Unlock({Shared(0, 4)});
  EXPECT_TRUE(blocks.empty());
}

TEST(LockedBlocks, WritersWaitBehindAFlushThatWaits) {
  LockedBlocks blocks;
  blocks.Lock({Shared(0, 4)});
  blocks.BeginAwait(Exclusive(2, 6));
  EXPECT_TRUE(blocks.AdmitWrite({Shared(0, 2)}));
  EXPECT_FALSE(blocks.AdmitWrite({Shared(0, 3)}));
  EXPECT_FALSE(blocks.Conflict({Shared(0, 3)})) << "flushes pass those that wait";
  blocks.EndAwait(Exclusive(2, 6));
  EXPECT_TRUE(blocks.AdmitWrite({Shared(0, 3)}));
}

}  // namespace
}  // namespace reel::client
