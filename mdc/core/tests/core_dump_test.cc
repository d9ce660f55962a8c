// While a dump of the metadata is valid, no block that it names is given to another file.
#include <set>

#include "gmock/gmock.h"
#include "mdc/metadb/schema.h"
#include "mdc/testing/core_harness.h"
#include "proto/records.pb.h"

namespace reel::mdc {
namespace {

using Blocks = std::set<std::uint64_t>;

Uuid DumpId(std::uint8_t number) {
  Uuid id;
  id.bytes[0] = number;
  return id;
}

class CoreDumpTest : public testing::Test {
 protected:
  CoreDumpTest() {
    harness_.options_.steps.reaped = 8;
    harness_.Restart();
    a_.Register();
  }

  void Begin(std::uint8_t number) {
    const auto begun = harness_.core_->BeginDump(DumpId(number));
    ASSERT_TRUE(begun.ok()) << begun.status();
    harness_.Run();
  }
  void End(std::optional<std::uint8_t> kept) {
    std::optional<Uuid> id;
    if (kept) id = DumpId(*kept);
    const auto ended = harness_.core_->EndDumps(id);
    ASSERT_TRUE(ended.ok()) << ended.status();
    Settle();
  }
  void Take(std::uint8_t number) {
    Begin(number);
    End(number);
  }
  void Settle() { harness_.Pass(1'000, {&a_}); }
  void RegisterAnew() {
    harness_.Pass(2 * 10'000);  // its lease runs out
    a_.sequences_.clear();
    a_.Register();
  }

  // Blocks of the piece of a file; the errno where it gets none.
  int Fill(std::uint64_t inode, std::uint64_t from, std::uint64_t blocks) {
    return a_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE, /*allocate=*/true, from * kBlock,
                                  blocks * kBlock),
                 true);
  }
  std::uint64_t MakeFile(const std::string& name, std::uint64_t blocks) {
    const std::uint64_t inode = a_.Create(name, /*open=*/true);
    EXPECT_EQ(Fill(inode, 0, blocks), 0);
    return inode;
  }
  void Remove(const std::string& name, std::uint64_t inode) {
    EXPECT_EQ(a_.Do(Client::UnlinkOf(name), true), 0);
    EXPECT_EQ(a_.Do(Client::CloseOf(inode)), 0);
    EXPECT_EQ(a_.Do(Client::ReturnOf(inode), true), 0);
    Settle();
    EXPECT_TRUE(BlocksOf(inode).empty());
  }
  // As the store has them.
  Blocks BlocksOf(std::uint64_t inode) {
    Blocks blocks;
    const std::string prefix = schema::ExtentPrefix(InodeNumber(inode));
    for (auto c = harness_.db().Scan(prefix, prefix, Tier::kAll); c->Valid(); c->Next()) {
      v1::ExtentRecord record;
      EXPECT_TRUE(record.ParseFromString(std::string(c->value())));
      for (std::uint64_t i = 0; i < record.length_blocks(); ++i) {
        blocks.insert(record.places(0).pool_block() + i);
      }
    }
    return blocks;
  }
  std::uint64_t Waiting() const {
    v1::ShowReply show;
    harness_.core_->Describe(show);
    return show.waiting_bytes() / kBlock;
  }
  // Takes all space that a file can get, in pieces; how the last one ended.
  int FillUp(std::uint64_t inode) {
    constexpr std::uint64_t kPiece = 4096;
    int error = 0;
    for (std::uint64_t piece = 0; error == 0; ++piece) error = Fill(inode, piece * kPiece, kPiece);
    if (error != ENOSPC) return error;  // the slot waits
    std::uint64_t next = 1 << 20;
    for (error = 0; error == 0; next += 64) error = Fill(inode, next, 64);
    return error;
  }
  static std::size_t Shared(const Blocks& a, const Blocks& b) {
    std::size_t shared = 0;
    for (const std::uint64_t block : a) shared += b.count(block);
    return shared;
  }

  CoreHarness harness_;
  Client a_{harness_, 1};
};

TEST_F(CoreDumpTest, BlocksThatADumpNamesAreGivenToNobodyElse) {
  const std::uint64_t file = MakeFile("file", 1000);
  const Blocks named = BlocksOf(file);
  Take(1);
  Remove("file", file);
  EXPECT_GE(Waiting(), named.size());
  const std::uint64_t big = a_.Create("big", /*open=*/true);
  EXPECT_EQ(FillUp(big), -1) << "it waits until the dump is void";
  EXPECT_TRUE(harness_.void_dumps_);
  EXPECT_EQ(Shared(BlocksOf(big), named), 0u);
}

TEST_F(CoreDumpTest, WhatWaitsIsUsedOnceTheDumpIsVoid) {
  const std::uint64_t file = MakeFile("file", 1000);
  const Blocks named = BlocksOf(file);
  Take(1);
  Remove("file", file);
  const std::uint64_t big = a_.Create("big", /*open=*/true);
  ASSERT_EQ(FillUp(big), -1);
  const std::uint64_t waits = a_.last_id_;
  End(std::nullopt);
  ASSERT_TRUE(a_.Answered(waits));
  EXPECT_EQ(a_.Answer(waits).error(), 0);
  EXPECT_EQ(Waiting(), 0u);
  EXPECT_GT(Shared(BlocksOf(big), named), 0u);
  EXPECT_FALSE(harness_.core_->valid_dumps().any());
}

TEST_F(CoreDumpTest, WhereTheDumpCannotBeMadeVoidThereIsNoSpace) {
  const std::uint64_t file = MakeFile("file", 1000);
  Take(1);
  Remove("file", file);
  const std::uint64_t big = a_.Create("big", /*open=*/true);
  ASSERT_EQ(FillUp(big), -1);
  const std::uint64_t waits = a_.last_id_;
  harness_.core_->OnVoidFailed();
  harness_.Run();
  ASSERT_TRUE(a_.Answered(waits));
  EXPECT_EQ(a_.Answer(waits).error(), ENOSPC);
  EXPECT_EQ(harness_.core_->valid_dumps().kept, DumpId(1)) << "it is as valid as before";
  EXPECT_GE(Waiting(), 1000u);
}

TEST_F(CoreDumpTest, MoreThanThereIsVoidsNothing) {
  const std::uint64_t file = MakeFile("file", 1000);
  Take(1);
  Remove("file", file);
  v1::Request request;
  request.mutable_allocate()->set_inode(MakeFile("huge", 1));
  request.mutable_allocate()->set_length_bytes(2 * kGiB);  // of a volume of 1 GiB
  EXPECT_EQ(a_.Do(request, true), ENOSPC);
  EXPECT_FALSE(harness_.void_dumps_);
}

TEST_F(CoreDumpTest, WhatWasAllocatedSinceIsFreeAtOnce) {
  Take(1);
  const std::uint64_t file = MakeFile("file", 1000);
  const std::uint64_t free = harness_.FreeBlocks();
  Remove("file", file);
  EXPECT_EQ(Waiting(), 0u);
  EXPECT_GE(harness_.FreeBlocks(), free + 1000);
}

// The part that the dump names and the part behind it are one record: it counts as the older one.
TEST_F(CoreDumpTest, AFileThatGrewSinceWaitsAsAWhole) {
  const std::uint64_t file = MakeFile("file", 100);
  const Blocks named = BlocksOf(file);
  Take(1);
  ASSERT_EQ(Fill(file, BlocksOf(file).size(), 100), 0);
  Remove("file", file);
  EXPECT_GE(Waiting(), named.size());
}

TEST_F(CoreDumpTest, HolesAndTruncationsWait) {
  const std::uint64_t file = MakeFile("file", 100);
  const Blocks named = BlocksOf(file);
  Take(1);
  v1::Request cut;
  cut.mutable_set_attr()->set_inode(file);
  cut.mutable_set_attr()->set_fields(v1::SetAttr::SIZE);
  cut.mutable_set_attr()->set_size_bytes(0);
  ASSERT_EQ(a_.Do(cut, true), 0);
  Settle();
  EXPECT_GE(Waiting(), named.size());
}

TEST_F(CoreDumpTest, ATakeoverKeepsWhatWaits) {
  const std::uint64_t before = MakeFile("before", 500);
  const std::uint64_t after = MakeFile("after", 500);
  const Blocks named[] = {BlocksOf(before), BlocksOf(after)};
  Take(1);
  Remove("before", before);
  harness_.Restart();
  RegisterAnew();
  EXPECT_EQ(a_.Do(Client::UnlinkOf("after"), true), 0);
  Settle();
  EXPECT_EQ(harness_.core_->valid_dumps().kept, DumpId(1));
  EXPECT_GE(Waiting(), 1000u);
  const std::uint64_t big = a_.Create("big", /*open=*/true);
  EXPECT_EQ(FillUp(big), -1);
  for (const Blocks& blocks : named) EXPECT_EQ(Shared(BlocksOf(big), blocks), 0u);
}

TEST_F(CoreDumpTest, ATakeoverGoesOnFreeingWhatNeedNotWait) {
  std::vector<std::uint64_t> files;
  for (int i = 0; i < 20; ++i) files.push_back(MakeFile(absl::StrCat("file", i), 10));
  Take(1);
  for (int i = 0; i < 20; ++i) Remove(absl::StrCat("file", i), files[static_cast<std::size_t>(i)]);
  ASSERT_GE(Waiting(), 200u);
  ASSERT_TRUE(harness_.core_->EndDumps(std::nullopt).ok());
  harness_.core_->OnTick();  // the first step
  ASSERT_TRUE(harness_.db().Sync().ok());
  harness_.Restart();
  EXPECT_GT(Waiting(), 0u);
  RegisterAnew();
  Settle();
  EXPECT_EQ(Waiting(), 0u);
}

TEST_F(CoreDumpTest, ANewerDumpLetsGoOfWhatOnlyTheOlderNames) {
  const std::uint64_t first = MakeFile("first", 300);
  const std::uint64_t second = MakeFile("second", 300);
  const Blocks named[] = {BlocksOf(first), BlocksOf(second)};
  Take(1);
  Remove("first", first);
  Begin(2);
  Remove("second", second);  // both name it
  EXPECT_EQ(Waiting(), named[0].size() + named[1].size()) << "both are valid";
  End(2);
  EXPECT_EQ(Waiting(), named[1].size()) << "the first was freed before the second began";
  EXPECT_EQ(harness_.core_->valid_dumps().kept, DumpId(2));
}

// It is named by the one that was begun alone, and that one came to nothing.
TEST_F(CoreDumpTest, ADumpThatWasGivenUpLeavesTheOneBefore) {
  const std::uint64_t first = MakeFile("first", 300);
  const Blocks named = BlocksOf(first);
  Take(1);
  Begin(2);
  End(1);
  EXPECT_EQ(harness_.core_->valid_dumps().kept, DumpId(1));
  EXPECT_FALSE(harness_.core_->valid_dumps().begun);
  Remove("first", first);
  EXPECT_GE(Waiting(), named.size());
  const std::uint64_t since = MakeFile("since", 300);
  const std::uint64_t waiting = Waiting();
  Remove("since", since);
  EXPECT_EQ(Waiting(), waiting) << "it was allocated after the one that counts";
}

TEST_F(CoreDumpTest, OnlyAValidDumpIsKept) {
  Begin(1);
  EXPECT_TRUE(absl::IsFailedPrecondition(harness_.core_->BeginDump(DumpId(2)).status()));
  EXPECT_TRUE(absl::IsNotFound(harness_.core_->EndDumps(DumpId(3)).status()));
  EXPECT_EQ(harness_.core_->valid_dumps().begun, DumpId(1));
  harness_.Restart();
  EXPECT_EQ(harness_.core_->valid_dumps().begun, DumpId(1)) << "its end is not known";
}

// Programs from before would give the blocks away.
TEST_F(CoreDumpTest, EarlierReleasesRefuseTheVolume) {
  Take(1);
  std::string bytes;
  ASSERT_TRUE(harness_.db().Get(schema::VolumeKey(), &bytes, Tier::kAll).ok());
  v1::VolumeRecord record;
  ASSERT_TRUE(record.ParseFromString(bytes));
  EXPECT_EQ(record.format(), 3u);
}

}  // namespace
}  // namespace reel::mdc
