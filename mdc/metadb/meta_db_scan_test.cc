// Scans of the metadata store on RocksDB: what they find, and what they step over on the way.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <thread>

#include "mdc/metadb/meta_db.h"
#include "mdc/metadb/rocks_memory.h"

namespace reel::mdc {
namespace {

using Content = std::map<std::string, std::string>;

std::uint64_t Passed(const MetaDb& db) {
  for (const auto& [name, value] : db.Counters()) {
    if (name == "removed_keys_passed") return value;
  }
  ADD_FAILURE() << "no such counter";
  return 0;
}

void Change(MetaDb& db, const std::string& key, bool remove) {
  WriteBatch batch;
  if (remove) {
    batch.Delete(key);
  } else {
    batch.Put(key, "value");
  }
  ASSERT_TRUE(db.Apply(batch).ok());
}

std::string Number(unsigned number) {
  char text[9];
  std::snprintf(text, sizeof(text), "%08u", number);
  return text;
}

TEST(MetaDbScanTest, RemovedKeysAreScannedOnce) {
  MemoryStore store;
  MetaDb& db = store.db();
  for (unsigned i = 0; i < 10'000; ++i) Change(db, "a" + Number(i), false);
  for (unsigned i = 0; i < 9'999; ++i) Change(db, "a" + Number(i), true);
  EXPECT_EQ(db.Scan("a", "a", Tier::kAll)->key(), "a" + Number(9'999));
  EXPECT_GE(Passed(db), 9'999u);
  const std::uint64_t before = Passed(db);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(db.Scan("a", "a", Tier::kMemory)->key(), "a" + Number(9'999));
    EXPECT_FALSE(db.Scan("b", "b", Tier::kMemory)->Valid());
    Change(db, "a" + Number(5'000), false);
    EXPECT_EQ(db.Scan("a", "a", Tier::kMemory)->key(), "a" + Number(5'000));
    EXPECT_EQ(db.Scan("a", "a" + Number(9'000), Tier::kMemory, ScanFrom::kAtOrBefore)->key(),
              "a" + Number(5'000));
    Change(db, "a" + Number(5'000), true);
    EXPECT_EQ(db.Scan("a", "a" + Number(9'000), Tier::kMemory, ScanFrom::kAtOrBefore)->key(),
              "a" + Number(9'999));
  }
  EXPECT_LE(Passed(db) - before, 100 * 10u);
}

// The core goes no long ways: a reader thread does, and then the way is short.
TEST(MetaDbScanTest, AScanOfMemoryGivesUpAmongManyRemovedKeys) {
  MemoryStore store;
  MetaDb& db = store.db();
  for (unsigned i = 0; i < 10'000; ++i) Change(db, "a" + Number(i), false);
  for (unsigned i = 1; i < 9'999; ++i) Change(db, "a" + Number(i), true);
  const auto last = [&](Tier tier) {
    auto cursor = db.Scan("a", "a", tier);
    if (cursor->Valid()) cursor->Next();
    EXPECT_TRUE(cursor->status().ok());
    return cursor->not_in_memory() ? std::string("not in memory") : std::string(cursor->key());
  };
  EXPECT_EQ(last(Tier::kMemory), "not in memory");
  EXPECT_LE(Passed(db), 1'000u);
  EXPECT_EQ(db.Scan("a", "a" + Number(9'998), Tier::kMemory, ScanFrom::kAtOrBefore)->Valid(),
            false);
  EXPECT_EQ(last(Tier::kAll), "a" + Number(9'999));
  EXPECT_EQ(last(Tier::kMemory), "a" + Number(9'999));
  EXPECT_EQ(db.Scan("a", "a" + Number(9'998), Tier::kMemory, ScanFrom::kAtOrBefore)->key(),
            "a" + Number(0));
}

// Random changes of few keys, scans from random places, and readers beside them that learn.
TEST(MetaDbScanTest, AScanFindsAllKeys) {
  MemoryStore store;
  MetaDb& db = store.db();
  const std::string prefixes[] = {"a", "b", "c"};
  std::atomic<bool> stop = false;
  std::thread reader([&] {
    std::mt19937 random(2);
    while (!stop) {
      const std::string& prefix = prefixes[random() % 3];
      const auto from = random() % 2 == 0 ? ScanFrom::kAt : ScanFrom::kAtOrBefore;
      auto cursor = db.Scan(prefix, prefix + Number(random() % 400), Tier::kAll, from);
      while (cursor->Valid()) cursor->Next();
    }
  });
  std::mt19937 random(1);
  Content content;
  for (int step = 0; step < 30'000; ++step) {
    // Phases in which much is removed, and in which some is put.
    const bool remove = random() % 100 < (step / 1000 % 2 == 0 ? 40u : 85u);
    const std::string at = prefixes[random() % 3] + Number(random() % 400);
    Change(db, at, remove);
    if (remove) {
      content.erase(at);
    } else {
      content[at] = "value";
    }
    if (step % 4 != 0) continue;
    const std::string& prefix = prefixes[random() % 3];
    const std::string start = prefix + Number(random() % 400);
    const auto from = random() % 2 == 0 ? ScanFrom::kAt : ScanFrom::kAtOrBefore;
    auto expected = content.lower_bound(start);
    if (from == ScanFrom::kAtOrBefore && (expected == content.end() || expected->first != start) &&
        expected != content.begin() && std::prev(expected)->first.starts_with(prefix)) {
      --expected;
    }
    const Tier tier = random() % 2 == 0 ? Tier::kAll : Tier::kMemory;
    auto cursor = db.Scan(prefix, start, tier, from);
    for (int i = 0; i < 20; ++i, ++expected, cursor->Next()) {
      if (cursor->not_in_memory()) {
        ASSERT_EQ(tier, Tier::kMemory);
        break;
      }
      const bool more = expected != content.end() && expected->first.starts_with(prefix);
      ASSERT_EQ(cursor->Valid(), more) << "step " << step << " from " << start;
      if (!more) break;
      ASSERT_EQ(cursor->key(), expected->first) << "step " << step << " from " << start;
    }
  }
  stop = true;
  reader.join();
}

}  // namespace
}  // namespace reel::mdc
