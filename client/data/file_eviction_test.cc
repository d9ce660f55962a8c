// What an eviction takes, and what the next session may not do in its stead.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <thread>

#include "client/testing/data_cluster.h"
#include "client/testing/test_interrupt.h"
#include "proto/status.h"

namespace reel::client {
namespace {

class EvictionTest : public testing::Test {
 protected:
  static ClusterShape Shape(const Clock& clock) {
    ClusterShape shape;
    shape.mdc.lease_ms = kLeaseMs;
    shape.data.max_unreported_files = kMaxUnreported;
    shape.clock = &clock;
    return shape;
  }
  void AwaitNewSession(std::uint64_t old) {
    while (client_->session().session_id() == old || client_->session().session_id() == 0) {
      std::this_thread::yield();
    }
  }
  void Evict() {
    const std::uint64_t session = client_->session().session_id();
    cluster_.mdc().Evict(session);
    AwaitNewSession(session);
  }

  static constexpr std::uint32_t kLeaseMs = 1'000'000;
  static constexpr std::size_t kMaxUnreported = 4;
  static constexpr IoContext kPage{.page_cache = true, .write_back = true};

  ManualClock clock_;
  DataCluster cluster_{Shape(clock_)};
  const std::uint64_t inode_ = cluster_.mdc().CreateFile();
  const std::unique_ptr<TestClient> client_ = cluster_.Mount();
  const std::unique_ptr<TestClient> other_ = cluster_.Mount();
};

// ---- pages of the kernel's cache ----------------------------------------------------------------

// The kernel writes a dirty page back before it drops it: whole, with what others have changed.
TEST_F(EvictionTest, PagesOfALostSessionAreNotWritten) {
  std::atomic<bool> invalidated{false};
  client_->on_invalidate = [&](std::uint64_t) {
    if (invalidated) return;
    other_->Write(inode_, 0, "acknowledged");
    EXPECT_EQ(ErrnoOf(client_->TryWrite(inode_, 0, "mapped, then old", kPage).status()), EIO);
    invalidated = true;
  };
  ASSERT_TRUE(client_->data().Open(inode_, true, {}).ok());
  client_->Write(inode_, 0, "what there was");
  ASSERT_TRUE(client_->Fsync(inode_).ok());
  ASSERT_EQ(client_->Read(inode_, 0, 4, {.page_cache = true}), "what");
  Evict();
  while (!invalidated) std::this_thread::yield();
  EXPECT_EQ(other_->Read(inode_, 0, 100), "acknowledgedas");
  while (ErrnoOf(client_->Fsync(inode_)) != EIO) std::this_thread::yield();
  EXPECT_TRUE(client_->Fsync(inode_).ok()) << "told once";
  // What was read since then may be changed and written again.
  ASSERT_EQ(client_->Read(inode_, 0, 4, {.page_cache = true}), "ackn");
  while (!client_->TryWrite(inode_, 0, "A", kPage).ok()) std::this_thread::yield();
  EXPECT_EQ(other_->Read(inode_, 0, 100), "Acknowledgedas");
  client_->data().Close(inode_);
}

TEST_F(EvictionTest, APageThatWaitsForTheLeaseIsLostWithTheSession) {
  client_->Write(inode_, 0, "what there was");
  ASSERT_TRUE(client_->Fsync(inode_).ok());
  const std::uint64_t session = client_->session().session_id();
  cluster_.mdc().SetDown(true);
  clock_.Advance(kLeaseMs);
  const TestInterrupt asked;
  IoContext io = kPage;
  io.interrupt = &asked;
  std::thread write([&] {
    EXPECT_EQ(ErrnoOf(client_->TryWrite(inode_, 0, "mapped, then old", io).status()), EIO);
  });
  asked.AwaitAsked();
  cluster_.mdc().Evict(session);
  cluster_.mdc().SetDown(false);
  write.join();
  EXPECT_EQ(other_->Read(inode_, 0, 100), "what there was");
  EXPECT_EQ(ErrnoOf(client_->Fsync(inode_)), EIO);
}

// ---- changes of shape ---------------------------------------------------------------------------

TEST_F(EvictionTest, ATruncationIsNotDoneUnderTheNextSession) {
  client_->Write(inode_, 0, std::string(10'000, 'x'));
  ASSERT_TRUE(client_->Fsync(inode_).ok());
  const std::uint64_t session = client_->session().session_id();
  cluster_.mdc().SetDown(true);
  const TestInterrupt asked;
  std::thread truncate([&] {
    v1::SetAttr set;
    set.set_inode(inode_);
    set.set_fields(v1::SetAttr::SIZE);
    EXPECT_EQ(ErrnoOf(client_->data().SetAttr(set, {.interrupt = &asked}).status()), EIO);
  });
  asked.AwaitAsked();
  cluster_.mdc().Evict(session);
  cluster_.mdc().SetDown(false);
  truncate.join();
  EXPECT_EQ(other_->Read(inode_, 0, 20'000), std::string(10'000, 'x'));
  EXPECT_TRUE(client_->Truncate(inode_, 5).ok());
  EXPECT_EQ(other_->Read(inode_, 0, 20'000), "xxxxx");
}

TEST_F(EvictionTest, NoLayoutIsGivenOutAfterTheLease) {
  client_->Write(inode_, 3 * 4096, "x");
  const auto seek = [&](const Interrupt* interrupt) {
    return client_->data().Seek(inode_, 0, true, {.interrupt = interrupt});
  };
  ASSERT_EQ(seek(nullptr).value_or(0), 3u * 4096);
  cluster_.mdc().SetSilent(true);
  clock_.Advance(kLeaseMs);
  const TestInterrupt hurry(/*raised=*/true);
  EXPECT_EQ(ErrnoOf(seek(&hurry).status()), EINTR);
  cluster_.mdc().SetSilent(false);
  cluster_.mdc().DropStreams();
  EXPECT_EQ(seek(nullptr).value_or(0), 3u * 4096);
}

// ---- what is told -------------------------------------------------------------------------------

// However late the file is opened again; but of so many files at most.
TEST_F(EvictionTest, AnUnreportedLossIsRemembered) {
  constexpr std::size_t kFiles = 6;
  std::vector<std::uint64_t> inodes;
  for (std::size_t i = 0; i < kFiles; ++i) inodes.push_back(cluster_.mdc().CreateFile());
  const auto pass = [&](int seconds) {
    for (int i = 0; i < seconds; ++i) {
      clock_.Advance(1'000);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));  // tidy: sleep: no event tells
    }
  };
  for (const std::uint64_t inode : inodes) {
    ASSERT_TRUE(client_->data().Open(inode, true, {}).ok());
    client_->Write(inode, 0, "in memory");
    client_->data().Close(inode);
  }
  Evict();
  pass(6);
  std::size_t reported = 0;
  for (const std::uint64_t inode : inodes) {
    ASSERT_TRUE(client_->data().Open(inode, true, {}).ok());
    reported += ErrnoOf(client_->Fsync(inode)) == EIO ? 1 : 0;
    EXPECT_TRUE(client_->Fsync(inode).ok());
    client_->data().Close(inode);
  }
  EXPECT_EQ(reported, kMaxUnreported);
}

}  // namespace
}  // namespace reel::client
