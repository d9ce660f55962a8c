#include "mdc/metadb/txn.h"

#include <cerrno>

#include "gtest/gtest.h"
#include "mdc/metadb/rocks_memory.h"
#include "mdc/metadb/schema.h"
#include "mdc/testing/rocks_crash_store.h"
#include "proto/status.h"

namespace reel::mdc {
namespace {

class TxnTest : public testing::Test {
 protected:
  Sequence Commit(Txn& txn) {
    const WriteBatch batch = txn.TakeBatch();
    const Sequence sequence = store_.db().Apply(batch).value();
    in_flight_.Applied(batch, sequence);
    return sequence;
  }
  MemoryStore store_;
  InFlight in_flight_;
};

TEST_F(TxnTest, ReadsItsOwnWrites) {
  Txn txn(store_.db(), in_flight_, Tier::kAll);
  EXPECT_FALSE(txn.Get("Va")->has_value());
  txn.Put("Va", "1");
  EXPECT_EQ(**txn.Get("Va"), "1");
  txn.Delete("Va");
  EXPECT_FALSE(txn.Get("Va")->has_value());
}

TEST_F(TxnTest, InodesAreLoadedOnceAndStoredWhenChanged) {
  const InodeNumber inode(5);
  {
    Txn txn(store_.db(), in_flight_, Tier::kAll);
    EXPECT_EQ(ErrnoOf(txn.Inode(inode).status()), ESTALE);
    txn.NewInode(inode)->set_uid(42);
    Commit(txn);
  }
  Txn txn(store_.db(), in_flight_, Tier::kAll);
  v1::InodeRecord* record = *txn.Inode(inode);
  EXPECT_EQ(record->uid(), 42u);
  EXPECT_EQ(*txn.Inode(inode), record);
  Txn unchanged(store_.db(), in_flight_, Tier::kAll);
  EXPECT_TRUE(unchanged.Inode(inode).ok());
  EXPECT_TRUE(unchanged.TakeBatch().empty());
  txn.DeleteInode(inode);
  EXPECT_EQ(ErrnoOf(txn.Inode(inode).status()), ESTALE);
  Commit(txn);
  Txn after(store_.db(), in_flight_, Tier::kAll);
  EXPECT_EQ(ErrnoOf(after.Inode(inode).status()), ESTALE);
}

// An operation that goes on after a miss has all that it lacks fetched at once.
TEST_F(TxnTest, WhatIsMissedBesidesIsFetchedWithTheFirst) {
  CrashStore store;
  v1::InodeRecord record;
  record.set_inline_data(std::string(1'000, 'v'));
  for (std::uint64_t inode = 1; inode <= 2'000; ++inode) {
    WriteBatch batch;
    batch.Put(schema::InodeKey(InodeNumber(inode)), record.SerializeAsString());
    ASSERT_TRUE(store.db->Apply(batch).ok());
  }
  ASSERT_TRUE(store.db->Sync().ok());
  ASSERT_TRUE(store.Open().ok());
  const std::vector<std::string> keys = {schema::InodeKey(InodeNumber(17)),
                                         schema::InodeKey(InodeNumber(600)),
                                         schema::InodeKey(InodeNumber(1'200))};
  Txn reader(*store.db, in_flight_, Tier::kMemory);
  for (const std::string& key : keys) EXPECT_FALSE(reader.Get(key).ok());
  ASSERT_TRUE(reader.missed());
  EXPECT_EQ(reader.missed()->key, keys[0]);
  ASSERT_EQ(reader.missed()->also.size(), 2u);
  EXPECT_EQ(reader.missed()->also[0].key, keys[1]);
  EXPECT_EQ(reader.missed()->also[1].key, keys[2]);
}

TEST_F(TxnTest, DamagedRecordIsDataLoss) {
  Txn txn(store_.db(), in_flight_, Tier::kAll);
  txn.Put(schema::InodeKey(InodeNumber(5)), "\xff\xff");
  Commit(txn);
  Txn reader(store_.db(), in_flight_, Tier::kAll);
  EXPECT_EQ(reader.Inode(InodeNumber(5)).status().code(), absl::StatusCode::kDataLoss);
}

// What was read and is not durable, deletions too, holds up the reply.
TEST_F(TxnTest, SeesTheHighestSequenceInFlight) {
  Txn first(store_.db(), in_flight_, Tier::kAll);
  first.Put("Va", "1");
  const Sequence one = Commit(first);
  Txn second(store_.db(), in_flight_, Tier::kAll);
  second.Delete("Va");
  second.Put("Vb", "2");
  const Sequence two = Commit(second);
  EXPECT_LT(one, two);
  {
    Txn reader(store_.db(), in_flight_, Tier::kAll);
    EXPECT_TRUE(reader.Get("Vc").ok());
    EXPECT_EQ(reader.seen(), Sequence(0));
    EXPECT_FALSE(reader.Get("Va")->has_value());
    EXPECT_EQ(reader.seen(), two);
  }
  in_flight_.Durable(one);
  EXPECT_EQ(in_flight_.SequenceOf("Va"), two);
  in_flight_.Durable(two);
  EXPECT_EQ(in_flight_.SequenceOf("Va"), Sequence(0));
  EXPECT_EQ(in_flight_.SequenceOf("Vb"), Sequence(0));
}

TEST_F(TxnTest, BatchIsSortedAndComplete) {
  Txn txn(store_.db(), in_flight_, Tier::kAll);
  for (char c = 'z'; c >= 'a'; --c) txn.Put(std::string("V") + c, "x");
  txn.Delete("Vc");
  const WriteBatch batch = txn.TakeBatch();
  ASSERT_EQ(batch.changes().size(), 26u);
  for (std::size_t i = 1; i < 26; ++i)
    EXPECT_LT(batch.changes()[i - 1].key, batch.changes()[i].key);
  EXPECT_TRUE(batch.changes()[2].remove);
  EXPECT_TRUE(txn.TakeBatch().empty());
}

}  // namespace
}  // namespace reel::mdc
