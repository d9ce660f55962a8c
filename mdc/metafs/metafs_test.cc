// Names, space and mounts, without RocksDB.
#include "mdc/metafs/metafs.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <string>
#include <thread>

#include "mdc/metafs/file_io.h"
#include "mdc/metafs/journal_reader.h"
#include "mdc/metafs/testing/lun_space.h"
#include "volume/aligned_buffer.h"
#include "volume/coding.h"
#include "volume/testing/faulty_lun.h"

namespace reel::metafs {
namespace {

#define ASSERT_OK(expression)                  \
  do {                                         \
    const absl::Status status_ = (expression); \
    ASSERT_TRUE(status_.ok()) << status_;      \
  } while (false)

class MetaFsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    FormatOptions options;
    options.regions = {space_.Whole()};
    options.epoch = Epoch(1);
    ASSERT_OK(MetaFs::Format(space_, options));
    Mount();
  }

  void Mount() {
    fs_.reset();
    absl::StatusOr<std::unique_ptr<MetaFs>> fs =
        MetaFs::Mount(space_, {.epoch = Epoch(++epoch_), .read_only = false});
    ASSERT_TRUE(fs.ok()) << fs.status();
    fs_ = *std::move(fs);
  }
  void Crash(FaultyLun::CrashRules rules = FaultyLun::kLoseAll) {
    fs_.reset();
    lun_.Crash(epoch_, rules);
    Mount();
  }
  // A table with this content, synced.
  void Put(const std::string& name, const std::string& content) {
    absl::StatusOr<FileRef> file = fs_->Create(name);
    ASSERT_TRUE(file.ok()) << file.status();
    TableWriter writer(*fs_, *file);
    ASSERT_OK(writer.Append(content));
    ASSERT_OK(writer.Sync());
  }
  std::string Get(const std::string& name) {
    const absl::StatusOr<FileRef> file = fs_->Find(name);
    if (!file.ok()) return "(none)";
    if ((*file)->kind == FileKind::kLog) {
      absl::StatusOr<std::unique_ptr<LogReader>> reader = OpenLogReader(*fs_, *file);
      std::string all;
      if (!reader.ok() || !(*reader)->Read(1 << 20, all).ok()) return "(damaged)";
      return all;
    }
    if (!VerifyTable(*fs_, **file).ok()) return "(damaged)";
    std::string all(fs_->SizeOf(**file).value_or(0), '\0');
    const auto got =
        ReadTable(*fs_, **file, 0, {reinterpret_cast<std::byte*>(all.data()), all.size()});
    return got.ok() && *got == all.size() ? all : "(short)";
  }
  std::vector<std::string> Check() { return MetaFs::Check(space_); }

  FaultyLun lun_{{.size_bytes = 32 << 20, .logical_block_bytes = 512}};
  LunSpace space_{lun_};
  std::uint64_t epoch_ = 1;
  std::unique_ptr<MetaFs> fs_;
};

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

