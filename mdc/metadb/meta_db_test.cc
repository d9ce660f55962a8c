// The metadata store on RocksDB on metafs on a faulty LUN.
#include "mdc/metadb/meta_db.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <random>
#include <string>

#include "mdc/metafs/file_io.h"
#include "mdc/testing/rocks_crash_store.h"
#include "volume/testing/long_run.h"

namespace reel::mdc {
namespace {

using metafs::MetaFs;
using Content = std::map<std::string, std::string>;

#define ASSERT_OK(expression)                  \
  do {                                         \
    const absl::Status status_ = (expression); \
    ASSERT_TRUE(status_.ok()) << status_;      \
  } while (false)

WriteBatch Noise(int number, std::size_t bytes) {
  std::string noise(bytes, '\0');
  std::generate(noise.begin(), noise.end(), std::mt19937(static_cast<unsigned>(number)));
  WriteBatch batch;
  batch.Put("noise" + std::to_string(number), noise);
  return batch;
}

TEST(MetaDbTest, ReadsAppliedBatches) {
  CrashStore store;
  WriteBatch batch;
  batch.Put("a1", "one");
  batch.Put("a2", "two");
  batch.Put("b", "other");
  batch.Delete("a1");
  const Sequence before = store.db->last_applied();
  const absl::StatusOr<Sequence> applied = store.db->Apply(batch);
  ASSERT_OK(applied.status());
  EXPECT_GT(*applied, before);
  std::string value;
  EXPECT_EQ(*store.db->Get("a2", &value, Tier::kMemory), Found::kYes);
  EXPECT_EQ(value, "two");
  EXPECT_EQ(*store.db->Get("a1", &value, Tier::kAll), Found::kNo);
  auto cursor = store.db->Scan("a", "", Tier::kAll);
  ASSERT_TRUE(cursor->Valid());
  EXPECT_EQ(cursor->key(), "a2");
  cursor->Next();
  EXPECT_FALSE(cursor->Valid());
  ASSERT_OK(cursor->status());
  EXPECT_GE(*store.db->Sync(), *applied);
}

TEST(MetaDbTest, MemoryTierAsksForTheLun) {
  CrashStore store;
  for (int i = 0; i < 2000; ++i) {
    WriteBatch batch;
    batch.Put("k" + std::to_string(i), std::string(1000, 'v'));
    ASSERT_OK(store.db->Apply(batch).status());
  }
  ASSERT_OK(store.db->Sync().status());
  ASSERT_OK(store.Open());
  std::string value;
  EXPECT_EQ(*store.db->Get("k17", &value, Tier::kMemory), Found::kNotInMemory);
  EXPECT_EQ(*store.db->Get("k17", &value, Tier::kAll), Found::kYes);
  EXPECT_EQ(*store.db->Get("k17", &value, Tier::kMemory), Found::kYes);
  ASSERT_OK(store.db->VerifyChecksums());
  store.Close();  // or it goes on compacting under the check
  const std::vector<std::string> problems = MetaFs::Check(store.space);
  EXPECT_TRUE(problems.empty()) << problems.front();
}

TEST(MetaDbTest, ASyncedCommitIsOneWriteAndOneFlush) {
  CrashStore store;
  const auto commit = [&] {
    WriteBatch batch;
    batch.Put("key", "value");
    return store.db->Apply(batch).ok() && store.db->Sync().ok();
  };
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(commit());
  const std::uint64_t writes = store.space.writes, flushes = store.space.flushes;
  for (int i = 0; i < 50; ++i) ASSERT_TRUE(commit());
  EXPECT_EQ(store.space.writes, writes + 50);
  EXPECT_EQ(store.space.flushes, flushes + 50);
}

TEST(MetaDbTest, ALogIsCutLaterWhereWritesAreStopped) {
  CrashStore store;
  store.env()->HoldTables(true);
  absl::Status status;
  for (int memtable = 0; memtable < 3; ++memtable) {
    // The third finds all memtables waiting for their flush, and may not be begun.
    if (memtable < 2) status.Update(store.db->Apply(Noise(memtable, 100)).status());
    for (int i = 0; i < 100; ++i) status.Update(store.db->Sync().status());
  }
  store.env()->HoldTables(false);
  ASSERT_OK(status);
  ASSERT_OK(store.db->Apply(Noise(2, 100)).status());
  ASSERT_OK(store.db->Sync().status());
  store.PowerFails(1);
  ASSERT_OK(store.Open());
  EXPECT_EQ(store.All()->size(), 3);
}

TEST(MetaDbTest, CompactionFreesRemovedKeys) {
  CrashStore store;
  const std::uint64_t empty_bytes = store.fs->FreeBytes();
  for (int i = 0; i < 200; ++i) {
    WriteBatch batch;
    std::string noise(10'000, '\0');
    std::generate(noise.begin(), noise.end(), std::mt19937(static_cast<unsigned>(i)));
    batch.Put("k" + std::to_string(i), noise);
    ASSERT_OK(store.db->Apply(batch).status());
  }
  std::atomic<bool> cancelled{false};
  ASSERT_OK(store.db->Compact(cancelled));
  const std::uint64_t full_bytes = store.fs->FreeBytes();
  EXPECT_LT(full_bytes + 1'500'000, empty_bytes);
  WriteBatch removal;
  for (int i = 0; i < 200; ++i) removal.Delete("k" + std::to_string(i));
  ASSERT_OK(store.db->Apply(removal).status());
  EXPECT_EQ(store.db->removals(), 200);
  cancelled = true;
  EXPECT_TRUE(absl::IsCancelled(store.db->Compact(cancelled)));
  cancelled = false;
  ASSERT_OK(store.db->Compact(cancelled));
  EXPECT_GT(store.fs->FreeBytes(), full_bytes + 1'500'000);
}

// Takes all space that a table, or a log, can get.
void FillToTheEnd(CrashStore& store, const std::string& path) {
  const auto file = store.fs->Create(path);
  if (!file.ok()) return;
  while (store.fs->Extend(**file, store.fs->chunk_bytes()).ok()) continue;
  ASSERT_OK(store.fs->SetTableEnd(**file, 0, 0));
  ASSERT_OK(store.fs->Commit());
}

TEST(MetaDbTest, AStartFindsRoomForItsTablesInAFullStore) {
  for (const bool power_fails : {false, true}) {
    CrashStore store(24 << 20);
    store.options.write_buffer_bytes = (24 << 20) / 64;
    for (int life = 0; life < 6; ++life) {
      SCOPED_TRACE(life);
      ASSERT_OK(store.Open());
      for (int i = 0; i < (life == 0 ? 30 : 1); ++i) {
        ASSERT_OK(store.db->Apply(Noise(i, 10'000)).status());
        ASSERT_OK(store.db->Sync().status());
      }
      if (life == 0) {
        FillToTheEnd(store, "/fill.sst");
        FillToTheEnd(store, "/fill.log");
      }
      if (power_fails) store.PowerFails(1);
    }
    ASSERT_OK(store.Open());
    ASSERT_OK(store.fs->Remove("/fill.sst"));
    ASSERT_OK(store.db->Apply(Noise(100, 10'000)).status());
    ASSERT_OK(store.db->Sync().status());
  }
}

// Commits until nothing but the working space is left, whatever a compaction gives back.
void FillToTheWorkingSpace(CrashStore& store, int& next) {
  std::atomic<bool> cancelled{false};
  for (bool compacted = false; !compacted;) {
    while (store.fs->FreeBytes() >= store.fs->WorkingBytes()) {
      ASSERT_OK(store.db->Apply(Noise(next++, 2'000)).status());
      if (next % 16 == 0) ASSERT_OK(store.db->Sync().status());
    }
    ASSERT_OK(store.db->Compact(cancelled));
    compacted = store.fs->FreeBytes() < store.fs->WorkingBytes();
  }
  ASSERT_OK(store.db->Sync().status());
}

TEST(MetaDbCrashTest, AFullStoreDeletesAndStartsWhereverItCrashes) {
  CrashStore store(24 << 20);
  store.options.write_buffer_bytes = (24 << 20) / 64;
  ASSERT_OK(store.Open());
  int next = 0, gone = 0;
  const int step = IsLongRun() ? 1 : 23;
  for (int writes = 1; writes < 250; writes += step) {
    SCOPED_TRACE(writes);
    ASSERT_NO_FATAL_FAILURE(FillToTheWorkingSpace(store, next));
    store.power.FailAfter(writes);
    const int first = gone;
    for (bool on = true; on && gone < std::min(next, first + 2'000);) {
      WriteBatch batch;
      batch.Delete("noise" + std::to_string(gone++));
      on = store.db->Apply(batch).ok() && (gone % 4 != 0 || store.db->Sync().ok());
    }
    store.PowerFails(static_cast<std::uint64_t>(writes));
    ASSERT_OK(store.Open());
    for (int i = first; i < gone; ++i) {  // what was cut off is deleted again
      WriteBatch batch;
      batch.Delete("noise" + std::to_string(i));
      ASSERT_OK(store.db->Apply(batch).status());
    }
    ASSERT_OK(store.db->Sync().status());
  }
  store.Close();  // or it goes on compacting under the check
  const std::vector<std::string> problems = MetaFs::Check(store.space);
  EXPECT_TRUE(problems.empty()) << problems.front();
}

// It is done when there is room. What it has written meanwhile is gone, and flushes had their own.
TEST(MetaDbTest, ACompactionWithoutRoomHarmsNothing) {
  CrashStore store;
  std::atomic<bool> cancelled{false};
  auto filler = store.fs->Create("/filler");
  ASSERT_OK(filler.status());
  absl::Status compacted;
  for (int round = 0; compacted.ok() && round < 100; ++round) {
    // Over what is there: no table can stay as it is.
    for (int i = 0; i < 20; ++i) ASSERT_OK(store.db->Apply(Noise(i, 5'000)).status());
    while (store.fs->Extend(**filler, 1, metafs::ChunkUse::kCompaction).ok()) continue;
    compacted = store.db->Compact(cancelled);  // (a flush may have made room for it)
  }
  EXPECT_TRUE(absl::IsResourceExhausted(compacted)) << compacted;
  ASSERT_OK(store.db->Apply(Noise(21, 80'000)).status());  // more than a memtable
  ASSERT_OK(store.db->Apply(Noise(22, 80'000)).status());
  ASSERT_OK(store.db->Sync().status());
  ASSERT_OK(store.fs->Remove("/filler"));
  filler->reset();
  ASSERT_OK(store.fs->Commit());
  ASSERT_OK(store.db->Compact(cancelled));
  store.PowerFails(1);
  ASSERT_OK(store.Open());
  EXPECT_EQ(store.All()->size(), 22);
}

// Its checksum covers what it has no room for.
TEST(MetaDbTest, ATableThatFoundNoRoomIsNotOpenedLater) {
  CrashStore store;
  auto filler = store.fs->Create("/filler");
  const auto table = store.fs->Create("/table");
  ASSERT_OK(filler.status());
  ASSERT_OK(table.status());
  while (store.fs->Extend(**filler, 1, metafs::ChunkUse::kCompaction).ok()) continue;
  metafs::TableWriter writer(*store.fs, *table, metafs::ChunkUse::kCompaction);
  EXPECT_TRUE(absl::IsResourceExhausted(writer.Append(std::string(3 << 20, 'x'))));
  ASSERT_OK(store.fs->Remove("/filler"));
  filler->reset();
  ASSERT_OK(store.fs->Commit());
  EXPECT_FALSE(writer.Finish().ok());
}

TEST(MetaDbTest, LeftoversOfStartsAreRemovedAndNothingElse) {
  CrashStore store;
  ASSERT_OK(store.db->Apply(Noise(1, 100'000)).status());
  std::atomic<bool> cancelled{false};
  ASSERT_OK(store.db->Compact(cancelled));  // no flush is under way when it is closed
  ASSERT_OK(store.db->Apply(Noise(2, 10'000)).status());
  ASSERT_OK(store.db->Sync().status());
  const absl::StatusOr<Content> before = store.All();
  store.Close();
  ASSERT_OK(store.Mount());
  const std::vector<std::string> own = store.fs->List("/meta");
  for (const char* name : {"/meta/999990.sst", "/meta/MANIFEST-999991", "/meta/999992.log"}) {
    const auto file = store.fs->Create(name);
    ASSERT_OK(file.status());
    if ((*file)->kind == metafs::FileKind::kTable) ASSERT_OK(store.fs->SetTableEnd(**file, 0, 0));
  }
  ASSERT_OK(store.fs->Commit());
  ASSERT_OK(MetaDb::RemoveLeftovers(store.env(), store.options));
  EXPECT_EQ(store.fs->List("/meta"), own);
  ASSERT_OK(store.Open());
  EXPECT_EQ(*store.All(), *before);
}

TEST(MetaDbTest, CreateRefusesAStoreThatExistsAndOpenOneThatDoesNot) {
  CrashStore store;
  store.options.create = true;
  EXPECT_FALSE(store.Open().ok());
}

TEST(MetaDbTest, AFailedSyncEndsTheStore) {
  CrashStore store;
  WriteBatch batch;
  batch.Put("key", "value");
  ASSERT_OK(store.db->Apply(batch).status());
  store.power.FailAfter(0);
  EXPECT_FALSE(store.db->Sync().ok());
  store.power.FailAfter(1 << 30);
  EXPECT_FALSE(store.db->Sync().ok());
  EXPECT_FALSE(store.db->Apply(batch).ok());
  std::string value;
  EXPECT_FALSE(store.db->Get("key", &value, Tier::kAll).ok());
}

// Batches, numbered under the key "n", and what the first so many of them amount to.
class History {
 public:
  WriteBatch Next(std::mt19937_64& random) {
    WriteBatch batch;
    batches_.push_back({});
    const auto put = [&](const std::string& key, const std::string& value) {
      batch.Put(key, value);
      batches_.back().emplace_back(key, value);
    };
    put("n", std::to_string(batches_.size()));
    for (std::uint64_t i = random() % 4; i > 0; --i) {
      const std::string key = "k" + std::to_string(random() % 50);
      if (random() % 4 == 0) {
        batch.Delete(key);
        batches_.back().emplace_back(key, "");
      } else {
        put(key, std::string(1 + random() % 2000, static_cast<char>('a' + random() % 26)));
      }
    }
    return batch;
  }
  // Forgets all batches but the first `count`.
  void Keep(std::size_t count) { batches_.resize(count); }
  std::size_t size() const { return batches_.size(); }
  Content All() const {
    Content content;
    for (const auto& batch : batches_) {
      for (const auto& [key, value] : batch) {
        if (value.empty()) {
          content.erase(key);
        } else {
          content[key] = value;
        }
      }
    }
    return content;
  }

 private:
  std::vector<std::vector<std::pair<std::string, std::string>>> batches_;
};

void RunHistory(std::uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  CrashStore store;
  History history;
  std::size_t synced = 0;
  for (int life = 0; life < 4; ++life) {
    store.power.FailAfter(static_cast<std::int64_t>(random() % (life == 0 ? 300 : 150)));
    if (life == 0 || store.Open().ok()) {
      for (int i = 0; i < 300; ++i) {
        if (!store.db->Apply(history.Next(random)).ok()) break;
        if (random() % 3 == 0) {
          if (!store.db->Sync().ok()) break;
          synced = history.size();
        }
      }
    }
    store.PowerFails(random());
    const std::vector<std::string> problems = MetaFs::Check(store.space);
    for (const std::string& problem : problems) {
      // A superblock that was being written may be torn.
      ASSERT_NE(problem.find("the next mount repairs"), std::string::npos) << problem;
    }
    ASSERT_OK(store.Open());
    const absl::StatusOr<Content> found = store.All();
    ASSERT_OK(found.status());
    const auto n = found->find("n");
    const std::size_t count = n == found->end() ? 0 : std::stoul(n->second);
    ASSERT_GE(count, synced) << "acknowledged batches are lost";
    ASSERT_LE(count, history.size());
    history.Keep(count);
    synced = count;
    ASSERT_EQ(*found, history.All());
    ASSERT_TRUE(MetaFs::Check(store.space).empty());
  }
}

TEST(MetaDbCrashTest, NothingSyncedIsLost) {
  const char* wanted = std::getenv("REEL_SEEDS");
  const std::uint64_t usual = IsLongRun() ? 1000 : 200;
  const std::uint64_t seeds = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : usual;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    ASSERT_NO_FATAL_FAILURE(RunHistory(seed));
  }
}

TEST(MetaDbCrashTest, AFlippedBitIsNeverSilent) {
  CrashStore store(16 << 20);
  std::mt19937_64 random(7);
  History history;
  for (int i = 0; i < 200; ++i) {
    ASSERT_OK(store.db->Apply(history.Next(random)).status());
    ASSERT_OK(store.db->Sync().status());
  }
  store.PowerFails(1);
  store.options.read_only = true;
  const Content expected = history.All();
  int flips = 0, detected = 0;
  for (std::uint64_t at = 0; at < store.lun().size_bytes(); at += 512) {
    const std::string sector = store.lun().DurableContent(at, 512);
    if (sector.find_first_not_of('\0') == std::string::npos || random() % 8 != 0) continue;
    const std::uint64_t byte = at + random() % 512;
    const int bit = static_cast<int>(random() % 8);
    store.lun().FlipBit(byte, bit);
    ++flips;
    const absl::Status opened = store.Open();
    const absl::StatusOr<Content> found = opened.ok() ? store.All() : opened;
    if (found.ok()) {
      EXPECT_EQ(*found, expected) << "silent damage by byte " << byte;
    } else {
      EXPECT_TRUE(absl::IsDataLoss(found.status())) << found.status();
      // What hurts readers, fsck sees too.
      EXPECT_FALSE(MetaFs::Check(store.space).empty()) << found.status();
      ++detected;
    }
    store.Close();
    store.lun().FlipBit(byte, bit);
  }
  EXPECT_GT(flips, 100);
  EXPECT_GT(detected, flips / 4);
}

}  // namespace
}  // namespace reel::mdc
