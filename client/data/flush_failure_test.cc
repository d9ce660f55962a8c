// What becomes of writes beside a flush of the LUNs that fails: all that the LUN had answered is
// lost with it, and nothing else.
#include <gtest/gtest.h>
#include <linux/falloc.h>

#include <atomic>
#include <string>
#include <thread>

#include "client/testing/write_behind_fixture.h"

namespace reel::client {
namespace {

class FlushFailureTest : public CommitByAgeTest {
 protected:
  FaultyLun& lun() { return cluster().lun(0); }  // of the first block
  void AwaitHeld() {
    while (lun().held() == 0) std::this_thread::yield();
  }
  // Which the committer begins by itself.
  void BeginCommitThatFails() {
    lun().FailFlush(1);
    clock_.Advance(kCommitAgeMs);
  }
  // All LUNs, for a file that has blocks on each.
  void FlushAnother(TestClient& client) {
    if (another_ == 0) another_ = cluster().mdc().CreateFile();
    EXPECT_TRUE(client.data().Open(another_, true, {.handle = 2}).ok());
    client.Write(another_, 0, std::string(24 * kBlock, 'x'), {.direct = true, .handle = 2});
    (void)client.data().Fsync(another_, {.handle = 2});
  }
  void FailFlushOfAnother(TestClient& client) {
    lun().FailFlush(1);
    FlushAnother(client);
  }
  // Its loss is shown to whoever closes the file, and told by a Fsync.
  void AwaitLoss(TestClient& client) {
    while (client.data().Flush(inode_, {.handle = 1}).ok()) std::this_thread::yield();
  }
  // The first block as another client reads it: zeros, but for `bytes` at `at`.
  void ExpectOnly(std::size_t at, const std::string& bytes) {
    std::string block = Mount()->Read(inode_, 0, kBlock);
    ASSERT_EQ(block.size(), kBlock);
    EXPECT_EQ(block.substr(at, bytes.size()), bytes);
    block.erase(at, bytes.size());
    EXPECT_EQ(block.find_first_not_of('\0'), std::string::npos);
  }
  std::uint64_t another_ = 0;
};

TEST_F(FlushFailureTest, AFailedFlushKeepsBytesInMemory) {
  const auto client = MountUncommitted();
  client->Write(inode_, 10, "kept", {.handle = 1});
  BeginCommitThatFails();
  AwaitLoss(*client);
  EXPECT_EQ(FsyncOf(*client, 1), EIO);
  EXPECT_EQ(FsyncOf(*client, 1), 0);
  ExpectOnly(10, "kept");
}

TEST_F(FlushFailureTest, AFailedFlushKeepsBytesOnTheirWayFromMemory) {
  const auto client = MountUncommitted();
  client->Write(inode_, 10, "kept", {.handle = 1});
  lun().HoldWrites(true);
  std::thread flush([&] { (void)FsyncOf(*client, 1); });
  AwaitHeld();
  BeginCommitThatFails();
  AwaitLoss(*client);
  lun().HoldWrites(false);
  flush.join();
  EXPECT_EQ(FsyncOf(*client, 1), 0);
  ExpectOnly(10, "kept");
}

TEST_F(FlushFailureTest, AFailedFlushKeepsALargeWriteOnItsWay) {
  const auto client = MountUncommitted();
  lun().HoldWrites(true);
  std::thread write(
      [&] { client->Write(inode_, 512, std::string(512, 'k'), {.direct = true, .handle = 1}); });
  AwaitHeld();
  BeginCommitThatFails();
  AwaitLoss(*client);
  lun().HoldWrites(false);
  write.join();
  EXPECT_EQ(FsyncOf(*client, 1), EIO);
  EXPECT_EQ(FsyncOf(*client, 1), 0);
  ExpectOnly(512, std::string(512, 'k'));
}

// The LUN may have forgotten it along with what the flush was for: no later flush stands for it.
TEST_F(FlushFailureTest, AWriteAnsweredDuringAFailedFlushIsLostWithIt) {
  const auto client = MountUncommitted();
  lun().HoldFlushes(true);
  BeginCommitThatFails();
  AwaitHeld();
  client->Write(inode_, 0, std::string(kBlock, 'k'), {.direct = true, .handle = 1});
  lun().HoldFlushes(false);
  AwaitLoss(*client);
  EXPECT_EQ(FsyncOf(*client, 1), EIO);
  EXPECT_EQ(FsyncOf(*client, 1), 0) << "told once";
  ExpectOnly(0, "");
  client->Write(inode_, 0, std::string(kBlock, 'n'), {.direct = true, .handle = 1});
  EXPECT_EQ(FsyncOf(*client, 1), 0);
  ExpectOnly(0, std::string(kBlock, 'n'));
}

// Attributes that are told along may take as long as a controller is away.
TEST_F(FlushFailureTest, APartWrittenWhileAttributesAreStillToldIsKept) {
  const auto client = MountUncommitted();
  v1::SetAttr mode;
  mode.set_inode(inode_);
  mode.set_fields(v1::SetAttr::MODE);
  mode.set_mode(0600);
  ASSERT_TRUE(client->data().DelayAttributes(mode, cluster().mdc().AttrOf(inode_)));
  cluster().mdc().HoldReplies(v1::Request::kSetAttr);
  BeginCommitThatFails();
  while (cluster().mdc().CountOf(v1::Request::kSetAttr) == 0) std::this_thread::yield();
  client->Write(inode_, 512, std::string(512, 'k'), {.direct = true, .handle = 1});
  EXPECT_EQ(ErrnoOf(client->data().Flush(inode_, {.handle = 1})), EIO) << "by then it is known";
  cluster().mdc().ReleaseReplies();
  EXPECT_EQ(FsyncOf(*client, 1), EIO);
  EXPECT_EQ(FsyncOf(*client, 1), 0) << "told once";
  ExpectOnly(512, std::string(512, 'k'));
}

// As zeros: other hosts find the file as this one leaves it.
TEST_F(FlushFailureTest, AFailedFlushStillCommitsTheSize) {
  const auto client = MountUncommitted();
  BeginCommitThatFails();
  AwaitLoss(*client);
  ExpectOnly(0, "");
}

// Also where it is the recall itself whose flush fails.
TEST_F(FlushFailureTest, TheSizeIsCommittedBeforeTheTokenGoes) {
  const auto client = MountUncommitted();
  lun().FailFlush(1);
  ExpectOnly(0, "");
  EXPECT_EQ(FsyncOf(*client, 1), EIO);
}

// A size is told although the bytes that brought it are lost: none that were cut off before show.
TEST_F(FlushFailureTest, TruncatedBytesStayHiddenAfterAFailedFlush) {
  struct Write {
    std::uint64_t at;
    IoContext io;
  };
  for (const Write& write : {Write{100, {.handle = 1}}, Write{300, {.handle = 1}},
                             Write{512, {.direct = true, .handle = 1}},
                             Write{2 * kBlock, {.direct = true, .handle = 1}}}) {
    const auto client = MountUncommitted();
    ASSERT_EQ(FsyncOf(*client, 1), 0);
    ASSERT_TRUE(client->Truncate(inode_, 100).ok());
    client->Write(inode_, write.at, std::string(512, 'n'), write.io);
    lun().FailFlush(1);
    EXPECT_EQ(FsyncOf(*client, 1), EIO);
    lun().Crash(1, FaultyLun::kLoseAll);
    const std::string left = Mount()->Read(inode_, 0, kBlock);
    EXPECT_EQ(left.substr(0, 100), std::string(100, 'a'));
    EXPECT_EQ(left.find('a', 100), std::string::npos) << "written at " << write.at;
  }
}

// It is told with what comes after the flush, not taken back by that one's answer.
TEST_F(FlushFailureTest, ASizeThatWasSeenSurvivesAFailedFlush) {
  const auto client = MountUncommitted();
  ASSERT_EQ(FsyncOf(*client, 1), 0);
  client->Write(inode_, kBlock, std::string(kBlock, 'n'), {.direct = true, .handle = 1});
  lun().FailFlush(1);
  const int mode = FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE;
  EXPECT_TRUE(client->data().Allocate(inode_, mode, 0, 100, {.handle = 1}).ok());
  EXPECT_EQ(Mount()->Read(inode_, 0, 16 * kBlock).size(), 2 * kBlock);
  EXPECT_EQ(FsyncOf(*client, 1), EIO);
}

// Whoever's flush it was: what is written later lies on the LUN, and is not lost with it.
TEST_F(FlushFailureTest, AWriteAfterAnotherFilesFailedFlushIsKept) {
  const auto client = MountUncommitted();
  FailFlushOfAnother(*client);
  for (const bool direct : {true, false}) {
    const std::uint64_t at = direct ? kBlock : 2 * kBlock;
    client->Write(inode_, at, std::string(kBlock, 'k'), {.direct = direct, .handle = 1});
    EXPECT_EQ(FsyncOf(*client, 1), direct ? EIO : 0);
    EXPECT_EQ(Mount()->Read(inode_, at, kBlock), std::string(kBlock, 'k'));
  }
  ExpectOnly(0, "");
}

// The block may hold another file's old bytes from then on.
TEST_F(FlushFailureTest, BytesLostByAnotherFilesFlushAreNotRead) {
  const auto client = MountUncommitted();
  FailFlushOfAnother(*client);
  lun().Crash(1, FaultyLun::kLoseAll);
  EXPECT_EQ(client->Read(inode_, 0, kBlock), std::string(kBlock, '\0'));
}

// Nor is what an earlier flush stands for.
TEST_F(FlushFailureTest, BytesFlushedBeforeAnotherFilesFailedFlushAreKept) {
  const auto client = MountUncommitted();
  FlushAnother(*client);
  FailFlushOfAnother(*client);
  client->Write(inode_, kBlock, std::string(kBlock, 'k'), {.direct = true, .handle = 1});
  EXPECT_EQ(FsyncOf(*client, 1), 0);
  ExpectOnly(0, std::string(kBlock, 'a'));
}

// The failure was told, and nothing is lost with it but the zeros.
TEST_F(FlushFailureTest, AWriteAfterAFailedPunchIsKept) {
  const auto client = MountUncommitted();
  ASSERT_EQ(FsyncOf(*client, 1), 0);
  lun().FailFlush(1);
  const int mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  EXPECT_EQ(ErrnoOf(client->data().Allocate(inode_, mode, 100, 10, {.handle = 1})), EIO);
  client->Write(inode_, kBlock, std::string(kBlock, 'k'), {.direct = true, .handle = 1});
  EXPECT_EQ(FsyncOf(*client, 1), 0);
  EXPECT_EQ(Mount()->Read(inode_, kBlock, kBlock), std::string(kBlock, 'k'));
}

// The write had reached the LUN, and would be done once more for the flush. Another client has the
// token first, and may have seen it.
TEST_F(FlushFailureTest, AWriteThatLandedIsNotRepeatedUnderALaterToken) {
  const auto client = MountUncommitted();
  std::atomic<bool> recalled = false;
  client->on_recall = [&](std::uint64_t inode) { recalled = recalled || inode == inode_; };
  lun().HoldWrites(true);
  absl::StatusOr<ByteRange> written;
  std::thread write([&] {
    written = client->TryWrite(inode_, 0, std::string(kBlock, 'k'), {.direct = true, .handle = 1});
  });
  AwaitHeld();
  BeginCommitThatFails();
  AwaitLoss(*client);
  const auto other = Mount();
  std::thread overwrite([&] {
    other->Write(inode_, 0, std::string(kBlock, 'n'), {.direct = true});
    EXPECT_TRUE(other->Fsync(inode_).ok());
  });
  while (!recalled) std::this_thread::yield();
  lun().HoldWrites(false);
  write.join();
  overwrite.join();
  EXPECT_EQ(ErrnoOf(written.status()), EIO);
  EXPECT_EQ(Mount()->Read(inode_, 0, kBlock), std::string(kBlock, 'n'));
}

// What it waits for is lost with the session, whenever the path comes back.
TEST_F(FlushFailureTest, AWaitForALostLunEndsWithTheSession) {
  const auto client = MountUncommitted();
  lun().SetPathLost(true);
  std::thread fsync([&] { EXPECT_EQ(FsyncOf(*client, 1), EIO); });
  while (client->data().LookAtRecalls().trouble.empty()) std::this_thread::yield();
  Evict(*client);
  fsync.join();
  lun().SetPathLost(false);
  EXPECT_EQ(FsyncOf(*client, 1), 0) << "told once";
  EXPECT_EQ(Mount()->Read(inode_, 0, kBlock), "") << "its size was lost, too";
}

}  // namespace
}  // namespace reel::client
