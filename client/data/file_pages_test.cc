// Recalls and the pages that the kernel holds.
#include "client/data/file_data.h"

#include <gtest/gtest.h>
#include <linux/falloc.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <random>
#include <thread>

#include "client/testing/data_cluster.h"
#include "client/testing/test_interrupt.h"
#include "proto/convert.h"

namespace reel::client {
namespace {

TEST(FilePagesTest, NoRecallPassesAPageReadWhereOtherPagesMayBeChanged) {
  DataCluster cluster({.data = {.commit_age_ms = 60'000}});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto cut = cluster.Mount(), other = cluster.Mount();
  other->Write(inode, 0, std::string(8'192, 'a'));
  ASSERT_TRUE(other->Fsync(inode).ok());
  ASSERT_TRUE(cut->data().Open(inode, true, {}).ok());
  EXPECT_EQ(cut->Read(inode, 4'096, 1, {.page_cache = true}), "a");
  const std::uint64_t returned = cluster.mdc().CountOf(v1::Request::kLayoutReturn);
  cluster.lun(0).FailNext(1, LunFault::kClosed);  // of the next one to ask
  cluster.lun(0).SetPathLost(true);
  std::thread reader([&] { EXPECT_EQ(cut->Read(inode, 0, 1, {.page_cache = true}), "a"); });
  while (cluster.lun(0).counters().errors == 0) std::this_thread::yield();
  std::thread writer([&] { other->Write(inode, 0, "b"); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // tidy: sleep: nothing comes
  EXPECT_EQ(cluster.mdc().CountOf(v1::Request::kLayoutReturn), returned);
  cluster.lun(0).SetPathLost(false);
  reader.join();
  writer.join();
  cut->data().Close(inode);
}

// Else the kernel would keep the old bytes, and write the page back whole once it is stored to.
TEST(FilePagesTest, NoPageIsReadInWhileAWritePastItIsUnderWay) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  client->Write(inode, 0, std::string(4'096, 'o'), {.direct = true});
  cluster.lun(0).HoldWrites(true);
  std::thread writer([&] { client->Write(inode, 0, std::string(4'096, 'n'), {.direct = true}); });
  while (cluster.lun(0).held() == 0) std::this_thread::yield();
  const TestInterrupt interrupt;
  std::atomic<bool> read{false};
  std::thread reader([&] {
    EXPECT_EQ(client->Read(inode, 0, 1, {.interrupt = &interrupt, .page_cache = true}), "n");
    read = true;
  });
  // A call that waits looks again and again.
  while (!read && interrupt.asked() < 3) std::this_thread::yield();
  cluster.lun(0).HoldWrites(false);
  writer.join();
  reader.join();
}

TEST(FilePagesTest, PagesAreReadUnderTheOldTokenWhileTheyAreInvalidated) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto one = cluster.Mount();
  const auto two = cluster.Mount();
  std::atomic<int> invalidations{0};
  one->on_invalidate = [&](std::uint64_t) {
    // As the kernel: it waits for a page that is being read or written.
    if (++invalidations > 1) return;
    EXPECT_EQ(one->Read(inode, 0, 3, {.page_cache = true}), "old");
    one->Write(inode, 0, "odd", {.page_cache = true});
  };
  one->Write(inode, 0, "old");
  EXPECT_EQ(one->Read(inode, 0, 3, {.page_cache = true}), "old");
  EXPECT_EQ(two->Read(inode, 0, 3), "odd");
  EXPECT_GE(invalidations, 2) << "what was read meanwhile is invalidated again";
}

TEST(FilePagesTest, ADirtyPageWithoutTheTokenDoesNotHoldUpTheRecall) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto one = cluster.Mount();
  const auto two = cluster.Mount();
  two->Write(inode, 0, "two");
  std::atomic<bool> first{true};
  one->on_invalidate = [&](std::uint64_t) {
    if (first.exchange(false)) one->Write(inode, 10, "dirty", {.page_cache = true});
  };
  EXPECT_EQ(one->Read(inode, 0, 3, {.page_cache = true}), "two");  // shared only
  two->Write(inode, 0, "TWO");
  while (two->Read(inode, 10, 5) != "dirty") std::this_thread::yield();
  EXPECT_EQ(one->Read(inode, 0, 3), "TWO");
}

TEST(FilePagesTest, PagesThatMayBeChangedAreReadUnderTheExclusiveToken) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto one = cluster.Mount();
  const auto two = cluster.Mount();
  two->Write(inode, 0, "old");
  std::atomic<int> invalidations{0};
  one->on_invalidate = [&](std::uint64_t) {
    if (++invalidations == 1) one->Write(inode, 0, "new", {.page_cache = true});
  };
  ASSERT_TRUE(one->data().Open(inode, /*write=*/true, {}).ok());
  EXPECT_EQ(two->Read(inode, 0, 3), "old");
  EXPECT_EQ(one->Read(inode, 0, 3, {.page_cache = true}), "old");
  const int before = invalidations.exchange(0);
  EXPECT_EQ(two->Read(inode, 0, 3), "new") << before;
  EXPECT_GE(invalidations, 1);
  one->data().Close(inode);
}

}  // namespace
}  // namespace reel::client
