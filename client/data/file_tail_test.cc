// Blocks behind the end of a file: whoever has them for its writes gives them back.
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <thread>
#include <vector>

#include "client/testing/data_cluster.h"
#include "client/testing/test_interrupt.h"
#include "proto/status.h"

namespace reel::client {
namespace {

TEST(FileTailTest, TheTailGoesBackAfterTheLastClose) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  ASSERT_TRUE(client->data().Open(inode, true, {}).ok());
  ASSERT_TRUE(client->data().Open(inode, false, {}).ok());
  EXPECT_EQ(cluster.mdc().OpensOf(inode), 1u);
  client->Write(inode, 0, std::string(5'000, 'x'));
  client->data().Close(inode);
  EXPECT_TRUE(client->Fsync(inode).ok());
  const auto blocks = [&] {
    std::uint64_t sum = 0;
    for (const Extent& extent : cluster.mdc().ExtentsOf(inode)) sum += extent.length_blocks;
    return sum;
  };
  EXPECT_GT(blocks(), 2u);
  client->data().Close(inode);
  while (blocks() > 2) std::this_thread::yield();
  while (cluster.mdc().OpensOf(inode) != 0) std::this_thread::yield();
  client->Write(inode, 5'000, std::string(20'000, 'y'));
  EXPECT_EQ(client->Read(inode, 4'999, 3), "xyy");
}

// Who has only looked has taken the right to give it back, and while that goes it cannot be asked
// for.
TEST(FileTailTest, TheTailOfAFileThatIsClosedWhileOthersLookGoesBack) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount(), other = cluster.Mount();
  ASSERT_TRUE(client->data().Open(inode, true, {.handle = 1}).ok());
  client->Write(inode, 0, std::string(4096, 'x'));
  ASSERT_TRUE(client->Fsync(inode).ok());
  cluster.mdc().HoldReplies(v1::Request::kLayoutReturn);
  EXPECT_EQ(other->Read(inode, 4096, 1), "");  // past the end
  ASSERT_GT(cluster.mdc().ExtentsOf(inode).back().end(), FileBlock(1));
  client->data().Close(inode);
  cluster.mdc().ReleaseReplies();
  while (cluster.mdc().ExtentsOf(inode).back().end() > FileBlock(1)) std::this_thread::yield();
}

// A request for blocks waits, and a recall gives back what there was before it is answered: blocks
// that it brings then are a tail again.
TEST(FileTailTest, TheTailThatComesAfterARecallGoesBackWithTheNextOne) {
  DataCluster cluster({.data = {.commit_age_ms = 60'000, .max_write_behind_bytes = 0}});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount(), other = cluster.Mount();
  ASSERT_TRUE(client->data().Open(inode, true, {.handle = 1}).ok());
  client->Write(inode, 0, std::string(4096, 'x'));
  cluster.mdc().ParkLayoutGet();
  std::thread writer([&] { client->Write(inode, 16 * 4096, std::string(4096, 'y')); });
  while (cluster.mdc().WaitingFor(inode) == 0) std::this_thread::yield();
  other->Write(inode, 0, "a");
  writer.join();
  other->Write(inode, 0, "b");
  const std::vector<Extent> extents = cluster.mdc().ExtentsOf(inode);
  ASSERT_FALSE(extents.empty());
  EXPECT_EQ(extents.back().end(), FileBlock(17));
}

// Its blocks come when the file is closed already, and the tail from before has gone.
TEST(FileTailTest, TheTailThatAnInterruptedWriteBringsLateGoesBack) {
  DataCluster cluster({.data = {.commit_age_ms = 20, .max_write_behind_bytes = 0}});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount(), other = cluster.Mount();
  const auto end = [&] { return cluster.mdc().ExtentsOf(inode).back().end(); };
  ASSERT_TRUE(client->data().Open(inode, true, {.handle = 1}).ok());
  client->Write(inode, 0, std::string(4096, 'x'));
  cluster.mdc().ParkLayoutGet();
  TestInterrupt interrupt;
  std::thread writer([&] {
    const std::string bytes(4096, 'y');
    const auto written = client->TryWrite(inode, 16 * 4096, bytes, {.interrupt = &interrupt});
    EXPECT_EQ(ErrnoOf(written.status()), EINTR);
  });
  while (cluster.mdc().WaitingFor(inode) == 0) std::this_thread::yield();
  interrupt.Raise();
  writer.join();
  client->data().Close(inode);
  while (end() > FileBlock(1)) std::this_thread::yield();
  // Who writes has it open, and would keep the tail.
  ASSERT_TRUE(other->data().Open(inode, true, {.handle = 1}).ok());
  other->Write(inode, 0, "a");  // for which the token goes back that the request waits for
  while (cluster.mdc().WaitingFor(inode) > 0) std::this_thread::yield();
  while (end() > FileBlock(1)) std::this_thread::yield();
  other->data().Close(inode);
}

// Nobody else would give it back.
TEST(FileTailTest, TheTailGoesBackAlsoAfterAFlushThatFailed) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  ASSERT_TRUE(client->data().Open(inode, true, {.handle = 1}).ok());
  for (std::size_t i = 0; i < 3; ++i) cluster.lun(i).FailFlush(1);
  client->Write(inode, 0, std::string(9'000, 'x'));
  client->data().Close(inode);
  const auto tail = [&] {
    const std::vector<Extent> extents = cluster.mdc().ExtentsOf(inode);
    return !extents.empty() && extents.back().end() > FileBlock(3);
  };
  while (client->data().Flush(inode, {.handle = 1}).ok()) std::this_thread::yield();
  while (tail()) std::this_thread::yield();
}

}  // namespace
}  // namespace reel::client
