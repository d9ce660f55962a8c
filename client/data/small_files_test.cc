// Files whose bytes lie at the controller.
#include <gtest/gtest.h>

#include "client/testing/data_cluster.h"

namespace reel::client {
namespace {

class SmallFilesTest : public testing::Test {
 protected:
  SmallFilesTest() : file_(cluster_.mdc().CreateFile()) {}

  static ClusterShape Shape() {
    ClusterShape shape;
    shape.mdc.small_file_bytes = 8192;
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
