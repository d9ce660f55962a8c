// Streams ask for layouts before they need them.
#include "client/file_access.h"

#include <gtest/gtest.h>

#include "client/testing/data_cluster.h"

namespace reel::client {
namespace {

constexpr std::uint64_t kRecord = 1 << 20;

class StreamTest : public testing::Test {
 protected:
  StreamTest() : cluster_(Shape()), inode_(cluster_.mdc().CreateFile()) {}

  static ClusterShape Shape() {
    ClusterShape shape{.block_bytes = 65536, .rows = 300};
    shape.mdc.run_blocks = 100'000;
    shape.mdc.ahead_blocks = 64;  // 4 MiB with each allocation
    return shape;
  }
  void Write(TestClient& client, std::uint64_t from, std::uint64_t to) {
    for (std::uint64_t i = from; i < to; ++i) {
      client.Write(inode_, i * kRecord, std::string(kRecord, static_cast<char>('a' + i % 26)));
    }
  }

  DataCluster cluster_;
  const std::uint64_t inode_;
};

TEST_F(StreamTest, AWriterGoesOnWithoutAController) {
  const auto client = cluster_.Mount();
  ASSERT_TRUE(client->data().Open(inode_, true, {}).ok());
  // 5 MiB with the first write, which waits, and 4 MiB more with each question that none waits for.
  std::uint64_t next = 0;
  while (cluster_.mdc().CountOf(v1::Request::kLayoutGet) < 3) {
    Write(*client, next, next + 1);
    ASSERT_LT(++next, 12u);
  }
  cluster_.mdc().SetSilent(true);
  Write(*client, next, 12);
  EXPECT_EQ(client->Read(inode_, 11 * kRecord, 3), "lll");
  cluster_.mdc().SetSilent(false);
  cluster_.mdc().DropStreams();  // what was asked for in the silence is asked for again
  Write(*client, 12, 20);
  EXPECT_TRUE(client->Fsync(inode_).ok());
  EXPECT_EQ(client->Read(inode_, 19 * kRecord, 3), "ttt");
  client->data().Close(inode_);
}

TEST_F(StreamTest, WhoWritesHereAndThereAsksForNoMore) {
  const auto client = cluster_.Mount();
  ASSERT_TRUE(client->data().Open(inode_, true, {}).ok());
  for (const std::uint64_t record : {0, 14, 7, 28, 21}) Write(*client, record, record + 1);
  const std::uint64_t gets = cluster_.mdc().CountOf(v1::Request::kLayoutGet);
  EXPECT_EQ(gets, 5u);
  EXPECT_TRUE(client->Fsync(inode_).ok());
  EXPECT_EQ(cluster_.mdc().CountOf(v1::Request::kLayoutGet), gets);
}

}  // namespace
}  // namespace reel::client
