// Recalls that cross requests of the kernel's page cache.
#include "client/recaller.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "client/testing/data_cluster.h"

namespace reel::client {
namespace {

constexpr std::uint64_t kBlock = 4096;

// The kernel holds a page locked while a request fills it, and an invalidation waits for that page.
TEST(RecallerTest, ARecallDoesNotWaitForAPageThatWaitsForTheController) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto pages = cluster.Mount();
  const auto writer = cluster.Mount();
  const auto holder = cluster.Mount();
  std::promise<void> fill_done, holder_may_yield;
  std::atomic<bool> holder_waits = false;
  std::atomic<int> invalidated = 0;
  pages->on_invalidate = [&, done = fill_done.get_future().share()](std::uint64_t) {
    done.wait();
    ++invalidated;
  };
  holder->on_invalidate = [&, may = holder_may_yield.get_future().share()](std::uint64_t) {
    if (holder_waits) may.wait();
  };
  // The holder writes from block 30 on, the writer before it; of that the pages have the first.
  holder->Write(inode, 0, std::string(40 * kBlock, 'h'));
  holder->Write(inode, 30 * kBlock, "H");
  ASSERT_TRUE(holder->Fsync(inode).ok());
  for (const auto& client : {pages.get(), writer.get()}) {
    ASSERT_TRUE(client->data().Open(inode, false, {}).ok());  // learns the size
  }
  writer->Write(inode, 0, "W");
  ASSERT_EQ(pages->Read(inode, 0, 1, {.page_cache = true}), "W");
  holder_waits = true;
  // One page waits for the holder; while it does, the writer wants what the pages' token covers.
  std::thread fill([&] {
    EXPECT_EQ(pages->Read(inode, 30 * kBlock, 1, {.page_cache = true}), "H");
    fill_done.set_value();
  });
  while (cluster.mdc().WaitingFor(inode) == 0) std::this_thread::yield();
  const std::uint64_t returns = cluster.mdc().CountOf(v1::Request::kLayoutReturn);
  std::thread write([&] { writer->Write(inode, 0, "w"); });
  while (cluster.mdc().CountOf(v1::Request::kLayoutReturn) == returns) std::this_thread::yield();
  EXPECT_EQ(invalidated, 0);
  holder_may_yield.set_value();
  write.join();
  fill.join();
  while (invalidated == 0) std::this_thread::yield();  // late, but it comes
  EXPECT_EQ(pages->Read(inode, 0, 1), "w");
}

}  // namespace
}  // namespace reel::client
