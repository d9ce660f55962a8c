// Free space: what removed files hold, for df and for people, and a word before it runs out.
#include "gmock/gmock.h"
#include "mdc/testing/core_harness.h"

namespace reel::mdc {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

class CoreFreeTest : public testing::Test {
 protected:
  CoreFreeTest() {
    a_.Register();
    b_.Register();
  }
  v1::FreeReply Free() {
    v1::FreeReply reply;
    harness_.core_->Describe(reply);
    return reply;
  }
  std::uint64_t Df() {
    v1::Request request;
    request.mutable_stat_fs();
    EXPECT_EQ(a_.Do(request), 0);
    return a_.last_.stat_fs().free_blocks();
  }
  // As getfattr(1) and older clients ask for a directory.
  std::string Space() {
    v1::Request request;
    request.mutable_get_xattr()->set_inode(1);
    request.mutable_get_xattr()->set_name("reelfs.space");
    EXPECT_EQ(a_.Do(request), 0);
    return a_.last_.data().data();
  }
  int Fill(Client& client, std::uint64_t inode, std::uint64_t blocks) {
    return client.Do(
        Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE, /*allocate=*/true, 0, blocks * kBlock), true);
  }
  std::vector<std::string> Alarms() {
    v1::ShowReply show;
    harness_.core_->Describe(show);
    EXPECT_EQ(show.alarms_size(), show.alarm_kinds_size()) << "each has a kind";
    return {show.alarms().begin(), show.alarms().end()};
  }

  CoreHarness harness_;
  Client a_{harness_, 1}, b_{harness_, 2};
};

TEST_F(CoreFreeTest, WhatIsBeingRemovedIsFreeAtOnce) {
  const std::uint64_t before = Df();
  const std::string space = Space();
  const std::uint64_t file = b_.Create("file");
  ASSERT_EQ(Fill(b_, file, 5'000), 0);
  EXPECT_LE(Df(), before - 5'000);
  // The removal has to wait for the other host's token: nothing has come back.
  ASSERT_EQ(a_.Do(Client::UnlinkOf("file"), true), 0);
  EXPECT_EQ(harness_.Counter("orphans.now"), 1u);
  EXPECT_EQ(Free().removing_files(), 1u);
  EXPECT_GE(Free().removing_bytes(), 5'000 * kBlock);
  EXPECT_EQ(Df(), before);
  EXPECT_EQ(Space(), space);
  ASSERT_EQ(b_.Do(Client::ReturnOf(file), true), 0);
  harness_.Pass(1'000, {&a_, &b_});
  EXPECT_EQ(harness_.Counter("orphans.now"), 0u);
  EXPECT_EQ(Df(), before);
  EXPECT_EQ(Free().removing_bytes(), 0u);
}

TEST_F(CoreFreeTest, WhatIsOpenIsNotFree) {
  const std::uint64_t before = Df();
  const std::uint64_t file = b_.Create("file", /*open=*/true);
  ASSERT_EQ(Fill(b_, file, 5'000), 0);
  ASSERT_EQ(b_.Do(Client::ReturnOf(file), true), 0);
  const std::uint64_t full = Df();
  ASSERT_EQ(a_.Do(Client::UnlinkOf("file"), true), 0);
  harness_.Pass(1'000, {&a_, &b_});
  EXPECT_EQ(Df(), full);
  EXPECT_EQ(Free().open_files(), 1u);
  EXPECT_GE(Free().open_bytes(), 5'000 * kBlock);
  EXPECT_EQ(Free().removing_files(), 0u);
  ASSERT_EQ(b_.Do(Client::CloseOf(file)), 0);
  EXPECT_EQ(Df(), before);
  EXPECT_EQ(Free().open_files(), 0u);
}

TEST_F(CoreFreeTest, AWriterWaitsForWhatIsBeingRemoved) {
  const std::uint64_t all = Df();
  const std::uint64_t file = b_.Create("file");
  for (std::uint64_t block = 0; block < all - 1'000; block += 4'000) {
    ASSERT_EQ(b_.Do(Client::LayoutOf(file, v1::TOKEN_EXCLUSIVE, true, block * kBlock,
                                     std::min<std::uint64_t>(4'000, all - 1'000 - block) * kBlock),
                    true),
              0);
  }
  const std::uint64_t other = a_.Create("other");
  EXPECT_EQ(Fill(a_, other, 4'000), ENOSPC);
  ASSERT_EQ(a_.Do(Client::UnlinkOf("file"), true), 0);
  EXPECT_EQ(Fill(a_, other, 4'000), -1) << "the other host's token is still out";
  const std::uint64_t waits = a_.last_id_;
  ASSERT_EQ(b_.Do(Client::ReturnOf(file), true), 0);
  harness_.Pass(500, {&a_, &b_});
  ASSERT_TRUE(a_.Answered(waits));
  EXPECT_EQ(a_.Answer(waits).error(), 0);
}

TEST_F(CoreFreeTest, RunsAreCountedBySize) {
  const v1::FreeReply fresh = Free();
  ASSERT_EQ(fresh.pools_size(), 1);
  EXPECT_EQ(fresh.pools(0).runs(), 1u);
  EXPECT_EQ(fresh.pools(0).largest_run_bytes(), fresh.pools(0).free_bytes());
  ASSERT_EQ(fresh.uses_size(), 1);
  EXPECT_EQ(fresh.uses(0).affinity(), "");
  EXPECT_EQ(fresh.uses(0).total_bytes(), fresh.pools(0).total_bytes());
  std::uint64_t bytes = 0;
  for (const auto& of_length : fresh.pools(0).classes()) bytes += of_length.bytes();
  EXPECT_EQ(bytes + fresh.pools(0).windows_bytes(), fresh.pools(0).free_bytes());
}

TEST_F(CoreFreeTest, SpaceThatRunsOutIsAnAlarm) {
  EXPECT_THAT(Alarms(), IsEmpty());
  const std::uint64_t all = Df();
  const std::uint64_t file = a_.Create("file");
  for (std::uint64_t block = 0; block < all * 24 / 25; block += 4'000) {
    ASSERT_EQ(
        a_.Do(Client::LayoutOf(file, v1::TOKEN_EXCLUSIVE, true, block * kBlock, 4'000 * kBlock),
              true),
        0);
  }
  harness_.Pass(2'000, {&a_, &b_});
  EXPECT_THAT(Alarms(), Contains(HasSubstr("files without an affinity is nearly used up")));
  v1::Request unlink = Client::UnlinkOf("file");
  unlink.mutable_unlink()->set_lets_go(true);
  ASSERT_EQ(a_.Do(unlink, true), 0);
  harness_.Pass(2'000, {&a_, &b_});
  EXPECT_THAT(Alarms(), IsEmpty());
}

}  // namespace
}  // namespace reel::mdc
