#include "client/data/file_data.h"

#include <gtest/gtest.h>
#include <linux/falloc.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <random>
#include <thread>

#include "client/testing/data_cluster.h"
#include "proto/convert.h"

namespace reel::client {
namespace {

TEST(FileDataTest, WritersOfOneFileKeepOutOfEachOthersBytes) {
  DataCluster cluster({.block_bytes = 16384});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  constexpr std::uint64_t kWriters = 6, kPiece = 1'237, kPieces = 120;
  {
    const auto client = cluster.Mount();
    std::vector<std::thread> threads;
    for (std::uint64_t w = 0; w < kWriters; ++w) {
      threads.emplace_back([&, w] {
        // Neighbouring pieces belong to different writers, and share blocks with theirs.
        for (std::uint64_t p = w; p < kPieces; p += kWriters) {
          client->Write(inode, p * kPiece, std::string(kPiece, static_cast<char>('a' + w)));
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  const auto reader = cluster.Mount();
  const std::string all = reader->Read(inode, 0, kPieces * kPiece + 100);
  ASSERT_EQ(all.size(), kPieces * kPiece);
  for (std::uint64_t p = 0; p < kPieces; ++p) {
    ASSERT_EQ(all.substr(p * kPiece, kPiece),
              std::string(kPiece, static_cast<char>('a' + p % kWriters)))
        << "piece " << p;
  }
}

TEST(FileDataTest, WrittenBlocksAreSyncedWithoutTheController) {
  DataCluster cluster({.data = {.commit_age_ms = 1'000'000}});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  const auto commits = [&] { return cluster.mdc().CountOf(v1::Request::kLayoutCommit); };
  client->Write(inode, 0, std::string(10'000, 'a'));
  ASSERT_TRUE(client->data().Fsync(inode, {.data_only = true}).ok());
  EXPECT_EQ(commits(), 1u);  // blocks and size
  client->Write(inode, 100, std::string(5'000, 'b'));
  ASSERT_TRUE(client->data().Fsync(inode, {.data_only = true}).ok());
  EXPECT_EQ(commits(), 1u);
  for (int i = 0; i < 3; ++i) cluster.lun(i).Crash(1);  // loses what was not flushed
  EXPECT_EQ(client->Read(inode, 100, 5'000), std::string(5'000, 'b'));
  ASSERT_TRUE(client->Fsync(inode).ok());
  EXPECT_EQ(commits(), 2u);  // the time
  client->Write(inode, 9'999, "cc");
  ASSERT_TRUE(client->data().Fsync(inode, {.data_only = true}).ok());
  EXPECT_EQ(commits(), 3u);  // the size
}

// Whoever looks at a finished file disturbs nobody.
TEST(FileDataTest, AClosedFileKeepsNoTokenToWrite) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto writer = cluster.Mount();
  const auto become_unwritten = [&] {
    while (cluster.mdc().HasWriter(inode)) std::this_thread::yield();
  };
  ASSERT_TRUE(writer->data().Open(inode, true, {}).ok());
  writer->Write(inode, 0, std::string(10'000, 'x'));
  ASSERT_TRUE(cluster.mdc().HasWriter(inode));
  writer->data().Close(inode);
  become_unwritten();  // with the commit, when that is old enough
  EXPECT_EQ(cluster.mdc().AttrOf(inode).size_bytes(), 10'000u);
  EXPECT_EQ(writer->Read(inode, 9'990, 100), std::string(10, 'x'));

  ASSERT_TRUE(writer->data().Open(inode, true, {}).ok());
  ASSERT_TRUE(writer->Truncate(inode, 1).ok());
  ASSERT_TRUE(cluster.mdc().HasWriter(inode));
  writer->data().Close(inode);
  become_unwritten();  // with the close, as nothing is left to commit
  // Never in a message that may wait for a slot: an open would overtake it, and lose its grant.
  EXPECT_EQ(cluster.mdc().CountOf(v1::Request::kLayoutReturn), 0u);
  const auto reader = cluster.Mount();
  EXPECT_EQ(reader->Read(inode, 0, 2), "x");
  writer->Write(inode, 1, "y");
  EXPECT_EQ(reader->Read(inode, 0, 2), "xy");
}

TEST(FileDataTest, TheCommitOfAClosedFileSurvivesAFailover) {
  DataCluster cluster({.data = {.commit_age_ms = 1}});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  for (std::uint64_t size = 1; size <= 20; ++size) {
    ASSERT_TRUE(client->data().Open(inode, true, {}).ok());
    client->Write(inode, size - 1, "x");
    cluster.mdc().LoseReplies(true);
    client->data().Close(inode);
    for (std::uint64_t i = 0; i < size * 1'000; ++i) std::this_thread::yield();  // any moment
    cluster.mdc().Restart();
    while (cluster.mdc().AttrOf(inode).size_bytes() < size) std::this_thread::yield();
  }
}

TEST(FileDataTest, AppendsOfTwoClientsNeverOverlap) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const std::unique_ptr<TestClient> clients[2] = {cluster.Mount(), cluster.Mount()};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 15; ++i) {
        clients[t % 2]->Write(inode, 0, std::string(700, static_cast<char>('a' + t)),
                              {.append = true});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string all = clients[0]->Read(inode, 0, 100'000);
  ASSERT_EQ(all.size(), 4u * 15 * 700);
  for (std::size_t at = 0; at < all.size(); at += 700) {
    ASSERT_EQ(all.substr(at, 700), std::string(700, all[at])) << "at " << at;
  }
}

TEST(FileDataTest, ARecallWhileIoIsInFlightLosesNothing) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const std::unique_ptr<TestClient> clients[2] = {cluster.Mount(), cluster.Mount()};
  // Each thread owns a region, and must always find there what it wrote last, by either client.
  constexpr std::uint64_t kRegion = 10'000;
  std::vector<std::thread> threads;
  for (std::uint64_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937_64 random(t);
      std::string last(kRegion, '\0');
      for (int i = 0; i < 40; ++i) {
        TestClient& client = *clients[random() % 2];
        if (random() % 2) {
          last.assign(kRegion, static_cast<char>('a' + random() % 26));
          client.Write(inode, t * kRegion, last);
        } else {
          std::string got = client.Read(inode, t * kRegion, kRegion);
          got.resize(kRegion);
          ASSERT_EQ(got, last) << "region " << t << " step " << i;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(FileDataTest, ReadersOfTwoClientsShare) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto one = cluster.Mount();
  const auto two = cluster.Mount();
  // With the tail of a file that nobody has open it would go back in time.
  ASSERT_TRUE(one->data().Open(inode, true, {.handle = 1}).ok());
  one->Write(inode, 0, std::string(50'000, 'x'));
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(one->Read(inode, 0, 50'000).size(), 50'000u);
    EXPECT_EQ(two->Read(inode, 0, 50'000).size(), 50'000u);
  }
  EXPECT_EQ(cluster.mdc().CountOf(v1::Request::kLayoutReturn), 1u);
  EXPECT_LE(cluster.mdc().CountOf(v1::Request::kLayoutGet), 3u);
}

TEST(FileDataTest, ACopyCostsTheControllerLittle) {
  const ManualClock clock;  // a copy that takes seconds gets more ahead
  DataCluster cluster(
      {.rows = 1024, .mdc = {.run_blocks = 100'000, .preallocated_blocks = 2048}, .clock = &clock});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  // However long it takes: of a file that nobody has open the blocks ahead go back.
  ASSERT_TRUE(client->data().Open(inode, true, {}).ok());
  const std::string piece(256 << 10, 'f');
  const std::uint64_t before = cluster.mdc().received_bytes();
  for (std::uint64_t at = 0; at < 24 << 20; at += piece.size()) client->Write(inode, at, piece);
  EXPECT_TRUE(client->Fsync(inode).ok());
  for (std::uint64_t at = 0; at < 24 << 20; at += piece.size()) {
    EXPECT_EQ(client->Read(inode, at, piece.size()), piece);
  }
  EXPECT_LE(cluster.mdc().CountOf(v1::Request::kLayoutGet), 4u);
  EXPECT_LT(cluster.mdc().received_bytes() - before, 8'000u);
}

TEST(FileDataTest, SyncedBytesSurviveALossOfPower) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  client->Write(inode, 100, std::string(30'000, 's'));
  ASSERT_TRUE(client->Fsync(inode).ok());
  for (std::size_t i = 0; i < 3; ++i) cluster.lun(i).Crash(1, FaultyLun::kLoseAll);
  EXPECT_EQ(client->Read(inode, 100, 30'000), std::string(30'000, 's'));
  EXPECT_EQ(cluster.mdc().AttrOf(inode).size_bytes(), 30'100u);
}

TEST(FileDataTest, NothingIsCommittedWithoutAFlush) {
  DataCluster cluster({.data = {.commit_age_ms = 60'000}});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  client->Write(inode, 0, std::string(9'000, 's'));
  for (std::size_t i = 0; i < 3; ++i) cluster.lun(i).FailFlush(1);
  EXPECT_EQ(ErrnoOf(client->Fsync(inode)), EIO);
  for (const Extent& extent : cluster.mdc().ExtentsOf(inode)) {
    EXPECT_EQ(extent.state, ExtentState::kUnwritten);
  }
  EXPECT_TRUE(client->Fsync(inode).ok()) << "an error is reported once";
  EXPECT_EQ(client->Read(inode, 0, 9'000), std::string(9'000, '\0'));
}

TEST(FileDataTest, AnOldWriteIsCommittedWithoutFsync) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  client->Write(inode, 0, "hello");
  while (cluster.mdc().AttrOf(inode).size_bytes() != 5) std::this_thread::yield();
}

TEST(FileDataTest, FilesWithoutBytesOnALostPathAreCommitted) {
  DataCluster cluster({.mdc = {.preallocated_blocks = 0}});
  const std::uint64_t on_lost = cluster.mdc().CreateFile(), other = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  client->Write(on_lost, 0, std::string(8'192, 'x'));
  ASSERT_TRUE(client->Fsync(on_lost).ok());
  cluster.lun(0).SetPathLost(true);
  client->Write(on_lost, 8'192, "hello");  // the third block of the LUN's stripe
  client->Write(other, 0, "hello");
  while (cluster.mdc().AttrOf(other).size_bytes() != 5) std::this_thread::yield();
  EXPECT_EQ(cluster.mdc().AttrOf(on_lost).size_bytes(), 8'192u);
  cluster.lun(0).SetPathLost(false);
  while (cluster.mdc().AttrOf(on_lost).size_bytes() != 8'197) std::this_thread::yield();
}

// It could not use it, and would take it from the other one for each of its writes.
TEST(FileDataTest, AWriteThatWaitsForAPathAsksForNoToken) {
  DataCluster cluster({.data = {.commit_age_ms = 60'000}});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto cut = cluster.Mount(), other = cluster.Mount();
  other->Write(inode, 0, std::string(4'096, 'a'));
  ASSERT_TRUE(other->Fsync(inode).ok());
  EXPECT_EQ(cut->Read(inode, 0, 1), "a");
  cluster.lun(0).FailNext(1, LunFault::kClosed);  // of the next one to ask
  cluster.lun(0).SetPathLost(true);
  std::thread reader([&] { EXPECT_EQ(cut->Read(inode, 0, 1), "b"); });
  while (cluster.lun(0).counters().errors == 0) std::this_thread::yield();
  other->Write(inode, 0, "b");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));  // tidy: sleep: nothing comes
  EXPECT_EQ(cluster.mdc().WaitingFor(inode), 0u);
  cluster.lun(0).SetPathLost(false);
  reader.join();
}

TEST(FileDataTest, AFullVolumeRefusesAWriteWhole) {
  DataCluster cluster({.mdc = {.max_blocks = 10}});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  client->Write(inode, 0, std::string(8 * 4096, 'x'));
  EXPECT_EQ(ErrnoOf(client->TryWrite(inode, 8 * 4096, std::string(3 * 4096, 'y')).status()),
            ENOSPC);
  EXPECT_EQ(client->Read(inode, 0, 100'000), std::string(8 * 4096, 'x'));
  client->Write(inode, 8 * 4096, std::string(2 * 4096, 'z'));
}

// As write(2) has it: what has blocks is written, and the next write is told.
TEST(FileDataTest, AWriteIsShortWhereBlocksEnd) {
  for (const bool append : {false, true}) {
    DataCluster cluster({.mdc = {.preallocated_blocks = 2, .max_blocks = 10}});
    const std::uint64_t inode = cluster.mdc().CreateFile();
    const auto client = cluster.Mount();
    client->Write(inode, 0, std::string(8 * 4096, 'x'));
    const IoContext io{.append = append};
    const auto written = client->TryWrite(inode, 8 * 4096, std::string(3 * 4096, 'y'), io);
    ASSERT_TRUE(written.ok()) << written.status();
    EXPECT_EQ(written->from, 8 * 4096u);
    EXPECT_EQ(written->to, 10 * 4096u);
    EXPECT_EQ(ErrnoOf(client->TryWrite(inode, 10 * 4096, "z", io).status()), ENOSPC);
    ASSERT_TRUE(client->Fsync(inode).ok());
    EXPECT_EQ(client->Read(inode, 0, 100'000),
              std::string(8 * 4096, 'x') + std::string(2 * 4096, 'y'));
  }
}

TEST(FileDataTest, AnEvictionIsReportedOnceAndTheFileStaysOpen) {
  DataCluster cluster({.data = {.commit_age_ms = 60'000, .max_write_behind_bytes = 0}});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  ASSERT_TRUE(client->data().Open(inode, true, {}).ok());
  client->Write(inode, 0, "committed");
  ASSERT_TRUE(client->Fsync(inode).ok());
  client->Write(inode, 0, "x");
  client->Write(inode, 20'000, "lost");
  const std::uint64_t session = client->session().session_id();
  cluster.mdc().Evict(session);
  while (client->session().session_id() == session || client->session().session_id() == 0) {
    std::this_thread::yield();
  }
  EXPECT_EQ(ErrnoOf(client->Fsync(inode)), EIO);
  EXPECT_TRUE(client->Fsync(inode).ok());
  EXPECT_EQ(client->Read(inode, 0, 100'000), "xommitted");
  client->Write(inode, 1, "O");
  EXPECT_EQ(client->Read(inode, 0, 2), "xO");
  EXPECT_EQ(cluster.mdc().OpensOf(inode), 1u);
}

// The kernel changes a mapped page without a word and writes it back whole: while it has one, no
// other host may write the file, nor read what is older.
TEST(FileDataTest, FlagsKeepWhatIsOpenFromChanges) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  client->Write(inode, 0, "text");
  const auto chattr = [&](std::uint32_t flags) {
    v1::SetAttr set;
    set.set_inode(inode);
    set.set_fields(v1::SetAttr::FLAGS);
    set.set_flags(flags);
    ASSERT_TRUE(client->data().SetAttr(set, {}).ok());
  };
  const auto write = [&](const IoContext& io) {
    return ErrnoOf(client->TryWrite(inode, 4, "more", io).status());
  };
  const auto allocate = [&](std::uint32_t mode) {
    return ErrnoOf(client->data().Allocate(inode, mode, 0, 2, {}));
  };
  constexpr std::uint32_t kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  chattr(v1::INODE_FLAG_IMMUTABLE);
  EXPECT_EQ(write({}), EPERM);
  EXPECT_EQ(write({.append = true}), EPERM);
  EXPECT_EQ(allocate(kPunch), EPERM);
  EXPECT_EQ(allocate(0), EPERM);
  EXPECT_EQ(client->Read(inode, 0, 100), "text") << "no part of it is done before it is refused";
  EXPECT_EQ(write({.page_cache = true}), EPERM) << "write(2), by the kernel's pages";
  EXPECT_EQ(write({.page_cache = true, .write_back = true}), 0)
      << "what a page took before is kept";
  chattr(v1::INODE_FLAG_APPEND);
  EXPECT_EQ(allocate(kPunch), EPERM);
  EXPECT_EQ(allocate(FALLOC_FL_ZERO_RANGE), EPERM);
  EXPECT_EQ(allocate(0), 0);
  EXPECT_EQ(ErrnoOf(client->Truncate(inode, 1)), EPERM);
  EXPECT_EQ(write({}), 0) << "only opening for anything but appending is refused";
  EXPECT_EQ(client->Read(inode, 0, 100), "textmore");
}

TEST(FileDataTest, NothingIsReadBeyondWhereAFileCanEnd) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  client->Write(inode, 0, "text");
  EXPECT_EQ(client->Read(inode, kMaxFileBytes - 1, 10), "");
  EXPECT_EQ(client->Read(inode, kMaxFileBytes + 5, 10), "");
}

TEST(FileDataTest, ASizeIsNotDurableBeforeTheZerosThatItShows) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  client->Write(inode, 0, std::string(3000, 'x'));
  ASSERT_TRUE(client->Fsync(inode).ok());
  ASSERT_TRUE(client->Truncate(inode, 1000).ok());
  ASSERT_TRUE(client->Truncate(inode, 2000).ok());
  for (int i = 0; i < 3; ++i) cluster.lun(i).Crash(1, FaultyLun::kLoseAll);
  EXPECT_EQ(client->Read(inode, 0, 2000), std::string(1000, 'x') + std::string(1000, '\0'));
}

// The controller has done some steps before it found no room: the blocks are not what they were.
TEST(FileDataTest, WritesBehindAFailedZeroingAreKept) {
  DataCluster cluster({.mdc = {.preallocated_blocks = 0}});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  client->Write(inode, 0, std::string(4096, 'a'));
  ASSERT_TRUE(client->Fsync(inode).ok());
  const int mode = FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE;
  EXPECT_EQ(ErrnoOf(client->data().Allocate(inode, mode, 0, 1 << 30, {})), ENOSPC);
  EXPECT_EQ(client->Read(inode, 0, 4096), std::string(4096, '\0'));
  client->Write(inode, 0, std::string(4096, 'b'), {.direct = true});
  ASSERT_TRUE(client->Fsync(inode).ok());
  EXPECT_EQ(cluster.Mount()->Read(inode, 0, 4096), std::string(4096, 'b'));
}

TEST(FileDataTest, SeekFindsDataAndHoles) {
  DataCluster cluster({.mdc = {.preallocated_blocks = 0}});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  client->Write(inode, 3 * 4096, std::string(4096, 'x'));
  ASSERT_TRUE(client->Truncate(inode, 10 * 4096).ok());
  const auto seek = [&](std::uint64_t at, bool data) {
    const auto found = client->data().Seek(inode, at, data, {});
    return found.ok() ? static_cast<std::int64_t>(*found) : -ErrnoOf(found.status());
  };
  EXPECT_EQ(seek(0, true), 3 * 4096);
  EXPECT_EQ(seek(3 * 4096 + 5, true), 3 * 4096 + 5);
  EXPECT_EQ(seek(3 * 4096 + 5, false), 4 * 4096);
  EXPECT_EQ(seek(5, false), 5);
  EXPECT_EQ(seek(5 * 4096, true), -ENXIO);
  EXPECT_EQ(seek(10 * 4096, false), -ENXIO);
}

TEST(FileDataTest, IdleTokensAreReturned) {
  DataCluster cluster({.data = {.commit_age_ms = 20, .max_idle_tokens = 2}});
  const auto client = cluster.Mount();
  for (int i = 0; i < 6; ++i) client->Write(cluster.mdc().CreateFile(), 0, "x");
  while (cluster.mdc().CountOf(v1::Request::kLayoutReturn) < 4) std::this_thread::yield();
}

TEST(FileDataTest, KnownExtentsAreBounded) {
  DataCluster cluster(
      {.mdc = {.preallocated_blocks = 0}, .data = {.commit_age_ms = 20, .max_extents = 8}});
  const auto client = cluster.Mount();
  const std::uint64_t inode = cluster.mdc().CreateFile();
  for (std::uint64_t i = 0; i < 10; ++i) client->Write(inode, i * 8192, "x");
  const std::uint64_t asked = cluster.mdc().CountOf(v1::Request::kLayoutGet);
  while (cluster.mdc().CountOf(v1::Request::kLayoutGet) == asked) {
    ASSERT_EQ(client->Read(inode, 3 * 8192, 2), std::string("x\0", 2));
    // Nothing is forgotten of a file that is being read: leave it alone most of the time.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // tidy: sleep: no event tells
  }
}

TEST(FileDataTest, AFailedReadOrWriteIsAnError) {
  DataCluster cluster({.lun_threads = 0, .data = {.max_write_behind_bytes = 0}});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  client->Write(inode, 0, std::string(40'000, 'x'));
  for (std::size_t i = 0; i < 3; ++i) cluster.lun(i).FailRequest(1);
  EXPECT_EQ(ErrnoOf(client->TryWrite(inode, 0, std::string(40'000, 'y')).status()), EIO);
  for (std::size_t i = 0; i < 3; ++i) {
    cluster.lun(i).ClearFaults();
    cluster.lun(i).FailRequest(1);
  }
  AlignedBuffer buffer(40'960);
  EXPECT_EQ(ErrnoOf(client->data().Read(inode, 0, buffer.span(), {}).status()), EIO);
}

}  // namespace
}  // namespace reel::client
