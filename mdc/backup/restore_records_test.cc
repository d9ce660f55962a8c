// What is made of a dump is the store of then, and goes on behind all that was since.
#include "mdc/backup/restore_records.h"

#include <sstream>

#include "gmock/gmock.h"
#include "mdc/backup/dump_writer.h"
#include "mdc/check/checker.h"
#include "mdc/testing/core_harness.h"

namespace reel::mdc {
namespace {

class RestoreRecordsTest : public testing::Test {
 protected:
  RestoreRecordsTest() { a_.Register(); }

  std::uint64_t MakeFile(const std::string& name, std::uint64_t blocks) {
    const std::uint64_t inode = a_.Create(name, /*open=*/true);
    EXPECT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE, true, 0, blocks * kBlock), true),
              0);
    return inode;
  }
  void Dump() {
    Uuid id;
    id.bytes[0] = 1;
    const auto begun = harness_.core_->BeginDump(id);
    ASSERT_TRUE(begun.ok()) << begun.status();
    head_ = {.dump = id,
             .volume = harness_.volume_.volume,
             .epoch = Epoch(harness_.Counter("epoch")),
             .sequence = begun->sequence,
             .taken = begun->taken,
             .descriptor = EncodeDescriptor(harness_.volume_).value()};
    DumpWriter writer(harness_.db(), head_);
    while (!writer.done()) file_ += writer.Next().value();
    harness_.Run();
  }
  absl::Status Restore(const VolumeDescriptor& volume) {
    std::istringstream file(file_);
    DumpReader reader(file);
    const auto head = reader.ReadHead();
    if (!head.ok()) return head.status();
    return RestoreRecords(*head, reader, {restored_.db(), volume, {}, Epoch(500)}).status();
  }
  v1::VolumeRecord VolumeOf(MetaDb& db) {
    std::string bytes;
    EXPECT_TRUE(db.Get(schema::VolumeKey(), &bytes, Tier::kAll).ok());
    v1::VolumeRecord record;
    EXPECT_TRUE(record.ParseFromString(bytes));
    return record;
  }
  CheckTotals Check() {
    return CheckVolume({restored_.db(), harness_.volume_, {}},
                       {.on_phase = {}, .on_problem = [](const Problem& problem) {
                          ADD_FAILURE() << problem.where << ": " << problem.what;
                        }});
  }

  CoreHarness harness_;
  Client a_{harness_, 1};
  DumpHead head_;
  std::string file_;
  MemoryStore restored_;
};

TEST_F(RestoreRecordsTest, TheStoreOfThenIsSound) {
  MakeFile("one", 100);
  MakeFile("two", 50);
  ASSERT_EQ(a_.Do(Client::UnlinkOf("two"), true), 0);  // it is still open
  Dump();
  MakeFile("three", 100);
  ASSERT_TRUE(Restore(harness_.volume_).ok());
  const CheckTotals totals = Check();
  EXPECT_EQ(totals.problems, 0u);
  EXPECT_EQ(totals.entries, 1u);
  EXPECT_EQ(totals.orphans, 1u);
  EXPECT_EQ(totals.sessions, 0u);
  EXPECT_GE(totals.file_blocks, 150u);
  EXPECT_EQ(totals.free_blocks, totals.data_blocks - totals.file_blocks);
}

TEST_F(RestoreRecordsTest, NumbersGoOnBehindAllThatWereGivenOutSince) {
  MakeFile("one", 10);
  Dump();
  for (int i = 0; i < 300; ++i) a_.Create(absl::StrCat("since", i));
  ASSERT_TRUE(Restore(harness_.volume_).ok());
  const v1::VolumeRecord since = VolumeOf(harness_.db()), now = VolumeOf(restored_.db());
  EXPECT_EQ(now.epoch(), 500u);
  EXPECT_GT(now.next_inode(), since.next_inode() + 1'000'000);
  EXPECT_GT(now.next_session(), since.next_session());
  EXPECT_GT(now.sequence_base(), harness_.db().last_applied().value());
  EXPECT_TRUE(now.clean());
}

// The restored volume keeps what the dump names, so that it can be restored once more.
TEST_F(RestoreRecordsTest, TheDumpStaysValid) {
  MakeFile("one", 100);
  Dump();
  ASSERT_TRUE(Restore(harness_.volume_).ok());
  CoreHarness again(restored_.db(), harness_.volume_);
  ASSERT_TRUE(again.Revive(restored_.db()));
  EXPECT_EQ(again.core_->valid_dumps().kept, head_.dump);
  EXPECT_FALSE(again.core_->valid_dumps().begun);
  Client b(again, 2);
  b.Register();
  ASSERT_EQ(b.Do(Client::UnlinkOf("one"), true), 0);
  again.Pass(1'000, {&b});
  v1::ShowReply show;
  again.core_->Describe(show);
  EXPECT_GE(show.waiting_bytes(), 100 * kBlock);
}

TEST_F(RestoreRecordsTest, ADumpThatDoesNotFitIsRefused) {
  MakeFile("one", 100);
  Dump();
  VolumeDescriptor smaller = harness_.volume_;
  smaller.pools[0].sets[0].rows = 1;
  EXPECT_TRUE(absl::IsDataLoss(Restore(smaller)));
  VolumeDescriptor other = harness_.volume_;
  other.volume.bytes[0] ^= 1;
  EXPECT_TRUE(absl::IsDataLoss(Restore(other)));
}

}  // namespace
}  // namespace reel::mdc
