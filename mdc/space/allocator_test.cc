#include "mdc/space/allocator.h"

#include <algorithm>
#include <cerrno>
#include <random>

#include "gtest/gtest.h"
#include "mdc/metadb/rocks_memory.h"
#include "mdc/metadb/schema.h"
#include "proto/records.pb.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

Pool DataPool(std::string name, std::uint64_t rows, std::uint32_t breadth, std::uint8_t first_lun) {
  Pool pool;
  pool.name = std::move(name);
  pool.flags = Pool::kData;
  pool.breadth_blocks = breadth;
  StripeSet set;
  set.rows = rows;
  for (std::uint8_t i = 0; i < 2; ++i) {
    LunEntry lun;
    lun.lun.bytes[0] = static_cast<std::uint8_t>(first_lun + i);
    lun.name = pool.name + std::to_string(i);
    set.luns.push_back(lun);
  }
  pool.sets = {set};
  return pool;
}

// A volume of data pools, an allocator over it, and operations that commit or do not.
class AllocatorTest : public testing::Test {
 protected:
  using Run = mdc::Run;  // not testing::Test::Run

  void Make(std::vector<Pool> pools, AllocationStrategy strategy = AllocationStrategy::kRound) {
    volume_.block_bytes = 4096;
    volume_.strategy = strategy;
    volume_.pools = std::move(pools);
    WriteBatch batch;
    Allocator::Format(volume_, {}, batch);
    ASSERT_TRUE(store_.db().Apply(batch).ok());
    Load();
  }
  void Load() {
    auto loaded = Allocator::Load(store_.db(), volume_);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    allocator_ = *std::move(loaded);
  }

  absl::StatusOr<std::vector<Run>> Take(const AllocationRequest& request) {
    Txn txn(store_.db(), in_flight_, Tier::kAll);
    auto runs = allocator_->Allocate(txn, request);
    runs.ok() ? Commit(txn) : allocator_->Abandon();
    return runs;
  }
  Run TakeOne(const AllocationRequest& request) {
    auto runs = Take(request);
    EXPECT_TRUE(runs.ok()) << runs.status();
    EXPECT_EQ(runs.ok() ? runs->size() : 0, 1u);
    return runs.ok() ? runs->front() : Run{};
  }
  absl::Status Free(const Run& run) {
    Txn txn(store_.db(), in_flight_, Tier::kAll);
    absl::Status s = allocator_->Free(txn, run, Sequence(1));
    s.ok() ? Commit(txn) : allocator_->Abandon();
    return s;
  }
  void Commit(Txn& txn) {
    last_ = store_.db().Apply(txn.TakeBatch()).value();
    allocator_->Committed(last_);
  }
  void Durable() { allocator_->Durable(last_); }

  static AllocationRequest Blocks(std::uint64_t length, std::uint64_t preallocated = 0) {
    AllocationRequest request;
    request.length_blocks = length;
    request.preallocated_blocks = preallocated;
    return request;
  }
  static AllocationRequest InDirectory(std::uint64_t session, std::uint64_t directory,
                                       std::uint64_t length) {
    AllocationRequest request = Blocks(length);
    request.session = SessionId(session);
    request.directory = InodeNumber(directory);
    return request;
  }
  static AllocationRequest After(const Run& run, std::uint64_t length) {
    AllocationRequest request = Blocks(length);
    request.has_goal = true;
    request.goal_pool = run.pool;
    request.goal_block = run.start + run.length_blocks;
    return request;
  }

  MemoryStore store_;
  InFlight in_flight_;
  VolumeDescriptor volume_;
  std::unique_ptr<Allocator> allocator_;
  Sequence last_;
};

TEST_F(AllocatorTest, FreedBlocksReturnOnlyWhenDurable) {
  Make({DataPool("a", 4, 8, 1)});  // 64 blocks
  const Run all = TakeOne(Blocks(64));
  ASSERT_TRUE(Free(all).ok());
  EXPECT_EQ(allocator_->total_free_blocks(), 64u);
  EXPECT_EQ(ErrnoOf(Take(Blocks(1)).status()), ENOSPC);
  Durable();
  EXPECT_EQ(TakeOne(Blocks(64)), all);
}

