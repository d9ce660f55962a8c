// The metadata store on RocksDB on metafs on a faulty LUN.
#include "mdc/meta_db.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>
#include <string>

#include "mdc/metafs/metafs.h"
#include "mdc/metafs/rocks_fs.h"
#include "mdc/metafs/testing/lun_space.h"
#include "rocksdb/env.h"
#include "rocksdb/system_clock.h"
#include "spdlog/spdlog.h"
#include "volume/testing/faulty_lun.h"

namespace reel::mdc {
namespace {

using metafs::LunSpace;
using metafs::MetaFs;
using Content = std::map<std::string, std::string>;

#define ASSERT_OK(expression)                  \
  do {                                         \
    const absl::Status status_ = (expression); \
    ASSERT_TRUE(status_.ok()) << status_;      \
  } while (false)

// Power that fails at a chosen request: from then on, nothing reaches the LUN.
class PowerSpace final : public metafs::Space {
 public:
  explicit PowerSpace(LunSpace& space) : space_(space) {}

  void FailAfter(std::int64_t requests) { left_ = requests; }
  std::uint32_t block_bytes() const override { return space_.block_bytes(); }
  std::uint64_t size_bytes() const override { return space_.size_bytes(); }
  absl::Status SetRegions(const std::vector<metafs::Region>& regions) override {
    return space_.SetRegions(regions);
  }
  absl::Status Read(std::uint64_t offset, std::span<std::byte> to) override {
    return left_ > 0 ? space_.Read(offset, to) : Off();
  }
  absl::Status Write(std::uint64_t offset, std::span<const std::byte> from) override {
    return --left_ > 0 ? space_.Write(offset, from) : Off();
  }
  absl::Status Flush() override { return --left_ > 0 ? space_.Flush() : Off(); }

 private:
  static absl::Status Off() { return absl::UnavailableError("no power"); }
  LunSpace& space_;
  std::atomic<std::int64_t> left_{1 << 30};
};

// RocksDB sleeps a second after an I/O error in the background; histories have no such time.
class NoSleepClock final : public rocksdb::SystemClockWrapper {
 public:
  NoSleepClock() : rocksdb::SystemClockWrapper(rocksdb::SystemClock::Default()) {}
  const char* Name() const override { return "no sleep"; }
  void SleepForMicroseconds(int) override {}
};
class NoSleepEnv final : public rocksdb::EnvWrapper {
 public:
  explicit NoSleepEnv(std::unique_ptr<rocksdb::Env> env) : rocksdb::EnvWrapper(std::move(env)) {
    system_clock_ = std::make_shared<NoSleepClock>();
  }
  const char* Name() const override { return "no sleep"; }
};

class Store {
 public:
  explicit Store(std::uint64_t lun_bytes = 64 << 20)
      : lun_({.size_bytes = lun_bytes, .logical_block_bytes = 512}) {
    spdlog::set_level(spdlog::level::off);  // RocksDB has much to say about failing power
    metafs::FormatOptions format;
    format.regions = {space.Whole()};
    format.epoch = Epoch(++epoch_);
    EXPECT_TRUE(MetaFs::Format(power, format).ok());
    options.cache_bytes = 1 << 20;
    options.write_buffer_bytes = 64 << 10;
    options.create = true;
    EXPECT_TRUE(Open().ok());
    options.create = false;
  }
  ~Store() { Close(); }

  absl::Status Open() {
    Close();
    absl::StatusOr<std::unique_ptr<MetaFs>> mounted =
        MetaFs::Mount(power, {.epoch = Epoch(++epoch_), .read_only = options.read_only});
    if (!mounted.ok()) return mounted.status();
    fs = *std::move(mounted);
    env_ = std::make_unique<NoSleepEnv>(metafs::NewRocksEnv(*fs));
    absl::StatusOr<std::unique_ptr<MetaDb>> opened = MetaDb::Open(env_.get(), options);
    if (!opened.ok()) return opened.status();
    db = *std::move(opened);
    return absl::OkStatus();
  }
  void Close() {
    db.reset();
    env_.reset();
    fs.reset();
  }
  void PowerFails(std::uint64_t seed) {
    power.FailAfter(0);
    Close();
    lun_.Crash(seed);
    power.FailAfter(1 << 30);
  }
  absl::StatusOr<Content> All() {
    Content content;
    auto cursor = db->Scan("", "", Tier::kAll);
    for (; cursor->Valid(); cursor->Next()) content.emplace(cursor->key(), cursor->value());
    if (!cursor->status().ok()) return cursor->status();
    return content;
  }
  FaultyLun& lun() { return lun_; }

 private:
  FaultyLun lun_;
  std::uint64_t epoch_ = 0;

 public:
  LunSpace space{lun_};
  PowerSpace power{space};
  MetaDb::Options options;
  std::unique_ptr<MetaFs> fs;

 private:
  std::unique_ptr<rocksdb::Env> env_;

 public:
  std::unique_ptr<MetaDb> db;
};

TEST(MetaDbTest, ReadsWhatWasApplied) {
  Store store;
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
  Store store;
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
  EXPECT_TRUE(MetaFs::Check(store.space).empty());
}

TEST(MetaDbTest, ASyncedCommitIsOneWriteAndOneFlush) {
  Store store;
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

TEST(MetaDbTest, CreateRefusesAStoreThatExistsAndOpenOneThatDoesNot) {
  Store store;
  store.options.create = true;
  EXPECT_FALSE(store.Open().ok());
}

TEST(MetaDbTest, AFailedSyncEndsIt) {
  Store store;
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
  Store store;
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
  const std::uint64_t seeds = wanted != nullptr ? std::strtoull(wanted, nullptr, 10) : 200;
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    ASSERT_NO_FATAL_FAILURE(RunHistory(seed));
  }
}

TEST(MetaDbCrashTest, AFlippedBitIsNeverSilent) {
  Store store(16 << 20);
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
