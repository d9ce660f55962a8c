// Which chunks logs and tables are given, and what is kept for the epoch after this one.
#include "mdc/metafs/chunks.h"

#include <gtest/gtest.h>

namespace reel::metafs {
namespace {

constexpr std::uint64_t kTotal = 100;
constexpr Chunks::Reserves kReserves{.epoch = 10, .log = 6, .start = 4, .flush = 5};

// Takes one chunk, with a claim where that is what it takes; kTotal: there is none.
std::uint64_t TakeOne(Chunks& chunks, ChunkUse use) {
  std::vector<ChunkRun> runs, unclean;
  while (!chunks.Take(1, use, runs, unclean)) {
    const std::vector<ChunkRun> planned = chunks.PlanClaim(4, use);
    if (planned.empty()) return kTotal;
    chunks.Claim(planned);
  }
  return runs.front().first;
}

std::uint64_t TakeAll(Chunks& chunks, ChunkUse use) {
  std::uint64_t count = 0;
  while (TakeOne(chunks, use) != kTotal) ++count;
  return count;
}

// Chunk 0 is fixed; from `old_from` on, an epoch before this one may still write.
Chunks Make(std::uint64_t old_from, bool started = true) {
  Chunks chunks(kTotal, 1, kReserves, 2);
  chunks.MarkOld({old_from, kTotal - old_from});
  if (started) chunks.Started();
  return chunks;
}

TEST(ChunksTest, AvailableChunksCanBeTaken) {
  for (const std::uint64_t old_from : {1, 5, 12, 20, 50, 100}) {
    for (const ChunkUse use : {ChunkUse::kLog, ChunkUse::kTable, ChunkUse::kCompaction}) {
      for (const bool started : {false, true}) {
        Chunks chunks = Make(old_from, started);
        const std::uint64_t available = chunks.available(use);
        EXPECT_EQ(TakeAll(chunks, use), available) << old_from;
        EXPECT_EQ(chunks.available(use), 0u);
      }
    }
  }
}

TEST(ChunksTest, TablesUseChunksOfLateWritesLast) {
  Chunks chunks = Make(50);
  // As many chunks as are not old, without those that logs may want.
  for (std::uint64_t i = 0; i < 49 - kReserves.log; ++i) {
    EXPECT_LT(TakeOne(chunks, ChunkUse::kTable), 50u);
  }
  EXPECT_GE(TakeOne(chunks, ChunkUse::kTable), 50u);
  // Claimed ones are there now. What becomes free is better all the same.
  chunks.Free({{3, 1}}, /*framed=*/false);
  EXPECT_EQ(TakeOne(chunks, ChunkUse::kTable), 3u);
}

TEST(ChunksTest, TablesLeaveLogsTheirRoom) {
  for (const std::uint64_t old_from : {7, 8, 20, 50, 100}) {
    Chunks chunks = Make(old_from);
    TakeAll(chunks, ChunkUse::kTable);
    EXPECT_EQ(TakeAll(chunks, ChunkUse::kLog), kReserves.log) << old_from;
  }
}

TEST(ChunksTest, CompactionsLeaveFlushesTheirRoom) {
  for (const std::uint64_t old_from : {1, 7, 20, 50, 100}) {
    Chunks chunks = Make(old_from);
    TakeAll(chunks, ChunkUse::kCompaction);
    EXPECT_EQ(TakeAll(chunks, ChunkUse::kTable), kReserves.flush) << old_from;
  }
}

TEST(ChunksTest, EachEpochFindsThePreviousReserve) {
  Chunks chunks = Make(kTotal);
  TakeAll(chunks, ChunkUse::kTable);
  TakeAll(chunks, ChunkUse::kLog);
  Chunks next(kTotal, 1, kReserves, 3);
  // Nothing was given back, and all that was claimed may still be written to.
  for (const ChunkRun& run : chunks.claimed()) {
    ASSERT_TRUE(next.Use(run).ok());
    next.MarkOld(run);
  }
  const std::uint64_t tables = TakeAll(next, ChunkUse::kTable);
  EXPECT_GE(tables, kReserves.start);
  EXPECT_GE(TakeAll(next, ChunkUse::kLog) + tables, kReserves.epoch / 2 + kReserves.start);
  next.Started();
  EXPECT_EQ(TakeAll(next, ChunkUse::kLog), 0u);
}

}  // namespace
}  // namespace reel::metafs