TEST_F(AllocatorTest, FragmentedSpaceComesInSeveralRuns) {
  Make({DataPool("a", 4, 8, 1)});  // 64 blocks, of which every second one becomes free
  const Run all = TakeOne(Blocks(64));
  for (std::uint64_t i = 0; i < 64; i += 2) {
    ASSERT_TRUE(Free({all.pool, all.start + i, 1}).ok());
  }
  Durable();
  AllocationRequest request = Blocks(32, /*ahead=*/32);
  request.max_runs = 10;
  for (const std::size_t part : {10u, 10u, 10u, 2u}) {
    const auto runs = Take(request);
    ASSERT_TRUE(runs.ok()) << runs.status();
    ASSERT_EQ(runs->size(), part);
    for (const Run& run : *runs) EXPECT_EQ(run.length_blocks, 1u);
    request.length_blocks -= part;
    EXPECT_TRUE(allocator_->Check().ok()) << allocator_->Check();
  }
  EXPECT_EQ(ErrnoOf(Take(Blocks(1)).status()), ENOSPC);
}

TEST_F(AllocatorTest, FreeBlocksCannotBeFreed) {
  Make({DataPool("a", 4, 8, 1)});
  const Run run = TakeOne(Blocks(8));
  ASSERT_TRUE(Free(run).ok());
  EXPECT_TRUE(absl::IsDataLoss(Free(run)));
  EXPECT_TRUE(absl::IsDataLoss(Free({PoolId(0), PoolBlock(60), 8})));
  EXPECT_TRUE(absl::IsDataLoss(Free({PoolId(3), PoolBlock(0), 1})));
  EXPECT_TRUE(allocator_->Check().ok());
}

TEST_F(AllocatorTest, RoundTakesThePoolsInTurn) {
  Make({DataPool("a", 64, 8, 1), DataPool("b", 64, 8, 3)});
  const PoolId first = TakeOne(Blocks(8)).pool;
  const Run second = TakeOne(Blocks(8));
  EXPECT_NE(first, second.pool);
  EXPECT_EQ(TakeOne(After(second, 8)).pool, second.pool);  // a file that grows stays
  EXPECT_EQ(TakeOne(Blocks(8)).pool, first);
}

TEST_F(AllocatorTest, FillAndBalance) {
  Make({DataPool("a", 4, 8, 1), DataPool("b", 64, 8, 3)}, AllocationStrategy::kFill);
  EXPECT_EQ(TakeOne(Blocks(40)).pool, PoolId(0));
  EXPECT_EQ(TakeOne(Blocks(40)).pool, PoolId(1));  // the first has no room left
  EXPECT_EQ(TakeOne(Blocks(8)).pool, PoolId(0));
  volume_.strategy = AllocationStrategy::kBalance;
  Load();
  EXPECT_EQ(TakeOne(Blocks(8)).pool, PoolId(1));
}

TEST_F(AllocatorTest, AffinitiesGoToTheirPoolsFirst) {
  Pool fast = DataPool("fast", 4, 8, 1);
  fast.affinities = {"grade"};
  fast.flags |= Pool::kExclusive;
  Make({fast, DataPool("b", 64, 8, 3)});
  AllocationRequest grade = Blocks(60);
  grade.affinity = "grade";
  EXPECT_EQ(TakeOne(grade).pool, PoolId(0));
  EXPECT_EQ(TakeOne(grade).pool, PoolId(1));  // full: any other will do
  for (int i = 0; i < 4; ++i) EXPECT_EQ(TakeOne(Blocks(2)).pool, PoolId(1));
  AllocationRequest unknown = Blocks(2);
  unknown.affinity = "nobody";
  EXPECT_EQ(TakeOne(unknown).pool, PoolId(1));
}

TEST_F(AllocatorTest, AFileThatGetsAnAffinityGoesOnInItsPools) {
  Pool fast = DataPool("fast", 4, 8, 1);
  fast.affinities = {"grade"};
  fast.flags |= Pool::kExclusive;
  Make({DataPool("b", 64, 8, 3), fast});
  const Run plain = TakeOne(Blocks(8));
  AllocationRequest next = After(plain, 8);
  next.affinity = "grade";
  const Run there = TakeOne(next);
  EXPECT_EQ(there.pool, PoolId(1));
  next = After(there, 56);
  next.affinity = "grade";
  EXPECT_EQ(TakeOne(next).pool, PoolId(1));
  next = After(plain, 8);
  next.affinity = "grade";
  const Run full = TakeOne(next);  // its pools are: on where it was
  EXPECT_EQ(full.pool, PoolId(0));
  EXPECT_EQ(full.start, plain.start + plain.length_blocks);
}

TEST_F(AllocatorTest, LargeRunsStartOnAFullStripe) {
  Make({DataPool("a", 64, 8, 1)});  // a stripe has 16 blocks
  EXPECT_EQ(TakeOne(Blocks(3)).start, PoolBlock(0));
  EXPECT_EQ(TakeOne(Blocks(32)).start, PoolBlock(16));
}

