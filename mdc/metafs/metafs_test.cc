// Names and mounts, without RocksDB.
#include "mdc/metafs/metafs.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>

#include "mdc/metafs/file_io.h"
#include "mdc/metafs/journal_reader.h"
#include "mdc/metafs/testing/metafs_fixture.h"
#include "volume/base/aligned_buffer.h"
#include "volume/base/coding.h"
#include "volume/testing/faulty_lun.h"

namespace reel::metafs {
namespace {

TEST_F(MetaFsTest, KeepsSyncedTablesAndForgetsOthers) {
  const std::string large(3'000'001, 'q');
  Put("/meta/a.sst", large);
  Put("/meta/empty", "");
  absl::StatusOr<FileRef> unsynced = fs_->Create("/meta/b.sst");
  ASSERT_TRUE(unsynced.ok());
  EXPECT_EQ(fs_->List("/meta"), (std::vector<std::string>{"a.sst", "b.sst", "empty"}));
  Crash();
  EXPECT_EQ(fs_->List("/meta/"), (std::vector<std::string>{"a.sst", "empty"}));
  EXPECT_EQ(Get("/meta//a.sst"), large);
  EXPECT_EQ(Get("/meta/empty"), "");
  EXPECT_TRUE(fs_->IsDirectory("/meta"));
  EXPECT_TRUE(Check().empty());
}

TEST_F(MetaFsTest, ReadsAnyAlignment) {
  std::string content;
  for (int i = 0; i < 20000; ++i) content += std::to_string(i);
  Put("/t", content);
  const absl::StatusOr<FileRef> file = fs_->Find("/t");
  for (std::uint64_t at = 0; at < content.size() + 5000; at += 3777) {
    std::string got(5001, '\0');
    const auto n =
        ReadTable(*fs_, **file, at, {reinterpret_cast<std::byte*>(got.data()), got.size()});
    ASSERT_TRUE(n.ok());
    EXPECT_EQ(got.substr(0, *n), at < content.size() ? content.substr(at, 5001) : "");
  }
}

TEST_F(MetaFsTest, RenameReplacesAndIsDurableAfterCommit) {
  Put("/CURRENT", "old");
  Put("/tmp", "new");
  ASSERT_OK(fs_->Rename("/tmp", "/CURRENT"));
  Crash();
  EXPECT_EQ(Get("/CURRENT"), "old");
  EXPECT_EQ(Get("/tmp"), "new");
  ASSERT_OK(fs_->Rename("/tmp", "/CURRENT"));
  ASSERT_OK(fs_->Commit());
  Crash();
  EXPECT_EQ(Get("/CURRENT"), "new");
  EXPECT_EQ(Get("/tmp"), "(none)");
}

TEST_F(MetaFsTest, ALogSyncsInOneWriteAndOneFlush) {
  const absl::StatusOr<FileRef> file = fs_->Create("/000001.log");
  ASSERT_TRUE(file.ok());
  std::string expected;
  {
    LogAppender log(*fs_, *file);
    for (int i = 0; i < 300; ++i) {
      const std::string record(static_cast<std::size_t>(i) * 7, static_cast<char>('a' + i % 26));
      ASSERT_OK(log.Append(record));
      const std::uint64_t writes = space_.writes, flushes = space_.flushes;
      ASSERT_OK(log.Sync());
      if (i > 0 && i < 20) {
        EXPECT_EQ(space_.writes, writes + 1);
        EXPECT_EQ(space_.flushes, flushes + 1);
      }
      expected += record;
    }
    ASSERT_OK(log.Append("never synced"));
  }
  Crash();
  EXPECT_EQ(Get("/000001.log"), expected);
}

// New chunks are zeroed for a log: whoever waits for the sync that needs them waits for few.
// What RocksDB writes in a start: a manifest, a log, and what the old log said as a table.
class FoundByItsJournalTest : public MetaFsTest {
 protected:
  // A store of two regions, the second of them behind a gap.
  void SetUp() override {
    ASSERT_OK(
        MetaFs::Format(space_, {.regions = {{PoolId(0), PoolBlock(0), 4096}}, .epoch = Epoch(1)}));
    Mount();
    Put("/a", "before");
    ASSERT_OK(fs_->AddRegion({PoolId(0), PoolBlock(5000), 3000}));
    Put("/b", std::string(17 << 20, 'b'));  // more than the first region holds
  }
  Superblock Known() { return ReadSuperblock(space_)->superblock; }
  absl::StatusOr<Superblock> Found() {
    LunSpace space(lun_);
    EXPECT_TRUE(space.Write(0, AlignedBuffer::Zeroed(kHeadBytes).span()).ok());
    return FindSuperblock(space, {space.Whole()});
  }
};

TEST_F(FoundByItsJournalTest, TheJournalIsFoundAfterAMove) {
  for (int i = 0; i < 300; ++i) Put("/f" + std::to_string(i % 10), std::to_string(i));
  for (int mount = 0; mount < 8; ++mount) {
    const Superblock known = Known();
    const auto found = Found();
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found, known);
    ASSERT_OK(WriteSuperblock(space_, *found, 0));
    Crash();
    EXPECT_EQ(Get("/a"), "before");
    EXPECT_EQ(Get("/b").size(), 17u << 20);
    EXPECT_EQ(Get("/f9"), "299");
    Put("/mount", std::to_string(mount));
  }
  EXPECT_TRUE(Check().empty());
}

TEST_F(FoundByItsJournalTest, ACheckpointThatWasCutOffIsNotTheJournal) {
  const Superblock known = Known();
  Superblock next = known;
  ++next.generation;
  next.journal_id += 100;
  next.journal = {{known.total_chunks() - 1, 1}};
  std::string records;
  PutSuperblockRecord(records, next);
  records.append(5000, 'x');
  const AlignedBuffer frames = LogWriter({next.journal_id, next.epoch}).Frame(records);
  ASSERT_OK(space_.Write(next.journal[0].first * next.chunk_bytes, frames.span().first(4096)));
  const auto found = Found();
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(*found, known);
}

TEST_F(FoundByItsJournalTest, ACopyOfAJournalIsIgnored) {
  const Superblock known = Known();
  AlignedBuffer journal(known.chunk_bytes);
  const std::uint64_t at = known.journal[0].first * known.chunk_bytes;
  ASSERT_OK(space_.Read(at, journal.span()));
  ASSERT_OK(space_.Write(at, AlignedBuffer::Zeroed(known.chunk_bytes).span()));
  ASSERT_OK(lun_.Write(4200 * 4096, journal.span()));  // in the gap
  const auto found = Found();
  ASSERT_TRUE(found.ok()) << found.status();  // the one before
  EXPECT_LT(found->generation, known.generation);
}

TEST_F(MetaFsTest, AnEpochIsUsedOnce) {
  fs_.reset();
  EXPECT_EQ(MetaFs::Mount(space_, {.epoch = Epoch(epoch_), .read_only = false}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(MetaFsTest, ANewEpochsLogsAvoidTheOldEpochsSegments) {
  // Two epochs over one LUN, as after a failover; the old one's writes arrive late.
  FaultyLun& lun = lun_;
  LunSpace old_space(lun);
  fs_.reset();
  auto old_fs = *MetaFs::Mount(old_space, {.epoch = Epoch(10), .read_only = false});
  const FileRef old_log = *old_fs->Create("/1.log");
  LogAppender old_appender(*old_fs, old_log);
  ASSERT_OK(old_appender.Append("old"));
  ASSERT_OK(old_appender.Sync());
  epoch_ = 10;
  Mount();
  const FileRef log = *fs_->Create("/2.log");
  LogAppender appender(*fs_, log);
  ASSERT_OK(appender.Append("new"));
  ASSERT_OK(appender.Sync());
  Put("/2.sst", std::string(2 << 20, 's'));
  ASSERT_OK(fs_->Remove("/1.log"));
  // Logs wherever a log may lie, and full.
  const std::string full(450'000, 'n');
  std::vector<std::string> logs;
  while (true) {
    const absl::StatusOr<FileRef> file = fs_->Create("/n" + std::to_string(logs.size()) + ".log");
    if (!file.ok()) break;
    LogAppender one(*fs_, *file);
    ASSERT_OK(one.Append(full));
    ASSERT_OK(one.Sync());
    logs.push_back("/n" + std::to_string(logs.size()) + ".log");
  }
  EXPECT_GT(logs.size(), 30u);
  // Late writes to what the old one had claimed: its log, and its journal.
  for (int i = 0; i < 50; ++i) {
    ASSERT_OK(old_appender.Append(std::string(3000, 'z')));
    ASSERT_OK(old_appender.Sync());
  }
  ASSERT_OK(old_fs->Rename("/1.log", "/late.log"));
  ASSERT_OK(old_fs->Commit());
  ASSERT_OK(appender.Append("er"));
  ASSERT_OK(appender.Sync());
  Crash();
  EXPECT_EQ(Get("/2.log"), "newer");
  EXPECT_EQ(Get("/2.sst"), std::string(2 << 20, 's'));
  for (const std::string& name : logs) EXPECT_EQ(Get(name), full) << name;
  EXPECT_EQ(Get("/late.log"), "(none)");
  EXPECT_EQ(Get("/1.log"), "(none)");
}

TEST_F(MetaFsTest, ReadOnlyWritesNothing) {
  Put("/a", "a");
  fs_.reset();
  const std::uint64_t writes = space_.writes, flushes = space_.flushes;
  auto fs = MetaFs::Mount(space_, {.epoch = Epoch(0), .read_only = true});
  ASSERT_TRUE(fs.ok());
  fs_ = *std::move(fs);
  EXPECT_EQ(Get("/a"), "a");
  EXPECT_FALSE(fs_->Create("/b").ok());
  EXPECT_FALSE(fs_->Remove("/a").ok());
  EXPECT_FALSE(fs_->Rename("/a", "/b").ok());
  EXPECT_EQ(space_.writes, writes);
  EXPECT_EQ(space_.flushes, flushes);
}

TEST_F(MetaFsTest, AFailedJournalWriteStopsAllChanges) {
  Put("/a", "a");
  ASSERT_OK(fs_->Rename("/a", "/b"));
  lun_.FailRequest(1, LunRequest::Kind::kWrite);
  EXPECT_FALSE(fs_->Commit().ok());
  EXPECT_FALSE(fs_->Commit().ok());
  EXPECT_FALSE(fs_->Create("/c").ok());
  Crash();
  EXPECT_TRUE(Get("/a") == "a" || Get("/b") == "a");
}

TEST_F(MetaFsTest, OneDamagedSuperblockSlotIsReportedAndRepaired) {
  Put("/a", "a");
  for (const int slot : {0, 1}) {
    fs_.reset();
    lun_.FlipBit(kSuperblockOffsets[slot] + 100, 3);
    EXPECT_EQ(Check().size(), 1u);
    Mount();
    EXPECT_EQ(Get("/a"), "a");
    EXPECT_TRUE(Check().empty());
  }
  fs_.reset();
  lun_.FlipBit(kSuperblockOffsets[0] + 100, 3);
  lun_.FlipBit(kSuperblockOffsets[1] + 100, 3);
  EXPECT_TRUE(
      absl::IsDataLoss(MetaFs::Mount(space_, {.epoch = Epoch(99), .read_only = false}).status()));
}

TEST_F(MetaFsTest, BitsFlippedAnywhereAreNeverSilent) {
  Put("/CURRENT", "MANIFEST-000004");
  const FileRef log = *fs_->Create("/1.log");
  LogAppender appender(*fs_, log);
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(appender.Append("record" + std::to_string(i)));
    ASSERT_OK(appender.Sync());
  }
  const std::uint64_t last_epoch = epoch_;
  int detected = 0;
  // One flip in each sector that holds anything.
  for (std::uint64_t at = 0; at < lun_.size_bytes(); at += 512) {
    const std::string sector = lun_.DurableContent(at, 512);
    if (sector.find_first_not_of('\0') == std::string::npos) continue;
    lun_.FlipBit(at + 77, 2);
    fs_.reset();
    auto fs = MetaFs::Mount(space_, {.epoch = Epoch(last_epoch), .read_only = true});
    if (fs.ok()) {
      fs_ = *std::move(fs);
      const std::string current = Get("/CURRENT");
      const std::string records = Get("/1.log");
      EXPECT_TRUE(current == "MANIFEST-000004" || current == "(damaged)") << at << " " << current;
      EXPECT_TRUE(records == "record0record1record2" || records == "(damaged)") << at << records;
      detected += current == "(damaged)" || records == "(damaged)";
    } else {
      EXPECT_TRUE(absl::IsDataLoss(fs.status())) << fs.status();
      ++detected;
    }
    lun_.FlipBit(at + 77, 2);
  }
  EXPECT_GT(detected, 20);
}

TEST_F(MetaFsTest, ALogMayLieWhereATableLay) {
  for (int i = 0; i < 20; ++i) Put("/t" + std::to_string(i), std::string(1 << 20, 't'));
  for (int i = 0; i < 20; ++i) ASSERT_OK(fs_->Remove("/t" + std::to_string(i)));
  ASSERT_OK(fs_->Commit());
  for (int i = 0; i < 30; ++i) {
    const FileRef file = *fs_->Create("/" + std::to_string(i) + ".log");
    LogAppender log(*fs_, file);
    ASSERT_OK(log.Append("log"));
    ASSERT_OK(log.Sync());
  }
  Crash();
  for (int i = 0; i < 30; ++i) EXPECT_EQ(Get("/" + std::to_string(i) + ".log"), "log");
}

TEST_F(MetaFsTest, WritersAndCommitsRunSideBySide) {
  const FileRef file = *fs_->Create("/1.log");
  std::string expected;
  {
    LogAppender log(*fs_, file);
    std::atomic<bool> done{false};
    std::thread syncer([&] {
      while (!done) EXPECT_TRUE(log.Sync().ok());
    });
    const auto make_tables = [this](std::string prefix) {
      for (int i = 0; i < 60; ++i) {
        const std::string name = prefix + std::to_string(i % 7);
        const absl::StatusOr<FileRef> table = fs_->Create(name + ".tmp");
        ASSERT_OK(table.status());
        TableWriter writer(*fs_, *table);
        ASSERT_OK(writer.Append(prefix + std::string(70'000, 't')));
        ASSERT_OK(writer.Sync());
        ASSERT_OK(fs_->Rename(name + ".tmp", name));
      }
      ASSERT_OK(fs_->Commit());
    };
    std::thread a([&] { make_tables("/a"); });
    std::thread b([&] { make_tables("/b"); });
    for (int i = 0; i < 500; ++i) {
      const std::string record = std::to_string(i) + std::string(i % 700, 'r');
      ASSERT_OK(log.Append(record));
      expected += record;
    }
    a.join();
    b.join();
    done = true;
    syncer.join();
    ASSERT_OK(log.Sync());
  }
  Crash();
  EXPECT_EQ(Get("/1.log"), expected);
  for (int i = 0; i < 7; ++i) {
    EXPECT_EQ(Get("/a" + std::to_string(i)), "/a" + std::string(70'000, 't'));
    EXPECT_EQ(Get("/b" + std::to_string(i)), "/b" + std::string(70'000, 't'));
  }
  EXPECT_TRUE(Check().empty());
}

TEST_F(MetaFsTest, NoStoreIsNotFound) {
  FaultyLun blank({.size_bytes = 32 << 20});
  LunSpace space(blank);
  EXPECT_TRUE(
      absl::IsNotFound(MetaFs::Mount(space, {.epoch = Epoch(1), .read_only = false}).status()));
}

}  // namespace
}  // namespace reel::metafs