TEST_F(MetaFsTest, ALogKeepsWhatWasSyncedInOneWriteAndOneFlush) {
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
TEST_F(MetaFsTest, ALogTakesItsSpaceInSmallSteps) {
  FaultyLun lun({.size_bytes = 160 << 20});
  LunSpace space(lun);
  FormatOptions format;
  format.regions = {space.Whole()};
  format.chunk_bytes = 1 << 20;
  format.epoch = Epoch(1);
  ASSERT_OK(MetaFs::Format(space, format));
  const auto fs = MetaFs::Mount(space, {.epoch = Epoch(2), .read_only = false});
  ASSERT_OK(fs.status());
  const absl::StatusOr<FileRef> file = (*fs)->Create("/1.log");
  ASSERT_OK(file.status());
  LogAppender log(**fs, *file);
  for (int i = 0; i < 48; ++i) {
    const std::uint64_t writes = space.writes;
    ASSERT_OK(log.Append(std::string(900 << 10, 'l')));
    ASSERT_OK(log.Sync());
    EXPECT_LE(space.writes, writes + 8) << i;
  }
}

TEST_F(MetaFsTest, TheJournalMovesWhenItIsFull) {
  Put("/keep", "kept");
  for (int i = 0; i < 300; ++i) Put("/f" + std::to_string(i % 10), std::to_string(i));
  Crash();
  EXPECT_EQ(Get("/keep"), "kept");
  for (int i = 290; i < 300; ++i) EXPECT_EQ(Get("/f" + std::to_string(i % 10)), std::to_string(i));
  EXPECT_TRUE(Check().empty());
}

TEST_F(MetaFsTest, AFullStoreStillDeletes) {
  int files = 0;
  while (true) {
    absl::StatusOr<FileRef> file = fs_->Create("/f" + std::to_string(files));
    ASSERT_TRUE(file.ok());
    TableWriter writer(*fs_, *file);
    absl::Status s = writer.Append(std::string(1 << 20, 'f'));
    if (s.ok()) s = writer.Sync();
    if (!s.ok()) {
      EXPECT_TRUE(absl::IsResourceExhausted(s)) << s;
      break;
    }
    ++files;
  }
  EXPECT_GT(files, 20);
  EXPECT_LT(fs_->FreeBytes(), fs_->ReservedBytes());
  ASSERT_OK(fs_->Remove("/f0"));
  Put("/again", std::string(1 << 19, 'a'));
  // A crash finds room for the next epoch's journal and logs too.
  Crash();
  const absl::StatusOr<FileRef> log = fs_->Create("/1.log");
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_EQ(Get("/f1"), std::string(1 << 20, 'f'));
}

// What RocksDB writes in a start: a manifest, a log, and what the old log said as a table.
TEST_F(MetaFsTest, AStoreFilledToTheEndStartsForEver) {
  const auto fill = [&](const std::string& extension) {
    for (int i = 0;; ++i) {
      absl::StatusOr<FileRef> file = fs_->Create("/fill" + std::to_string(i) + extension);
      if (!file.ok()) return;
      TableWriter writer(*fs_, *file);
      if ((*file)->kind == FileKind::kTable &&
          !(writer.Append(std::string(200'000, 'f')).ok() && writer.Sync().ok())) {
        return;
      }
    }
  };
  std::set<std::string> keep;
  for (int round = 0; round < 60; ++round) {
    // Every third start is cut off, and what it made is left over.
    const bool ends = round % 3 != 1;
    for (const std::string& name : fs_->List("/")) {
      if (name.find("start") != name.npos && !keep.contains(name))
        ASSERT_OK(fs_->Remove("/" + name));
    }
    ASSERT_OK(fs_->Commit());
    std::set<std::string> made;
    for (const char* kind : {"MANIFEST-start", "start"}) {
      const std::string name = kind + std::to_string(round) + ".log";
      const absl::StatusOr<FileRef> log = fs_->Create("/" + name);
      ASSERT_TRUE(log.ok()) << round << name << log.status();
      made.insert(name);
    }
    if (ends) {
      fs_->Started();
      for (const std::string& name : keep) ASSERT_OK(fs_->Remove("/" + name));
      ASSERT_OK(fs_->Commit());
      keep = made;
      fill(round % 2 == 0 ? ".sst" : ".log");
    } else {
      for (const std::string& name : made) ASSERT_OK(fs_->Remove("/" + name));
    }
    Crash();
    ASSERT_FALSE(HasFatalFailure()) << round;
  }
  for (const std::string& name : fs_->List("/")) ASSERT_OK(fs_->Remove("/" + name));
  Put("/again", std::string(8 << 20, 'a'));
  EXPECT_TRUE(Check().empty());
}

TEST_F(MetaFsTest, FreedChunksWaitForOpenHandlesAndDurability) {
  Put("/old", std::string(1 << 20, 'o'));
  const std::uint64_t free = fs_->FreeBytes();
  absl::StatusOr<FileRef> open = fs_->Find("/old");
  ASSERT_OK(fs_->Remove("/old"));
  ASSERT_OK(fs_->Commit());
  Put("/x", "x");
  EXPECT_LT(fs_->FreeBytes(), free);
  std::string got(1 << 20, '\0');
  ASSERT_TRUE(
      ReadTable(*fs_, **open, 0, {reinterpret_cast<std::byte*>(got.data()), got.size()}).ok());
  EXPECT_EQ(got, std::string(1 << 20, 'o'));
  open = absl::NotFoundError("closed");
  Put("/y", "y");
  EXPECT_GT(fs_->FreeBytes(), free);
}

TEST_F(MetaFsTest, GrowsAtRunTime) {
  lun_.~FaultyLun();
  new (&lun_) FaultyLun({.size_bytes = 64 << 20, .logical_block_bytes = 512});
  FormatOptions options;
  options.regions = {{PoolId(0), PoolBlock(0), (32 << 20) / 4096}};
  options.epoch = Epoch(1);
  fs_.reset();
  ASSERT_OK(MetaFs::Format(space_, options));
  Mount();
  const std::uint64_t before = fs_->FreeBytes();
  EXPECT_FALSE(fs_->AddRegion({PoolId(0), PoolBlock(0), 10}).ok());        // overlaps
  EXPECT_FALSE(fs_->AddRegion({PoolId(0), PoolBlock(16000), 9000}).ok());  // out of the LUN
  ASSERT_OK(fs_->AddRegion({PoolId(0), PoolBlock(8192), 8000}));
  EXPECT_GT(fs_->FreeBytes(), before + (25 << 20));
  const std::string large(40 << 20, 'g');
  Put("/g", large);
  Crash();
  EXPECT_EQ(fs_->regions().size(), 2u);
  EXPECT_EQ(Get("/g"), large);
}

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

TEST_F(FoundByItsJournalTest, WhereverItHasMovedTo) {
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

TEST_F(FoundByItsJournalTest, ACopyOfAJournalIsNone) {
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

TEST_F(MetaFsTest, ANewEpochPutsLogsWhereTheOldOneDidNotWrite) {
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
