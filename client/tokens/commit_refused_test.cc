// What becomes of a file whose commit the controller refuses, or whose delayed attributes: that is
// lost, and nothing else.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "client/testing/write_behind_fixture.h"

namespace reel::client {
namespace {

class CommitRefusedTest : public CommitByAgeTest {
 protected:
  void HoldWrites(bool hold) {
    for (std::size_t i = 0; i < 3; ++i) cluster().lun(i).HoldWrites(hold);
  }
  // A client with the file's first block on its LUN, another one in memory, and the commit of the
  // first refused.
  std::unique_ptr<TestClient> MountRefused(int error) {
    auto client = MountUncommitted();
    HoldWrites(true);
    client->Write(inode_, 2 * kBlock, "kept", {.handle = 1});
    cluster().mdc().Refuse(v1::Request::kLayoutCommit, error);
    clock_.Advance(kCommitAgeMs);
    while (client->data().Flush(inode_, {.handle = 1}).ok()) std::this_thread::yield();
    HoldWrites(false);
    EXPECT_EQ(FsyncOf(*client, 1), error);
    return client;
  }
};

TEST_F(CommitRefusedTest, OnlyTheRefusedRangeIsLost) {
  const auto client = MountRefused(ENOSPC);
  EXPECT_EQ(FsyncOf(*client, 1), 0);
  const std::string zeros(2 * kBlock, '\0');
  EXPECT_TRUE(client->Read(inode_, 0, 3 * kBlock) == zeros + "kept");
  EXPECT_TRUE(Mount()->Read(inode_, 0, 3 * kBlock) == zeros + "kept");
}

// The controller gives the file to others from then on. The kernel writes a dirty page back before
// it drops it: whole, also with what they have changed meanwhile.
TEST_F(CommitRefusedTest, PagesOfALostTokenAreNotWrittenBack) {
  const auto client = Mount();
  std::once_flag once;  // the other host's recall drops it, too, and waits for the page meanwhile
  std::atomic<bool> dropped{false};
  client->on_invalidate = [&](std::uint64_t) {
    std::call_once(once, [&] {
      const IoContext page{.page_cache = true, .write_back = true};
      EXPECT_EQ(ErrnoOf(client->TryWrite(inode_, 0, "mapped, then old", page).status()), EIO);
      dropped = true;
    });
  };
  ASSERT_TRUE(client->data().Open(inode_, true, {.handle = 1}).ok());
  client->Write(inode_, 0, std::string(kBlock, 'a'), {.direct = true, .handle = 1});
  ASSERT_EQ(FsyncOf(*client, 1), 0);
  ASSERT_EQ(client->Read(inode_, 0, 1, {.page_cache = true}), "a");
  client->Write(inode_, kBlock, std::string(kBlock, 'a'), {.direct = true, .handle = 1});
  cluster().mdc().Refuse(v1::Request::kLayoutCommit, ESTALE);
  EXPECT_NE(FsyncOf(*client, 1), 0);
  EXPECT_EQ(Mount()->Read(inode_, 0, 3), "aaa");
  EXPECT_TRUE(dropped);
  client->data().Close(inode_);
}

TEST_F(CommitRefusedTest, NoWriteIsTakenWhoseCommitWouldWaitForLong) {
  const auto client = Mount();
  const IoContext direct{.direct = true, .handle = 1};
  ASSERT_TRUE(client->data().Open(inode_, true, {.handle = 1}).ok());
  client->Write(inode_, 0, std::string(kBlock, 'a'), direct);
  ASSERT_EQ(FsyncOf(*client, 1), 0);
  const auto controller_says = [&](bool wait) {
    cluster().mdc().SetCommitsWait(wait);
    while (client->session().commits_wait() != wait) clock_.Advance(100);
  };
  const std::string block(kBlock, 'b');
  controller_says(true);
  EXPECT_EQ(ErrnoOf(client->TryWrite(inode_, kBlock, block, direct).status()), ENOSPC)
      << "granted, and never written";
  EXPECT_EQ(ErrnoOf(client->TryWrite(inode_, kBlock, "small", {.handle = 1}).status()), ENOSPC);
  EXPECT_TRUE(client->TryWrite(inode_, 0, block, direct).ok()) << "it needs no commit of blocks";
  EXPECT_EQ(FsyncOf(*client, 1), 0);
  controller_says(false);
  EXPECT_TRUE(client->TryWrite(inode_, kBlock, block, direct).ok());
  EXPECT_EQ(client->Read(inode_, 0, 2 * kBlock), block + block);
}

// What is in memory would be written under the same token.
TEST_F(CommitRefusedTest, NothingIsWrittenUnderATokenThatTheControllerDenies) {
  const auto client = MountRefused(EPERM);
  EXPECT_EQ(FsyncOf(*client, 1), 0);
  EXPECT_EQ(Mount()->Read(inode_, 0, 3 * kBlock), "");
}

class DelayedRefusedTest : public WriteBehindTest {
 protected:
  void Set(TestClient& client) {
    v1::SetAttr set;
    set.set_inode(inode_);
    set.set_fields(v1::SetAttr::MODE | v1::SetAttr::ATIME);
    set.set_mode(0640);
    set.mutable_atime()->set_seconds(1234);
    ASSERT_TRUE(client.data().DelayAttributes(set, cluster().mdc().AttrOf(inode_)));
  }
  v1::Attr Shown(TestClient& client) {
    v1::Attr attr = cluster().mdc().AttrOf(inode_);
    client.data().Overlay(attr);
    return attr;
  }
};

TEST_F(DelayedRefusedTest, RefusedAttributesGiveWayToTheControllers) {
  const auto client = Mount();
  std::vector<std::uint64_t> forgotten;
  client->on_forget = [&](std::uint64_t inode) { forgotten.push_back(inode); };
  client->Write(inode_, 0, "x");
  ASSERT_NO_FATAL_FAILURE(Set(*client));
  EXPECT_EQ(Shown(*client).mode(), 0100640u);
  cluster().mdc().Refuse(v1::Request::kSetAttr, EACCES);
  EXPECT_EQ(FsyncOf(*client, 1), EACCES);
  EXPECT_EQ(Shown(*client).mode(), 0100644u);
  EXPECT_EQ(Shown(*client).atime().seconds(), 0);
  EXPECT_EQ(forgotten, std::vector{inode_}) << "the kernel takes the others for valid";
}

TEST_F(DelayedRefusedTest, RefusedAttributesLoseNoWrittenBytes) {
  const auto client = Mount();
  client->Write(inode_, 0, "x");
  ASSERT_NO_FATAL_FAILURE(Set(*client));
  cluster().mdc().Refuse(v1::Request::kSetAttr, EACCES);
  cluster().mdc().HoldReplies(v1::Request::kSetAttr);
  std::thread fsync([&] { EXPECT_EQ(FsyncOf(*client, 1), EACCES); });
  while (cluster().mdc().CountOf(v1::Request::kSetAttr) == 0) std::this_thread::yield();
  client->Write(inode_, 1, "y");
  cluster().mdc().ReleaseReplies();
  fsync.join();
  EXPECT_EQ(FsyncOf(*client, 2), 0);
  EXPECT_EQ(Mount()->Read(inode_, 0, 10), "xy");
}

}  // namespace
}  // namespace reel::client
