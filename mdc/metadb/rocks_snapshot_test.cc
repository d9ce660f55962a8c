// A snapshot is the store of one moment, whatever is changed, removed or compacted afterwards.
#include "mdc/metadb/rocks_snapshot.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <string>

#include "mdc/metadb/rocks_memory.h"

namespace reel::mdc {
namespace {

std::map<std::string, std::string> AllOf(const Snapshot& snapshot, const std::string& prefix) {
  std::map<std::string, std::string> all;
  const auto cursor = snapshot.Scan(prefix);
  for (; cursor->Valid(); cursor->Next()) all.emplace(cursor->key(), cursor->value());
  EXPECT_TRUE(cursor->status().ok());
  return all;
}

TEST(RocksSnapshotTest, ShowsNothingThatIsAppliedLater) {
  MemoryStore store;
  MetaDb& db = store.db();
  WriteBatch first;
  first.Put("a1", "old");
  first.Put("a2", "old");
  first.Put("b1", "old");
  ASSERT_TRUE(db.Apply(first).ok());
  const auto before = db.TakeSnapshot();
  WriteBatch second;
  second.Put("a1", "new");
  second.Delete("a2");
  second.Put("a3", "new");
  second.Cleared("a2", "a3");
  ASSERT_TRUE(db.Apply(second).ok());
  const auto after = db.TakeSnapshot();
  std::atomic<bool> cancelled{false};
  ASSERT_TRUE(db.Compact(cancelled).ok());

  EXPECT_EQ(AllOf(*before, "a"),
            (std::map<std::string, std::string>{{"a1", "old"}, {"a2", "old"}}));
  EXPECT_EQ(AllOf(*after, "a"), (std::map<std::string, std::string>{{"a1", "new"}, {"a3", "new"}}));
  std::string value;
  EXPECT_EQ(*before->Get("a2", &value), Found::kYes);
  EXPECT_EQ(value, "old");
  EXPECT_EQ(*after->Get("a2", &value), Found::kNo);
}

TEST(RocksSnapshotTest, ARangeEndsBeforeItsEnd) {
  MemoryStore store;
  WriteBatch batch;
  for (const char* key : {"a", "ab", "b", "b\xff", "c"}) batch.Put(key, std::string(1000, 'x'));
  ASSERT_TRUE(store.db().Apply(batch).ok());
  const auto snapshot = store.db().TakeSnapshot();
  const auto keys = [&](std::string_view from, std::string_view to) {
    std::string all;
    const auto cursor = snapshot->ScanRange(from, to);
    for (; cursor->Valid(); cursor->Next()) all.append(cursor->key()).append(" ");
    return all;
  };
  EXPECT_EQ(keys("ab", "b\xff"), "ab b ");
  EXPECT_EQ(keys("b", ""), "b b\xff c ");
  EXPECT_EQ(keys("b", EndOfPrefix("b")), "b b\xff ");
  EXPECT_EQ(keys("d", ""), "");
  std::atomic<bool> cancelled{false};
  ASSERT_TRUE(store.db().Compact(cancelled).ok());
  EXPECT_EQ(store.db().TakeSnapshot()->ApproximateBytes("x", "y"), 0u);
}

}  // namespace
}  // namespace reel::mdc
