// Recalls that cross requests of the kernel's page cache.
#include "client/tokens/recaller.h"

#include <gtest/gtest.h>
#include <linux/falloc.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

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
  holder->on_recall = [&, may = holder_may_yield.get_future().share()](std::uint64_t) {
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

// A page that were changed after the token went back would be written back whole, over what others
// have written since.
TEST(RecallerTest, TheTokenStaysUntilNoPageIsHeld) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto pages = cluster.Mount();
  const auto other = cluster.Mount();
  pages->Write(inode, 0, std::string(kBlock, 'a'));
  std::atomic<int> fills = 0;
  pages->on_invalidate = [&](std::uint64_t) {
    // A program that never pauses: each page that is dropped is read in again.
    if (fills == 100) return;
    EXPECT_EQ(pages->Read(inode, 0, 1, {.page_cache = true}), "a");
    ++fills;
  };
  ASSERT_TRUE(pages->data().Open(inode, /*write=*/true, {}).ok());
  ASSERT_EQ(pages->Read(inode, 0, 1, {.page_cache = true}), "a");
  other->Write(inode, 0, "o");
  EXPECT_EQ(fills, 100);
  EXPECT_EQ(pages->Read(inode, 0, 2, {.page_cache = true}), "oa");
  pages->data().Close(inode);
}

// Nobody waits for the page that such a request keeps locked; if it went on, there would be no end.
TEST(RecallerTest, PagesThatAreNotHeldWaitForTheRecall) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto pages = cluster.Mount();
  const auto other = cluster.Mount();
  pages->Write(inode, 0, std::string(2 * kBlock, 'a'));
  ASSERT_EQ(pages->Read(inode, 0, 1, {.page_cache = true}), "a");
  std::thread fill;
  pages->on_invalidate = [&](std::uint64_t) {
    if (fill.joinable()) return;
    fill =
        std::thread([&] { EXPECT_EQ(pages->Read(inode, kBlock, 1, {.page_cache = true}), "o"); });
  };
  other->Write(inode, kBlock, "o");
  fill.join();
}

// While it cuts a file the kernel writes no page of it back, nor drops one that was changed.
TEST(RecallerTest, ATruncationGoesAheadOfADropThatWaitsForIt) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto pages = cluster.Mount();
  const auto other = cluster.Mount();
  pages->Write(inode, 0, std::string(2 * kBlock, 'a'));
  ASSERT_TRUE(pages->data().Open(inode, /*write=*/true, {}).ok());
  ASSERT_EQ(pages->Read(inode, 0, 1, {.page_cache = true}), "a");
  pages->on_invalidate = [&](std::uint64_t) { EXPECT_TRUE(pages->Truncate(inode, kBlock).ok()); };
  EXPECT_EQ(other->Read(inode, 0, 3 * kBlock), std::string(kBlock, 'a'));
  pages->data().Close(inode);
}

// Between the kernel's own drop of a page and the write past it, the page may be read in again.
TEST(RecallerTest, AWritePastThePagesDropsThem) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  client->Write(inode, 0, std::string(2 * kBlock, 'a'));
  ASSERT_TRUE(client->data().Open(inode, /*write=*/true, {}).ok());
  ASSERT_EQ(client->Read(inode, 0, kBlock, {.page_cache = true}), std::string(kBlock, 'a'));
  client->on_invalidate = [&](std::uint64_t) {
    // The kernel writes a changed page back before it drops it: with old bytes around the new ones.
    std::string page(kBlock, 'a');
    page.replace(100, 1, "m");
    client->Write(inode, 0, page, {.page_cache = true, .write_back = true});
  };
  client->Write(inode, 200, "w");
  EXPECT_EQ(client->Read(inode, 100, 1), "m");
  EXPECT_EQ(client->Read(inode, 200, 1), "w");
  ASSERT_EQ(client->Read(inode, 0, kBlock, {.page_cache = true})[100], 'm');
  ASSERT_TRUE(
      client->data().Allocate(inode, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 200, 1, {}).ok());
  EXPECT_EQ(client->Read(inode, 200, 1), std::string(1, '\0'));
  client->data().Close(inode);
}

// Each invalidation may wait for a page that is locked by a request that waits for another host:
// however many do, and were it the host that waits for this, the next recall is answered.
TEST(RecallerTest, InvalidationsThatAreStuckKeepNoOtherRecallWaiting) {
  constexpr std::uint64_t kStuck = 40;
  ClusterShape shape;
  shape.mdc.slots = 4 * kStuck;  // each writer waits in one
  DataCluster cluster(shape);
  const auto pages = cluster.Mount();
  const auto writer = cluster.Mount();
  const auto holder = cluster.Mount();
  std::vector<std::uint64_t> files;
  for (std::uint64_t i = 0; i <= kStuck; ++i) files.push_back(cluster.mdc().CreateFile());
  const std::uint64_t last = files.back();
  std::promise<void> unlocked, may_yield;
  std::atomic<std::uint64_t> stuck = 0;
  std::atomic<bool> holds = true;
  pages->on_invalidate = [&, done = unlocked.get_future().share()](std::uint64_t inode) {
    if (inode == last) return;
    ++stuck;
    done.wait();
  };
  holder->on_recall = [&, may = may_yield.get_future().share()](std::uint64_t) {
    if (holds) may.wait();
  };
  std::vector<std::thread> threads;
  for (std::uint64_t i = 0; i < kStuck; ++i) {
    const std::uint64_t file = files[i];
    holds = false;
    (void)holder->Read(file, 0, 1);
    (void)pages->Read(file, 0, 1, {.page_cache = true});
    holds = true;
    // A page that is to be written waits for the holder; then another host wants the others.
    threads.emplace_back([&, file] { pages->Write(file, 0, "p", {.page_cache = true}); });
    while (cluster.mdc().WaitingFor(file) == 0) std::this_thread::yield();
    threads.emplace_back([&, file] { writer->Write(file, 0, "w"); });
    while (stuck <= i) std::this_thread::yield();
  }
  (void)pages->Read(last, 0, 1, {.page_cache = true});
  writer->Write(last, 0, "w");
  unlocked.set_value();
  may_yield.set_value();
  for (std::thread& each : threads) each.join();
}

}  // namespace
}  // namespace reel::client