TEST_F(AllocatorTest, AFrameSequenceOfOneClientLiesTogether) {
  Make({DataPool("a", 1 << 16, 8, 1)});
  PoolBlock next[2] = {};
  for (int frame = 0; frame < 20; ++frame) {
    for (std::uint64_t client = 0; client < 2; ++client) {
      const Run run = TakeOne(InDirectory(client + 1, 7, 50));
      if (frame > 0) {
        EXPECT_EQ(run.start, next[client]) << "frame " << frame;
      }
      next[client] = run.start + run.length_blocks;
    }
  }
}

TEST_F(AllocatorTest, AReleasedTailGoesToTheNextFrame) {
  Make({DataPool("a", 1 << 16, 8, 1)});
  const Run frame = TakeOne(InDirectory(1, 7, 60));
  ASSERT_TRUE(Free({frame.pool, frame.start + 50, 10}).ok());
  Durable();
  EXPECT_EQ(TakeOne(InDirectory(1, 7, 60)).start, frame.start + 50);
  EXPECT_TRUE(allocator_->Check().ok()) << allocator_->Check();
}

TEST_F(AllocatorTest, WindowsYieldBeforeTheVolumeIsFull) {
  Make({DataPool("a", 1 << 12, 8, 1)});  // 65536 blocks
  for (std::uint64_t directory = 1; directory <= 20; ++directory) {
    TakeOne(InDirectory(1, directory, 10));
  }
  auto rest = Take(Blocks(65'536 - 200));
  ASSERT_TRUE(rest.ok()) << rest.status();
  EXPECT_EQ(allocator_->total_free_blocks(), 0u);
}

// Random operations against one flag per block, with commits that are applied, dropped or made
// durable; and the store's records against both.
TEST_F(AllocatorTest, AWindowThatIsUsedUpIsFollowedByALargerOne) {
  Make({DataPool("a", 1 << 16, 8, 1)});
  constexpr std::uint64_t kFile = 256, kFirst = 32 * kFile;
  Run last;
  for (std::uint64_t taken = 0; taken < kFirst; taken += kFile) {
    last = TakeOne(InDirectory(1, 7, kFile));
  }
  EXPECT_TRUE(allocator_->Check().ok()) << allocator_->Check();
  const Run next = TakeOne(InDirectory(1, 7, kFile));
  EXPECT_EQ(TakeOne(InDirectory(2, 8, kFile)).start, next.start + 2 * kFirst);
  EXPECT_TRUE(allocator_->Check().ok()) << allocator_->Check();
}

// ---- units ------------------------------------------------------------------------------------

class UnitTest : public AllocatorTest {
 protected:
  static constexpr std::uint64_t kUnit = 8;
  void MakeWithUnits(std::uint64_t rows) {
    Make({DataPool("a", rows, 8, 1)});
    allocator_->SetUnits({kUnit});
  }
  static AllocationRequest At(std::uint64_t file_block, std::uint64_t length) {
    AllocationRequest request = Blocks(length);
    request.file_block = FileBlock(file_block);
    return request;
  }
};

TEST_F(UnitTest, EachFileBeginsAUnitAndGoesOnInIt) {
  MakeWithUnits(16);
  const Run first = TakeOne(At(0, 3));
  const Run other = TakeOne(At(0, 1));
  EXPECT_EQ(first.start.value() % kUnit, 0u);
  EXPECT_EQ(other.start.value() % kUnit, 0u);
  AllocationRequest more = After(first, 5);
  more.file_block = FileBlock(3);
  EXPECT_EQ(TakeOne(more).start, first.start + 3) << "nobody else was given the rest";
  EXPECT_EQ(TakeOne(At(13, 2)).start.value() % kUnit, 13 % kUnit);
}

TEST_F(UnitTest, FilesOfADirectoryBeginUnitsOfTheirWindow) {
  MakeWithUnits(1 << 12);
  std::vector<Run> files;
  for (int i = 0; i < 3; ++i) files.push_back(TakeOne(InDirectory(1, 7, 5)));
  for (const Run& run : files) EXPECT_EQ(run.start.value() % kUnit, 0u);
  EXPECT_EQ(files[2].start, files[0].start + 2 * kUnit);
  EXPECT_TRUE(allocator_->Check().ok()) << allocator_->Check();
}

TEST_F(UnitTest, WhatIsLeftOfUnitsIsUsedBeforeThereIsNoSpace) {
  MakeWithUnits(4);  // 64 blocks, 8 units
  for (int i = 0; i < 8; ++i) TakeOne(At(0, 3));
  AllocationRequest strict = At(0, 8);
  strict.in_units = true;
  const auto none = Take(strict);
  EXPECT_TRUE(none.ok() && none->empty());
  const auto rests = Take(At(0, 40));
  ASSERT_TRUE(rests.ok()) << rests.status();
  EXPECT_EQ(allocator_->total_free_blocks(), 0u);
}

TEST_F(UnitTest, InUnitsPiecesEndWithAUnit) {
  MakeWithUnits(4);
  const Run all = TakeOne(At(0, 64));
  for (const std::uint64_t start : {2u, 33u}) {
    ASSERT_TRUE(Free({all.pool, all.start + start, 21}).ok());
  }
  Durable();
  AllocationRequest strict = At(16, 24);
  strict.in_units = true;
  strict.goal_pool_only = true;
  const auto runs = Take(strict);
  ASSERT_TRUE(runs.ok()) << runs.status();
  for (const Run& run : *runs) {
    EXPECT_EQ(run.start.value() % kUnit, 0u);
    EXPECT_EQ(run.length_blocks % kUnit, 0u);
  }
  EXPECT_EQ(runs->size(), 2u) << "8 to 23, 40 to 47";
}

class RandomAllocations : public AllocatorTest, public testing::WithParamInterface<int> {};

enum class Block { kFree, kPending, kUsed };

TEST_P(RandomAllocations, AgreesWithABitmap) {
  std::mt19937_64 random(static_cast<std::uint64_t>(GetParam()));
  const auto below = [&](std::uint64_t n) { return random() % n; };
  Make({DataPool("a", 64, 4, 1), DataPool("b", 20, 8, 3)},
       static_cast<AllocationStrategy>(GetParam() % 3));
  if (GetParam() >= 3) allocator_->SetUnits({4, 16});
  std::vector<std::vector<Block>> blocks;
  for (const Pool& pool : volume_.pools) blocks.emplace_back(pool.size_blocks(), Block::kFree);
  std::vector<Run> files;
  const auto mark = [&](const Run& run, Block from, Block to) {
    for (std::uint64_t i = 0; i < run.length_blocks; ++i) {
      Block& block = blocks[run.pool.value()][run.start.value() + i];
      ASSERT_EQ(block, from) << "pool " << run.pool.value() << " block " << run.start.value() + i;
      block = to;
    }
  };
  const auto count = [&](Block what) {
    std::uint64_t sum = 0;
    for (const auto& pool : blocks) {
      sum += static_cast<std::uint64_t>(std::count(pool.begin(), pool.end(), what));
    }
    return sum;
  };

  for (int step = 0; step < 1500; ++step) {
    const bool commits = below(5) != 0;
    Txn txn(store_.db(), in_flight_, Tier::kAll);
    std::vector<Run> taken, freed;
    for (std::uint64_t n = below(3); n > 0 && !files.empty(); --n) {
      Run& file = files[below(files.size())];
      // The whole file or a part of its end.
      const std::uint64_t part = 1 + below(file.length_blocks);
      const Run run{file.pool, file.start + (file.length_blocks - part), part};
      if (std::find(freed.begin(), freed.end(), run) != freed.end() || !freed.empty()) break;
      ASSERT_TRUE(allocator_->Free(txn, run, Sequence(1)).ok());
      freed.push_back(run);
    }
    for (std::uint64_t n = below(3); n > 0; --n) {
      AllocationRequest request = Blocks(1 + below(40), below(2) * below(20));
      request.session = SessionId(1 + below(3));
      request.directory = InodeNumber(below(4));
      request.file_block = FileBlock(below(2) * below(20));
      if (!files.empty() && below(3) == 0) {
        const Run& file = files[below(files.size())];
        request.has_goal = true;
        request.goal_pool = file.pool;
        request.goal_block = file.start + file.length_blocks;
      }
      auto runs = allocator_->Allocate(txn, request);
      if (!runs.ok()) {
        ASSERT_EQ(ErrnoOf(runs.status()), ENOSPC);
        ASSERT_LT(count(Block::kFree), request.length_blocks + 130) << "refused with space left";
        continue;
      }
      std::uint64_t sum = 0;
      for (const Run& run : *runs) sum += run.length_blocks;
      ASSERT_GE(sum, request.length_blocks);
      ASSERT_LE(sum, request.length_blocks + request.preallocated_blocks);
      taken.insert(taken.end(), runs->begin(), runs->end());
    }
    if (commits) {
      const WriteBatch batch = txn.TakeBatch();
      if (!batch.empty()) last_ = store_.db().Apply(batch).value();
      allocator_->Committed(last_);
      for (const Run& run : taken) {
        mark(run, Block::kFree, Block::kUsed);
        files.push_back(run);
      }
      for (const Run& run : freed) {
        mark(run, Block::kUsed, Block::kPending);
        for (Run& file : files) {
          if (file.pool == run.pool && file.start <= run.start &&
              run.start.value() < file.start.value() + file.length_blocks) {
            file.length_blocks -= run.length_blocks;
          }
        }
        std::erase_if(files, [](const Run& file) { return file.length_blocks == 0; });
      }
    } else {
      allocator_->Abandon();
    }
    if (below(10) == 0) {
      Durable();
      for (auto& pool : blocks)
        std::replace(pool.begin(), pool.end(), Block::kPending, Block::kFree);
    }
    if (below(50) == 0) allocator_->DropWindows(SessionId(1 + below(3)));
    ASSERT_TRUE(allocator_->Check().ok()) << "step " << step << ": " << allocator_->Check();
    ASSERT_EQ(allocator_->total_free_blocks(), count(Block::kFree) + count(Block::kPending));
    if (HasFatalFailure()) return;
  }

  // What the store says, read by another controller: everything that is not in use.
  Load();
  EXPECT_EQ(allocator_->total_free_blocks(), count(Block::kFree) + count(Block::kPending));
  EXPECT_TRUE(allocator_->Check().ok());
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomAllocations, testing::Range(1, 7));

TEST_F(AllocatorTest, ReservedBlocksAreWithheldAndReleased) {
  Make({DataPool("a", 32, 16, 1)});
  const std::uint64_t free = allocator_->total_free_blocks();
  const auto kept = allocator_->Reserve(Blocks(3));
  const auto dropped = allocator_->Reserve(Blocks(2));
  ASSERT_TRUE(kept.ok() && dropped.ok());
  EXPECT_TRUE(allocator_->Check().ok()) << allocator_->Check();
  EXPECT_EQ(allocator_->total_free_blocks(), free);  // the store knows nothing of it
  for (const bool commits : {false, true}) {         // the first one runs again
    Txn txn(store_.db(), in_flight_, Tier::kAll);
    for (const Run& run : *kept) allocator_->Claim(txn, run);
    commits ? allocator_->Committed(Sequence(1)) : allocator_->Abandon();
    EXPECT_TRUE(allocator_->Check().ok()) << allocator_->Check();
  }
  for (const Run& run : *dropped) allocator_->Unreserve(run);
  EXPECT_TRUE(allocator_->Check().ok()) << allocator_->Check();
  EXPECT_EQ(allocator_->total_free_blocks(), free - 3);
  Txn txn(store_.db(), in_flight_, Tier::kAll);
  EXPECT_TRUE(allocator_->Allocate(txn, Blocks(free - 3)).ok());
  EXPECT_EQ(ErrnoOf(allocator_->Reserve(Blocks(1)).status()), ENOSPC);
}

TEST_F(AllocatorTest, GraceTakesOnlyReservedBlocks) {
  Make({DataPool("a", 32, 16, 1)});
  const Run before{PoolId(0), PoolBlock(5), 3};
  allocator_->SetGrace(true);
  EXPECT_EQ(ErrnoOf(Take(Blocks(1)).status()), EAGAIN);
  EXPECT_EQ(ErrnoOf(allocator_->Reserve(Blocks(1)).status()), EAGAIN);
  EXPECT_TRUE(allocator_->ReserveAgain(before).ok());
  EXPECT_FALSE(allocator_->ReserveAgain(before).ok());
  EXPECT_TRUE(allocator_->Check().ok()) << allocator_->Check();
  allocator_->SetGrace(false);
  EXPECT_TRUE(Take(Blocks(1)).ok());
}

TEST_F(AllocatorTest, DamagedFreeSpaceIsNamed) {
  Make({DataPool("a", 4, 8, 1)});
  WriteBatch batch;
  v1::FreeRecord record;
  record.set_length_blocks(2);
  batch.Put(schema::FreeKey(PoolId(0), PoolBlock(10)), record.SerializeAsString());
  ASSERT_TRUE(store_.db().Apply(batch).ok());
  const auto loaded = Allocator::Load(store_.db(), volume_);
  EXPECT_TRUE(absl::IsDataLoss(loaded.status())) << loaded.status();
}

}  // namespace
}  // namespace reel::mdc
