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
  holder->Write(inode, 0, std::string(kBlock, 'h'));
  ASSERT_EQ(pages->Read(inode, 0, 1, {.page_cache = true}), "h");
  holder_waits = true;
  // A page that is to be written waits for the holder; while it does, the writer wants the token
  // that there is for the other pages.
  std::thread fill([&] {
    pages->Write(inode, 0, std::string(kBlock, 'p'), {.page_cache = true});
    fill_done.set_value();
  });
  while (cluster.mdc().WaitingFor(inode) == 0) std::this_thread::yield();
  const std::uint64_t returns = cluster.mdc().CountOf(v1::Request::kLayoutReturn);
  std::thread write([&] { writer->Write(inode, kBlock, "w"); });
  while (cluster.mdc().CountOf(v1::Request::kLayoutReturn) == returns) std::this_thread::yield();
  EXPECT_EQ(invalidated, 0);
  holder_may_yield.set_value();
  write.join();
  fill.join();
  while (invalidated == 0) std::this_thread::yield();  // late, but it comes
  EXPECT_EQ(pages->Read(inode, 0, 2 * kBlock), std::string(kBlock, 'p') + "w");
}

}  // namespace
}  // namespace reel::client
