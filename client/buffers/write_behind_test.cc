#include "client/buffers/write_behind.h"

#include <gtest/gtest.h>
#include <linux/falloc.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <thread>

#include "client/testing/test_interrupt.h"
#include "client/testing/write_behind_fixture.h"

namespace reel::client {
namespace {

TEST_F(WriteBehindTest, ASmallWriteIsInMemoryUntilItIsSynced) {
  const auto client = Mount();
  client->Write(inode_, 0, "hello");
  client->Write(inode_, 10'000, "world");
  EXPECT_EQ(Writes(), 0u);
  EXPECT_EQ(client->Read(inode_, 0, 5), "hello");
  EXPECT_EQ(client->Read(inode_, 10'000, 100), "world");
  EXPECT_EQ(Writes(), 0u);
  ASSERT_TRUE(client->Fsync(inode_).ok());
  EXPECT_EQ(cluster().mdc().AttrOf(inode_).size_bytes(), 10'005u);
  const std::uint64_t synced = Writes();
  EXPECT_GT(synced, 0u);
  EXPECT_EQ(client->Read(inode_, 0, 20'000), "hello" + std::string(9'995, '\0') + "world");
  ASSERT_TRUE(client->Fsync(inode_).ok());
  EXPECT_EQ(Writes(), synced);
}

TEST_F(WriteBehindTest, NeighboursGoToTheLunsTogether) {
  shape_.block_bytes = 65'536;
  shape_.mdc.run_blocks = 1'000;
  const auto client = Mount();
  for (std::uint64_t i = 0; i < 100; ++i) {
    client->Write(inode_, i * 4'000, std::string(4'000, static_cast<char>('a' + i % 26)));
  }
  ASSERT_TRUE(client->Fsync(inode_).ok());
  EXPECT_LE(Writes(), 7u);  // a piece for each stripe unit of 64 KiB
  EXPECT_EQ(client->Read(inode_, 99 * 4'000, 5'000), std::string(4'000, 'a' + 99 % 26));
}

TEST_F(WriteBehindTest, AFullBufferIsFlushed) {
  shape_.data.write_behind_buffer_bytes = 65'536;
  const auto client = Mount();
  for (std::uint64_t i = 0; i < 20; ++i) client->Write(inode_, i * 4'096, std::string(4'096, 'x'));
  while (Writes() == 0) std::this_thread::yield();
}

TEST_F(WriteBehindTest, AnotherClientSeesASmallWriteAtOnce) {
  const auto one = Mount();
  const auto two = Mount();
  for (int i = 0; i < 20; ++i) {
    const std::string bytes = "round " + std::to_string(i);
    (i % 2 == 0 ? one : two)->Write(inode_, static_cast<std::uint64_t>(i) * 700, bytes);
    EXPECT_EQ((i % 2 == 0 ? two : one)->Read(inode_, static_cast<std::uint64_t>(i) * 700, 100),
              bytes);
  }
}

TEST_F(WriteBehindTest, AgeAndClosingFlush) {
  shape_.data = {.commit_age_ms = 1, .write_behind_age_ms = 1};
  const auto client = Mount();
  ASSERT_TRUE(client->data().Open(inode_, true, {}).ok());
  client->Write(inode_, 0, "old");
  while (cluster().mdc().AttrOf(inode_).size_bytes() != 3) std::this_thread::yield();
  client->Write(inode_, 3, "er");
  client->data().Close(inode_);
  while (cluster().mdc().HasWriter(inode_)) std::this_thread::yield();
  EXPECT_EQ(cluster().mdc().AttrOf(inode_).size_bytes(), 5u);
}

// sync(1) tells the client nothing: little is lost with the host where programs have paused.
TEST_F(WriteBehindTest, AnIdleFileIsCommittedSoon) {
  ManualClock clock;
  shape_.clock = &clock;
  shape_.data = {.commit_age_ms = 1'000, .write_behind_age_ms = kNeverMs};
  const auto client = Mount();
  const std::uint64_t busy = cluster().mdc().CreateFile();
  for (const std::uint64_t inode : {busy, inode_}) {
    ASSERT_TRUE(client->data().Open(inode, true, {}).ok());
    client->Write(inode, 0, "text");
  }
  clock.Advance(60);
  client->Write(busy, 4, " and more");
  clock.Advance(60);
  while (cluster().mdc().AttrOf(inode_).size_bytes() != 4) std::this_thread::yield();
  EXPECT_EQ(cluster().mdc().AttrOf(busy).size_bytes(), 0u);
  clock.Advance(60);
  while (cluster().mdc().AttrOf(busy).size_bytes() != 13) std::this_thread::yield();
}

// Of a directory, which names none of them.
TEST_F(WriteBehindTest, ASyncOfAllLeavesNothingToBeLost) {
  const auto client = Mount();
  const std::uint64_t large = cluster().mdc().CreateFile();
  ASSERT_TRUE(client->data().Open(large, true, {}).ok());
  client->Write(large, 0, std::string(8'192, 'o'));
  ASSERT_TRUE(client->Fsync(large).ok());
  client->Write(large, 4'096, std::string(4'096, 'n'), {.direct = true});
  client->Write(inode_, 0, "small");
  client->Write(large, 4'000, "over");
  ASSERT_TRUE(client->data().SyncWritten({}).ok());
  for (std::size_t i = 0; i < 3; ++i) cluster().lun(i).Crash(1, FaultyLun::kLoseAll);
  Evict(*client);
  EXPECT_EQ(cluster().mdc().AttrOf(inode_).size_bytes(), 5u);
  EXPECT_EQ(Mount()->Read(large, 4'000, 200),
            "over" + std::string(92, 'o') + std::string(104, 'n'));
  EXPECT_EQ(Mount()->Read(inode_, 0, 10), "small");
}

TEST_F(WriteBehindTest, ASyncOfAllReportsTheLossesThatHappenDuringIt) {
  const auto client = Mount();
  ASSERT_TRUE(client->data().Open(inode_, true, {.handle = 1}).ok());
  client->Write(inode_, 0, "lost", {.handle = 1});
  for (std::size_t i = 0; i < 3; ++i) cluster().lun(i).SetUnplugged(true);
  EXPECT_EQ(ErrnoOf(client->data().SyncWritten({})), EIO);
  for (std::size_t i = 0; i < 3; ++i) cluster().lun(i).SetUnplugged(false);
  EXPECT_TRUE(client->data().SyncWritten({}).ok());
  EXPECT_EQ(FsyncOf(*client, 1), EIO);
}

TEST_F(WriteBehindTest, LargeWritesAndSmallOnesKeepTheirOrder) {
  const auto client = Mount();
  const std::string large(600'000, 'L');
  client->Write(inode_, 4'000, "under");
  client->Write(inode_, 0, large);
  EXPECT_EQ(client->Read(inode_, 0, 700'000), large);
  client->Write(inode_, 4'000, "over");
  std::string expected = large;
  expected.replace(4'000, 4, "over");
  EXPECT_EQ(client->Read(inode_, 0, 700'000), expected);
  ASSERT_TRUE(client->Fsync(inode_).ok());
  EXPECT_EQ(Mount()->Read(inode_, 0, 700'000), expected);
}

TEST_F(WriteBehindTest, AStreamIsWrittenBehindWhereTheLunsAreSlow) {
  constexpr std::uint64_t kFrame = 530'000, kFrames = 20;
  shape_.block_bytes = 65'536;
  shape_.rows = 200;
  shape_.mdc.run_blocks = 100'000;
  const auto frame = [](std::uint64_t i) {
    return std::string(kFrame, static_cast<char>('a' + i));
  };
  for (const bool slow : {false, true}) {
    shape_.data.behind_ms_per_mib = slow ? 0 : 1e9;
    cluster_ = nullptr;
    const auto client = Mount();
    for (std::uint64_t i = 0; i < kFrames; ++i) client->Write(inode_, i * kFrame, frame(i));
    ASSERT_TRUE(client->Fsync(inode_).ok());
    const std::uint64_t before = Writes();
    client->Write(inode_, kFrames * kFrame, frame(kFrames));  // ends within a buffer
    EXPECT_EQ(Writes() == before, slow);
    EXPECT_EQ(client->Read(inode_, kFrames * kFrame, kFrame), frame(kFrames));
    ASSERT_TRUE(client->Fsync(inode_).ok());
    EXPECT_GT(Writes(), before);
    const auto other = Mount();
    for (std::uint64_t i = 0; i <= kFrames; ++i) {
      ASSERT_EQ(other->Read(inode_, i * kFrame, kFrame), frame(i)) << i;
    }
  }
}

TEST_F(WriteBehindTest, ADirectReadSeesTheFlushedBytes) {
  const auto client = Mount();
  client->Write(inode_, 0, std::string(100, 'd'), {.direct = true});
  const std::uint64_t direct = Writes();
  EXPECT_GT(direct, 0u);
  client->Write(inode_, 0, std::string(100, 's'), {.sync = true});
  EXPECT_GT(Writes(), direct);
  EXPECT_EQ(cluster().mdc().AttrOf(inode_).size_bytes(), 100u);
}

TEST_F(WriteBehindTest, SizeAndHolesIncludeBytesInMemory) {
  const auto client = Mount();
  client->Write(inode_, 0, std::string(50'000, 'x'));
  EXPECT_EQ(*client->data().Seek(inode_, 0, true, {}), 0u);
  client->Write(inode_, 0, std::string(20'000, 'y'));
  ASSERT_TRUE(client->data()
                  .Allocate(inode_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 1'000, 10'000, {})
                  .ok());
  client->Write(inode_, 40'000, std::string(20'000, 'z'));
  ASSERT_TRUE(client->Truncate(inode_, 45'000).ok());
  ASSERT_TRUE(client->Truncate(inode_, 60'000).ok());
  std::string expected(50'000, 'x');
  expected.replace(0, 20'000, 20'000, 'y');
  expected.replace(1'000, 10'000, 10'000, '\0');
  expected.replace(40'000, 10'000, 10'000, 'z');
  expected.resize(45'000);
  expected.resize(60'000);
  EXPECT_EQ(client->Read(inode_, 0, 70'000), expected);
}

// The size that a write in memory brings may be durable before its bytes are.
TEST_F(WriteBehindTest, OldBytesNeverShowWhereBytesWereLost) {
  const auto writer = Mount();
  ASSERT_TRUE(writer->data().Open(inode_, true, {}).ok());
  writer->Write(inode_, 0, std::string(4'096, 'o'));
  ASSERT_TRUE(writer->Truncate(inode_, 100).ok());
  writer->Write(inode_, 100, "first");  // to the LUNs, and zeros behind it
  const std::uint64_t cleared = Writes();
  writer->Write(inode_, 105, "second");
  writer->Write(inode_, 300, "third");
  EXPECT_EQ(Writes(), cleared);
  // Told by the commit of another change.
  writer->Write(inode_, 8'192, std::string(600'000, 'L'));
  for (std::size_t i = 0; i < 3; ++i) cluster().lun(i).FailRequest(1, LunRequest::Kind::kWrite);
  EXPECT_EQ(FsyncOf(*writer, 1), EIO);
  for (std::size_t i = 0; i < 3; ++i) cluster().lun(i).ClearFaults();
  ASSERT_EQ(FsyncOf(*writer, 1), 0);
  const std::string shown = Mount()->Read(inode_, 0, 4'096);
  EXPECT_EQ(shown.find('o', 100), std::string::npos);
  EXPECT_EQ(shown.size(), 4'096u);
}

// ---- files that are not known to be durable -----------------------------------------------------

class ReplayedFileTest : public WriteBehindTest {
 protected:
  // A new file that the session was told of under number 7.
  std::unique_ptr<TestClient> MountReported() {
    auto client = Mount();
    v1::EntryReply entry;
    *entry.mutable_attr() = cluster().mdc().AttrOf(inode_);
    client->data().Created(entry, 1, 7);
    return client;
  }
  void MadeAgain(TestClient& client, int error) {
    v1::Request create;
    create.mutable_create()->set_open(true);
    v1::Reply reply;
    reply.set_error(error);
    reply.mutable_entry()->mutable_attr()->set_inode(inode_);
    client.data().OnReplayed(create, reply);
  }
};

TEST_F(ReplayedFileTest, AReplayedFileKeepsItsBlocks) {
  const auto client = MountReported();
  client->Write(inode_, 0, "hello");
  ASSERT_TRUE(client->Fsync(inode_).ok());
  client->Write(inode_, 5, " world");
  MadeAgain(*client, 0);
  ASSERT_TRUE(client->Fsync(inode_).ok());
  EXPECT_EQ(Mount()->Read(inode_, 0, 20), "hello world");
}

TEST_F(ReplayedFileTest, AFailedReplayIsReportedToOpenFiles) {
  const auto client = MountReported();
  client->Write(inode_, 0, "hello");
  MadeAgain(*client, EIO);
  EXPECT_EQ(FsyncOf(*client, 1), EIO);
  EXPECT_EQ(FsyncOf(*client, 1), 0);
}

TEST_F(ReplayedFileTest, ALostFileIsReportedToOpenFiles) {
  const auto client = MountReported();
  client->data().OnEarlyLost(8);
  EXPECT_EQ(FsyncOf(*client, 1), 0);
  client->data().OnEarlyLost(7);
  EXPECT_EQ(FsyncOf(*client, 1), EIO);
}

TEST_F(WriteBehindTest, ALossIsReportedToEachOpenFileOnce) {
  const auto client = Mount();
  ASSERT_TRUE(client->data().Open(inode_, true, {.handle = 1}).ok());
  ASSERT_TRUE(client->data().Open(inode_, true, {.handle = 2}).ok());
  client->Write(inode_, 0, "lost", {.handle = 1});
  for (std::size_t i = 0; i < 3; ++i) cluster().lun(i).SetUnplugged(true);
  EXPECT_EQ(FsyncOf(*client, 1), EIO);
  for (std::size_t i = 0; i < 3; ++i) cluster().lun(i).SetUnplugged(false);
  EXPECT_EQ(FsyncOf(*client, 1), 0);
  ASSERT_TRUE(client->data().Open(inode_, true, {.handle = 3}).ok());
  EXPECT_EQ(FsyncOf(*client, 3), 0);
  EXPECT_EQ(FsyncOf(*client, 2), EIO);
  EXPECT_EQ(FsyncOf(*client, 2), 0);
  EXPECT_EQ(client->Read(inode_, 0, 10), std::string(4, '\0'));
}

// A process that begins another program closes its copies of open files, and reads no answer.
TEST_F(WriteBehindTest, FsyncReportsTheErrorThatCloseReturned) {
  for (const bool flush_on_close : {false, true}) {
    shape_.data.flush_on_close = flush_on_close;
    const auto client = Mount();
    const std::uint64_t handle = flush_on_close ? 2 : 1;
    ASSERT_TRUE(client->data().Open(inode_, true, {.handle = handle}).ok());
    client->Write(inode_, 0, "lost", {.handle = handle});
    client->data().OnEvicted();
    EXPECT_EQ(ErrnoOf(client->data().Flush(inode_, {.handle = handle})), EIO);
    EXPECT_EQ(FsyncOf(*client, handle), EIO) << "flush_on_close: " << flush_on_close;
    EXPECT_EQ(FsyncOf(*client, handle), 0);
    EXPECT_EQ(ErrnoOf(client->data().Flush(inode_, {.handle = handle})), 0);
  }
}

TEST_F(WriteBehindTest, DirtyBytesOfALostSessionAreNeverWritten) {
  const auto client = Mount();
  const auto other = Mount();
  ASSERT_TRUE(client->data().Open(inode_, true, {}).ok());
  client->Write(inode_, 0, "kept");
  ASSERT_TRUE(client->Fsync(inode_).ok());
  client->Write(inode_, 0, "lost");
  const std::uint64_t synced = Writes();
  Evict(*client);
  EXPECT_EQ(other->Read(inode_, 0, 10), "kept");
  EXPECT_EQ(ErrnoOf(client->Fsync(inode_)), EIO);
  EXPECT_TRUE(client->Fsync(inode_).ok());
  EXPECT_EQ(client->Read(inode_, 0, 10), "kept");
  EXPECT_EQ(Writes(), synced);
}

TEST_F(WriteBehindTest, WritersGoOnWithLittleMemory) {
  shape_.data.max_write_behind_bytes = 32 * kKiB;
  shape_.data.write_behind_buffer_bytes = 16 * kKiB;
  const auto client = Mount();
  std::string expected;
  for (std::uint64_t i = 0; i < 150; ++i) {
    const std::string bytes(3'000, static_cast<char>('a' + i % 26));
    client->Write(inode_, expected.size(), bytes);
    expected += bytes;
  }
  EXPECT_EQ(client->Read(inode_, 0, 500'000), expected);
}

TEST_F(WriteBehindTest, ARemountChangesHowMuchMayBeInMemory) {
  const auto client = Mount();
  client->Write(inode_, 0, "behind");
  EXPECT_EQ(Writes(), 0u);
  client->data().Change({.max_write_behind_bytes = 0});
  client->Write(inode_, 20'000, "at once");
  const std::uint64_t at_once = Writes();
  EXPECT_GT(at_once, 0u);
  client->data().Change({.max_write_behind_bytes = 64 * kKiB});
  client->Write(inode_, 40'000, "behind again");
  EXPECT_EQ(Writes(), at_once);
  EXPECT_EQ(client->Read(inode_, 0, 6) + client->Read(inode_, 20'000, 7), "behindat once");
}

// Who found no room, and waits, does not wait for ever.
TEST(MemoryBudgetTest, ALimitOfNoneWakesTheWaiters) {
  MemoryBudget budget(4'096);
  budget.Take(4'096);
  EXPECT_FALSE(budget.has_room());
  budget.SetLimit(0);
  EXPECT_TRUE(budget.has_room());
}

TEST_F(WriteBehindTest, SeveralWritersOfOneFileKeepEveryByte) {
  shape_.data.max_write_behind_bytes = 128 * kKiB;
  shape_.data.write_behind_buffer_bytes = 8 * kKiB;
  const auto client = Mount();
  constexpr std::uint64_t kRecord = 777;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint64_t i = t; i < 400; i += 4) {
        client->Write(inode_, i * kRecord, std::string(kRecord, static_cast<char>('a' + t)));
        if (i % 50 != t) continue;
        EXPECT_TRUE(client->Fsync(inode_).ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string all = client->Read(inode_, 0, 400 * kRecord);
  for (std::uint64_t i = 0; i < 400; ++i) {
    ASSERT_EQ(all.substr(i * kRecord, kRecord),
              std::string(kRecord, static_cast<char>('a' + i % 4)));
  }
}

TEST_F(WriteBehindTest, FlushOnCloseMakesItDurable) {
  shape_.data.flush_on_close = true;
  const auto client = Mount();
  client->Write(inode_, 0, "durable");
  ASSERT_TRUE(client->data().Flush(inode_, {}).ok());
  EXPECT_EQ(cluster().mdc().AttrOf(inode_).size_bytes(), 7u);
}

TEST_F(WriteBehindTest, AnUnmountFlushes) {
  Mount()->Write(inode_, 0, "last words");
  EXPECT_EQ(Mount()->Read(inode_, 0, 100), "last words");
}

// What a full volume has no blocks for is refused at once, not when it is flushed.
TEST_F(WriteBehindTest, AFullVolumeRefusesTheWriteItself) {
  shape_.mdc.max_blocks = 8;
  shape_.mdc.preallocated_blocks = 0;
  const auto client = Mount();
  std::uint64_t written = 0;
  absl::StatusOr<ByteRange> outcome = ByteRange{};
  for (; outcome.ok() && written < 100; written += outcome.ok() ? 1 : 0) {
    outcome = client->TryWrite(inode_, written * 4'096, std::string(4'096, 'x'));
  }
  EXPECT_EQ(ErrnoOf(outcome.status()), ENOSPC);
  EXPECT_EQ(written, 8u);
  EXPECT_TRUE(client->Fsync(inode_).ok());
  EXPECT_EQ(client->Read(inode_, 0, 100'000), std::string(8 * 4'096, 'x'));
}

// A buffer's flush needs all blocks from its first dirty one to its last; writers past the memory
// share those in between with each other, and there may always be one.
TEST_F(WriteBehindTest, WritersPastTheMemoryWaitForAFlushThatWaits) {
  const auto client = Mount();
  client->Write(inode_, 0, std::string(std::size_t{8} * 4096, 'o'), {.direct = true});
  client->Write(inode_, 10, "first");
  client->Write(inode_, 5 * 4096 + 10, "last");
  const std::uint64_t other = cluster().mdc().CreateFile();
  client->Write(other, 0, std::string(std::size_t{24} * 4096, 'x'), {.direct = true});
  for (std::size_t i = 0; i < 3; ++i) cluster().lun(i).SetPathLost(true);
  TestInterrupt none, one, flush, two;
  std::thread finder([&] {  // a flush finds that the paths are lost
    EXPECT_TRUE(client->data().Fsync(other, {.interrupt = &none}).ok());
  });
  while (client->data().LookAtRecalls().trouble.empty()) std::this_thread::yield();
  const IoContext direct{.interrupt = &one, .direct = true};
  std::thread first([&] {  // is let in, and waits for a LUN
    client->Write(inode_, 4096, std::string(std::size_t{4} * 4096, '1'), direct);
  });
  one.AwaitAsked();
  std::thread syncer(
      [&] { EXPECT_TRUE(client->data().Fsync(inode_, {.interrupt = &flush}).ok()); });
  flush.AwaitAsked();
  std::thread second([&] {
    const absl::Status status =
        client
            ->TryWrite(inode_, 4096, std::string(std::size_t{4} * 4096, '2'),
                       {.interrupt = &two, .direct = true})
            .status();
    EXPECT_EQ(ErrnoOf(status), EINTR);
    EXPECT_NE(status.message().find("token"), std::string::npos) << status << ": it was let in";
  });
  two.AwaitAsked();
  two.AwaitAsked();
  two.Raise();
  second.join();
  for (std::size_t i = 0; i < 3; ++i) cluster().lun(i).SetPathLost(false);
  finder.join();
  first.join();
  syncer.join();
  EXPECT_EQ(client->Read(inode_, 4 * 4096, 8192),
            std::string(4096, '1') + std::string(10, 'o') + "last" + std::string(4082, 'o'));
}

}  // namespace
}  // namespace reel::client
