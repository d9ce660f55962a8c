// Files come to lie in blocks of another size, and what is free comes to lie together, while a
// client has them in use.
#include <fcntl.h>
#include <linux/falloc.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "mdc/core/tests/space/jobs_fixture.h"

namespace reel::mdc {
namespace {

class CoreUnitsTest : public CoreDrainTest {
 protected:
  absl::StatusOr<Core::ChangedJob> StartAlign(const std::string& pool, std::uint64_t block_bytes) {
    v1::StartJobRequest request;
    request.set_kind(v1::JOB_ALIGN);
    request.set_pool(pool);
    request.set_block_bytes(block_bytes);
    return harness_.core_->StartJob(request);
  }
  std::uint64_t BlockBytesOf(int pool) const {
    v1::ShowReply show;
    harness_.core_->Describe(show);
    return show.pools(pool).block_bytes();
  }
  // Of the file's extents in the pool, those that are not at their place in a unit.
  std::uint64_t Misplaced(std::uint64_t inode, std::uint64_t unit, std::uint32_t pool = 0) {
    std::uint64_t count = 0;
    const std::string prefix = schema::ExtentPrefix(InodeNumber(inode));
    for (auto c = harness_.db().Scan(prefix, prefix, Tier::kAll); c->Valid(); c->Next()) {
      v1::ExtentRecord record;
      EXPECT_TRUE(record.ParseFromString(std::string(c->value())));
      if (record.places(0).pool() != pool) continue;
      count +=
          (record.places(0).pool_block() - schema::Parse(c->key())->second) % unit == 0 ? 0 : 1;
    }
    return count;
  }
  std::uint64_t BlocksOf(std::uint64_t inode) {
    std::uint64_t blocks = 0;
    for (const auto& extent : ExtentsOf(inode)) blocks += extent.length_blocks();
    return blocks;
  }
  // That do not follow each other in its pool.
  std::uint64_t PiecesOf(std::uint64_t inode) {
    std::uint64_t pieces = 0, end = UINT64_MAX;
    for (const auto& extent : ExtentsOf(inode)) {
      pieces += extent.places(0).pool_block() == end ? 0 : 1;
      end = extent.places(0).pool_block() + extent.length_blocks();
    }
    return pieces;
  }
  std::uint64_t FreeRuns() {
    std::uint64_t runs = 0;
    const std::string prefix = schema::Prefix(schema::Family::kFree);
    for (auto c = harness_.db().Scan(prefix, prefix, Tier::kAll); c->Valid(); c->Next()) ++runs;
    return runs;
  }
  // Pools are taken in turn: each loses every second file.
  static bool IsKept(int file) { return file % 4 < 2; }
};

TEST_F(CoreUnitsTest, APoolGetsAnotherBlockSizeWhileFilesAreInUse) {
  const std::uint64_t inode = MakeFragmented(60, 3);
  EXPECT_GT(Misplaced(inode, 8), 0u);
  ASSERT_EQ(GiveBack(inode), 0);
  const auto job = StartAlign("data", 8 * kBlock);
  ASSERT_TRUE(job.ok()) << job.status();
  harness_.Pass(5'000, {&a_});
  EXPECT_EQ(Job(job->job).state(), v1::JOB_DONE) << Job(job->job).problem();
  EXPECT_EQ(Job(job->job).subject(), "pool data, block size 32 KiB");
  for (const std::uint64_t one : {inode, other_}) {
    EXPECT_EQ(Misplaced(one, 8), 0u);
    EXPECT_EQ(BlocksOf(one), 180u);
  }
  EXPECT_EQ(BlockBytesOf(0), 8 * kBlock);
  EXPECT_EQ(BlockBytesOf(1), kBlock) << "the volume's";
  EXPECT_TRUE(Problems().empty());
}

TEST_F(CoreUnitsTest, WhatIsWrittenFromThenOnLiesInUnits) {
  ASSERT_TRUE(StartAlign("data", 8 * kBlock).ok());
  ASSERT_TRUE(StartAlign("more", 8 * kBlock).ok());
  for (const bool again : {false, true}) {
    if (again) Restart();
    // From its end, in pieces that are no whole units.
    const std::uint64_t inode = a_.Create(again ? "later" : "file", /*open=*/true);
    for (std::uint64_t piece = 60; piece-- > 0;) ASSERT_EQ(Fill(inode, piece * 3, 3), 0);
    EXPECT_EQ(BlocksOf(inode), 180u);
    EXPECT_EQ(Misplaced(inode, 8), 0u) << again;
    EXPECT_EQ(Misplaced(inode, 8, 1), 0u) << again;
  }
}

TEST_F(CoreUnitsTest, ASmallerBlockSizeMovesNothing) {
  ASSERT_TRUE(StartAlign("data", 8 * kBlock).ok());
  ASSERT_TRUE(StartAlign("more", 8 * kBlock).ok());
  MakeFragmented(20, 8);
  const auto job = StartAlign("data", 2 * kBlock);
  ASSERT_TRUE(job.ok());
  Settle();
  EXPECT_EQ(Job(job->job).state(), v1::JOB_DONE);
  EXPECT_EQ(Job(job->job).moved_blocks(), 0u);
  EXPECT_EQ(BlockBytesOf(0), 2 * kBlock);
}

TEST_F(CoreUnitsTest, WhatHasNoRoomInUnitsIsSaid) {
  harness_.volume_.pools[1].flags |= Pool::kExclusive;
  harness_.volume_.pools[1].affinities = {"none"};
  Restart();
  // All of the pool but every second block of some: no two free ones follow each other.
  const std::uint64_t inode = a_.Create("file", /*open=*/true);
  const std::uint64_t all = FreeIn(0);
  for (std::uint64_t at = 0; at < all; at += 4'096) {
    ASSERT_EQ(Fill(inode, at, std::min<std::uint64_t>(4'096, all - at)), 0);
  }
  for (std::uint64_t at = 0; at < 64; at += 2) {
    v1::Request punch;
    v1::Allocate& hole = *punch.mutable_allocate();
    hole.set_inode(inode);
    hole.set_mode(FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
    hole.set_offset_bytes(at * kBlock);
    hole.set_length_bytes(kBlock);
    ASSERT_EQ(a_.Do(punch, true), 0);
  }
  Settle();
  ASSERT_EQ(FreeIn(0), 32u);
  const std::uint64_t odd = a_.Create("odd", /*open=*/true);
  ASSERT_EQ(Fill(odd, 0, 8), 0);
  ASSERT_EQ(GiveBack(inode), 0);
  ASSERT_EQ(GiveBack(odd), 0);
  ASSERT_GT(Misplaced(odd, 4), 0u);
  const auto job = StartAlign("data", 4 * kBlock);
  ASSERT_TRUE(job.ok()) << job.status();
  harness_.Pass(10'000, {&a_});
  EXPECT_EQ(Job(job->job).state(), v1::JOB_FAILED);
  EXPECT_GE(Job(job->job).kept_blocks(), 8u);
  EXPECT_TRUE(Problems().empty());
}

TEST_F(CoreUnitsTest, WhatIsFreeComesToLieTogether) {
  constexpr int kFiles = 120;
  std::vector<std::uint64_t> kept;
  for (int i = 0; i < kFiles; ++i) {
    const std::uint64_t inode = a_.Create(absl::StrCat("file", i), /*open=*/true);
    ASSERT_EQ(Fill(inode, 0, 500), 0);
    ASSERT_EQ(Commit(inode, 0, 500), 0);
    ASSERT_EQ(GiveBack(inode), 0);
    ASSERT_EQ(a_.Do(Client::CloseOf(inode)), 0);
    if (IsKept(i)) kept.push_back(inode);
  }
  for (int i = 0; i < kFiles; ++i) {
    if (IsKept(i)) continue;
    ASSERT_EQ(a_.Do(Client::UnlinkOf(absl::StrCat("file", i)), true), 0);
  }
  Settle();
  const std::uint64_t free = harness_.FreeBlocks(), runs = FreeRuns();
  const auto job = Start(v1::JOB_COMPACT, "");
  ASSERT_TRUE(job.ok()) << job.status();
  harness_.Pass(10'000, {&a_});
  EXPECT_EQ(Job(job->job).state(), v1::JOB_DONE) << Job(job->job).problem();
  EXPECT_GT(Job(job->job).moved_blocks(), 0u);
  EXPECT_EQ(harness_.FreeBlocks(), free);
  EXPECT_LT(FreeRuns(), runs / 2);
  for (const std::uint64_t inode : kept) {
    EXPECT_EQ(PiecesOf(inode), 1u) << "no file lies in more pieces than before";
  }
  EXPECT_TRUE(Problems().empty());
}

TEST_F(CoreUnitsTest, AFileThatIsAlwaysWrittenStaysWhereItIs) {
  std::vector<std::uint64_t> inodes;
  for (int i = 0; i < 40; ++i) {
    inodes.push_back(a_.Create(absl::StrCat("file", i), /*open=*/true));
    ASSERT_EQ(Fill(inodes.back(), 0, 500), 0);
    ASSERT_EQ(Commit(inodes.back(), 0, 500), 0);
    ASSERT_EQ(GiveBack(inodes.back()), 0);
  }
  for (int i = 0; i < 30; ++i) {
    ASSERT_EQ(a_.Do(Client::CloseOf(inodes[static_cast<std::size_t>(i)])), 0);
    ASSERT_EQ(a_.Do(Client::UnlinkOf(absl::StrCat("file", i)), true), 0);
  }
  Settle();
  harness_.hold_copies_ = true;
  const auto job = Start(v1::JOB_COMPACT, "");
  ASSERT_TRUE(job.ok()) << job.status();
  for (std::size_t copy = 0; copy < 100; ++copy) {
    harness_.Pass(500, {&a_});
    if (harness_.copies_.size() == copy) break;  // nothing more is tried
    for (std::size_t i = 30; i < 40; ++i) {
      EXPECT_EQ(Fill(inodes[i], 0, 10), 0);  // it is written, and what was copied is in vain
      EXPECT_EQ(GiveBack(inodes[i]), 0);
    }
    harness_.core_->OnCopied(harness_.copies_.back().id, absl::OkStatus(), false);
    harness_.Run();
  }
  harness_.Pass(1'000, {&a_});
  EXPECT_EQ(Job(job->job).state(), v1::JOB_DONE) << Job(job->job).problem();
  EXPECT_EQ(Job(job->job).moved_blocks(), 0u);
  EXPECT_GT(Job(job->job).kept_blocks(), 0u);
}

TEST_F(CoreUnitsTest, WhatCannotBeIsRefused) {
  EXPECT_EQ(StartAlign("none", 8 * kBlock).status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(StartAlign("data", 3 * kBlock).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(StartAlign("data", kBlock / 2).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Start(v1::JOB_COMPACT, "none").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace reel::mdc
