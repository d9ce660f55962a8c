// Files whose bytes lie at the controller.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "client/testing/data_cluster.h"

namespace reel::client {
namespace {

class SmallFilesTest : public testing::Test {
 protected:
  SmallFilesTest() : file_(cluster_.mdc().CreateFile()) {}

  static ClusterShape Shape() {
    ClusterShape shape;
    shape.mdc.small_file_bytes = 8192;
    shape.mdc.max_blocks = 16;
    shape.data.commit_age_ms = 100'000;
    return shape;
  }
  bool AnyBlockWritten() {
    for (const Extent& extent : cluster_.mdc().ExtentsOf(file_)) {
      if (extent.state == ExtentState::kWritten) return true;
    }
    return false;
  }

  DataCluster cluster_{Shape()};
  const std::uint64_t file_;
};

TEST_F(SmallFilesTest, AnFsyncLeavesTheBytesWithTheController) {
  auto a = cluster_.Mount();
  a->Write(file_, 0, "hello");
  ASSERT_TRUE(a->Fsync(file_).ok());
  EXPECT_EQ(cluster_.mdc().ContentOf(file_), "hello");
  EXPECT_FALSE(AnyBlockWritten());
  EXPECT_EQ(a->Read(file_, 1, 100), "ello");
}

TEST_F(SmallFilesTest, AnotherHostReadsThem) {
  auto a = cluster_.Mount();
  auto b = cluster_.Mount();
  a->Write(file_, 0, "hello");
  EXPECT_EQ(b->Read(file_, 0, 100), "hello");  // by the recall
  EXPECT_EQ(cluster_.mdc().ContentOf(file_), "hello");
  b->Write(file_, 1, "a");
  EXPECT_EQ(a->Read(file_, 0, 100), "hallo");
  EXPECT_FALSE(AnyBlockWritten());
}

TEST_F(SmallFilesTest, AFileThatGrowsGoesToBlocks) {
  auto a = cluster_.Mount();
  a->Write(file_, 0, "hello");
  ASSERT_TRUE(a->Fsync(file_).ok());
  a->Write(file_, 5, std::string(8192, 'x'));
  EXPECT_EQ(cluster_.mdc().ContentOf(file_), "hello");
  ASSERT_TRUE(a->Fsync(file_).ok());
  EXPECT_EQ(cluster_.mdc().ContentOf(file_), "");
  EXPECT_TRUE(AnyBlockWritten());
  auto b = cluster_.Mount();
  EXPECT_EQ(b->Read(file_, 0, 10'000), "hello" + std::string(8192, 'x'));
}

TEST_F(SmallFilesTest, ADirectWriteMovesThemFirst) {
  auto a = cluster_.Mount();
  a->Write(file_, 0, "hello");
  ASSERT_TRUE(a->Fsync(file_).ok());
  a->Write(file_, 4096, std::string(4096, 'd'), {.direct = true});
  ASSERT_TRUE(a->Fsync(file_).ok());
  auto b = cluster_.Mount();
  EXPECT_EQ(b->Read(file_, 0, 10'000), "hello" + std::string(4091, '\0') + std::string(4096, 'd'));
  EXPECT_TRUE(AnyBlockWritten());
}

TEST_F(SmallFilesTest, TruncationsReachThem) {
  auto a = cluster_.Mount();
  a->Write(file_, 0, "hello");
  ASSERT_TRUE(a->Fsync(file_).ok());
  ASSERT_TRUE(a->Truncate(file_, 2).ok());
  ASSERT_TRUE(a->Truncate(file_, 4).ok());
  EXPECT_EQ(a->Read(file_, 0, 100), std::string("he\0\0", 4));
}

TEST_F(SmallFilesTest, TheyTakeNoBlocks) {
  auto a = cluster_.Mount();
  a->Write(file_, 0, "hel");
  a->Write(file_, 3, "lo");
  ASSERT_TRUE(a->Fsync(file_).ok());
  a->Write(file_, 5, " world");
  ASSERT_TRUE(a->Fsync(file_).ok());
  EXPECT_EQ(cluster_.mdc().ContentOf(file_), "hello world");
  EXPECT_TRUE(cluster_.mdc().ExtentsOf(file_).empty());
}

TEST_F(SmallFilesTest, BytesThatWereNeverCommittedGoToBlocksWithWhatTheFileGrowsBy) {
  auto a = cluster_.Mount();
  a->Write(file_, 0, "hello");
  a->Write(file_, 5, std::string(8192, 'x'));
  ASSERT_TRUE(a->Fsync(file_).ok());
  EXPECT_EQ(cluster_.mdc().ContentOf(file_), "");
  auto b = cluster_.Mount();
  EXPECT_EQ(b->Read(file_, 0, 10'000), "hello" + std::string(8192, 'x'));
}

TEST_F(SmallFilesTest, ADirectWriteWaitsForBytesThatHaveNoBlocksYet) {
  auto a = cluster_.Mount();
  a->Write(file_, 0, "hello");
  a->Write(file_, 0, std::string(512, 'd'), {.direct = true});
  ASSERT_TRUE(a->Fsync(file_).ok());
  auto b = cluster_.Mount();
  EXPECT_EQ(b->Read(file_, 0, 1000), std::string(512, 'd'));
  EXPECT_TRUE(AnyBlockWritten());
}

TEST_F(SmallFilesTest, AWriteFarBehindThemLeavesAHole) {
  auto a = cluster_.Mount();
  a->Write(file_, 0, "hello");
  a->Write(file_, 10 << 20, "far");
  ASSERT_TRUE(a->Fsync(file_).ok());
  for (const Extent& extent : cluster_.mdc().ExtentsOf(file_)) {
    EXPECT_TRUE(extent.file_block < FileBlock(8) || extent.file_block >= FileBlock(2560));
  }
  EXPECT_EQ(a->Read(file_, 0, 6), std::string("hello\0", 6));
}

TEST_F(SmallFilesTest, BeforeTheyAreCommittedTheyShowAsData) {
  auto a = cluster_.Mount();
  a->Write(file_, 0, "hello");
  v1::Attr attr = cluster_.mdc().AttrOf(file_);
  a->data().Overlay(attr);
  EXPECT_EQ(attr.allocated_bytes(), 512u);
  const auto data = a->data().Seek(file_, 0, /*data=*/true, {});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(*data, 0u);
}

TEST_F(SmallFilesTest, AFileThatOutgrowsItsContentIsCommittedByAge) {
  ClusterShape shape = Shape();
  shape.data.commit_age_ms = 20;
  shape.mdc.max_blocks = 0;
  DataCluster cluster(shape);
  const std::uint64_t file = cluster.mdc().CreateFile();
  auto a = cluster.Mount();
  a->Write(file, 0, "hello");
  ASSERT_TRUE(a->Fsync(file).ok());
  std::uint64_t at = 5;
  while (cluster.mdc().AttrOf(file).size_bytes() < 8192) {  // without a pause, as long as it takes
    a->Write(file, at, std::string(100, 'x'));
    at = at < 40'000 ? at + 100 : 20'005;
  }
  EXPECT_EQ(cluster.mdc().ContentOf(file), "");
}

TEST_F(SmallFilesTest, WhereAGrowingFileFindsNoRoomItsBytesStay) {
  auto a = cluster_.Mount();
  const std::uint64_t large = cluster_.mdc().CreateFile();
  a->Write(large, 0, std::string(14 * 4096, 'l'), {.direct = true});
  a->Write(file_, 0, "hello");
  EXPECT_EQ(ErrnoOf(a->TryWrite(file_, 5, std::string(9000, 'x')).status()), ENOSPC);
  ASSERT_TRUE(a->Fsync(file_).ok());
  EXPECT_EQ(cluster_.mdc().ContentOf(file_), "hello");
  EXPECT_EQ(a->Read(file_, 0, 100), "hello");
}

TEST_F(SmallFilesTest, ARecallOfAnotherPartTakesThemToTheController) {
  auto a = cluster_.Mount();
  auto b = cluster_.Mount();
  a->Write(file_, 0, "hello");
  b->Write(file_, 1 << 20, "far");
  ASSERT_TRUE(b->Fsync(file_).ok());
  EXPECT_EQ(a->Read(file_, 0, 5), "hello");
  EXPECT_EQ(a->Read(file_, 1 << 20, 5), "far");
}

TEST_F(SmallFilesTest, AProgramWritesOnWhileTheyAreCommitted) {
  auto a = cluster_.Mount();
  a->Write(file_, 0, "hello");
  cluster_.mdc().HoldReplies(v1::Request::kLayoutCommit);
  std::thread fsync([&] { EXPECT_TRUE(a->Fsync(file_).ok()); });
  while (cluster_.mdc().CountOf(v1::Request::kLayoutCommit) == 0) std::this_thread::yield();
  a->Write(file_, 1, "a");
  EXPECT_EQ(a->Read(file_, 0, 100), "hallo");
  cluster_.mdc().ReleaseReplies();
  fsync.join();
  EXPECT_EQ(a->Read(file_, 0, 100), "hallo");
  ASSERT_TRUE(a->Fsync(file_).ok());
  EXPECT_EQ(cluster_.mdc().ContentOf(file_), "hallo");
}

TEST_F(SmallFilesTest, WhereCommitsWaitTheyWaitForTheControllerToo) {
  auto a = cluster_.Mount();
  a->Write(file_, 0, "hello");
  cluster_.mdc().SetCommitsWait(true);
  while (!a->session().commits_wait()) std::this_thread::yield();
  ASSERT_TRUE(a->Fsync(file_).ok());  // it waits at the controller, which this one does not do
  EXPECT_EQ(cluster_.mdc().ContentOf(file_), "hello");
}

// Of each only a page counts, and there is room for four.
TEST(SmallFilesInLittleMemory, TheyGoToTheControllerBeforeTheirTime) {
  ClusterShape shape;
  shape.mdc.small_file_bytes = 8192;
  shape.data.commit_age_ms = 100'000;
  shape.data.max_write_behind_bytes = 16'384;
  DataCluster cluster(shape);
  auto a = cluster.Mount();
  std::vector<std::uint64_t> files;
  for (int i = 0; i < 20; ++i) files.push_back(cluster.mdc().CreateFile());
  for (const std::uint64_t file : files) a->Write(file, 0, "hello");
  EXPECT_EQ(cluster.mdc().ContentOf(files.front()), "hello");
  for (const std::uint64_t file : files) EXPECT_TRUE(cluster.mdc().ExtentsOf(file).empty());
}

// As where the metadata store is full.
TEST_F(SmallFilesTest, WhatTheControllerHasIsChangedInPlaceWhateverTheLimitIs) {
  auto a = cluster_.Mount();
  a->Write(file_, 0, "hello");
  ASSERT_TRUE(a->Fsync(file_).ok());
  cluster_.mdc().SetSmallFileBytes(0);
  while (a->session().small_file_bytes() != 0) std::this_thread::yield();
  const std::uint64_t large = cluster_.mdc().CreateFile();
  a->Write(large, 0, std::string(16 * 4096, 'l'), {.direct = true});
  auto b = cluster_.Mount();
  for (TestClient* client : {a.get(), b.get()}) {
    const std::string with = client == a.get() ? "a" : "u";
    ASSERT_TRUE(client->TryWrite(file_, 1, with).ok());
    ASSERT_TRUE(client->Fsync(file_).ok());
    EXPECT_EQ(cluster_.mdc().ContentOf(file_), "h" + with + "llo");
  }
  EXPECT_EQ(ErrnoOf(b->TryWrite(file_, 5, "!").status()), ENOSPC);
}

// A flush that began before takes nothing that has no block.
TEST_F(SmallFilesTest, AChangeInPlaceBesideAnFsyncIsNotLost) {
  auto a = cluster_.Mount();
  a->Write(file_, 0, "hello");
  ASSERT_TRUE(a->Fsync(file_).ok());
  const std::uint64_t large = cluster_.mdc().CreateFile();
  a->Write(large, 0, std::string(16 * 4096, 'l'), {.direct = true});
  std::atomic<bool> stop{false};
  std::thread syncs([&] {
    while (!stop) EXPECT_TRUE(a->Fsync(file_).ok());
  });
  for (int i = 0; i < 20'000 && !HasFailure(); ++i) {
    const std::string byte(1, static_cast<char>('a' + i % 26));
    EXPECT_TRUE(a->TryWrite(file_, 1, byte).ok());
    EXPECT_EQ(a->Read(file_, 1, 1), byte) << i;
  }
  stop = true;
  syncs.join();
  EXPECT_FALSE(AnyBlockWritten());
}

// The controller takes it for another content than can be: the LUNs take it.
TEST_F(SmallFilesTest, WhatTheControllerDoesNotTakeGoesToTheLuns) {
  auto a = cluster_.Mount();
  a->Write(file_, 0, "hello");
  cluster_.mdc().Refuse(v1::Request::kLayoutCommit, EINVAL);
  ASSERT_TRUE(a->Fsync(file_).ok());
  EXPECT_EQ(cluster_.mdc().ContentOf(file_), "");
  EXPECT_TRUE(AnyBlockWritten());
}

}  // namespace
}  // namespace reel::client
