// Damage to the bytes of a metadata store: each kind is planted, repaired, and what can be read of
// the records is there afterwards.
#include "mdc/repair/store_repair.h"

#include <gmock/gmock.h>

#include <atomic>
#include <map>

#include "mdc/metadb/schema.h"
#include "mdc/metafs/file_io.h"
#include "mdc/metafs/journal.h"
#include "mdc/metafs/superblock.h"
#include "mdc/testing/test_volume.h"
#include "proto/records.pb.h"
#include "spdlog/spdlog.h"
#include "volume/base/aligned_buffer.h"

namespace reel::mdc {
namespace {

using metafs::MetaFs;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr std::uint64_t kRecords = 3000;

class StoreRepairTest : public ::testing::Test {
 protected:
  StoreRepairTest() {
    spdlog::set_level(spdlog::level::off);  // RocksDB has much to say about damage
    Fill();
  }

  OpenVolume Open() {
    auto volume = OpenVolumeByName("reel", images_.paths(), LunAccess::kReadWrite);
    EXPECT_TRUE(volume.ok()) << volume.status();
    return *std::move(volume);
  }

  // Attributes with values that do not compress, in several tables; every tenth deleted again, and
  // the last hundred in the log only.
  void Fill() {
    OpenVolume volume = Open();
    auto store = Store::Open(volume, {.cache_bytes = kMiB});
    ASSERT_TRUE(store.ok()) << store.status();
    std::uint32_t noise = 1;
    for (std::uint64_t i = 0; i < kRecords; ++i) {
      std::string value(500, '\0');
      for (char& c : value) c = static_cast<char>((noise = noise * 1664525 + 1013904223) >> 24);
      expected_[Key(i)] = value;
      WriteBatch batch;
      batch.Put(Key(i), value);
      if (i % 10 == 9) {
        batch.Delete(Key(i - 5));
        expected_.erase(Key(i - 5));
      }
      ASSERT_TRUE((*store)->db().Apply(batch).ok());
      if (i % 100 == 99) {
        ASSERT_TRUE((*store)->db().Sync().ok());
      }
    }
    last_applied_ = (*store)->db().last_applied().value();
  }
  static std::string Key(std::uint64_t i) { return schema::XattrKey(InodeNumber(i), "user.noise"); }

  // Hands the mounted file system to `change`, as nobody else does between two mounts.
  void Change(const std::function<void(MetaFs&)>& change) {
    OpenVolume volume = Open();
    metafs::PoolSpace space(volume);
    const auto reading = metafs::ReadSuperblock(space);
    ASSERT_TRUE(reading.ok());
    auto fs = MetaFs::Mount(space, {.epoch = reading->superblock.epoch + 1});
    ASSERT_TRUE(fs.ok()) << fs.status();
    change(**fs);
    ASSERT_TRUE((*fs)->Unmount().ok());
  }
  // One bit of a file, at a part of its length.
  static void Flip(MetaFs& fs, const std::string& path, double where) {
    const auto file = fs.Find(path);
    ASSERT_TRUE(file.ok()) << file.status();
    const auto size = fs.SizeOf(**file);
    ASSERT_TRUE(size.ok()) << size.status();
    std::uint64_t bytes = *size;
    if ((*file)->kind == metafs::FileKind::kLog) {
      bytes = DivideUp(bytes, metafs::kFramePayloadBytes) * metafs::kFrameBytes;
    }
    const auto at = static_cast<std::uint64_t>(static_cast<double>(bytes - 1) * where);
    AlignedBuffer buffer(4096);
    ASSERT_TRUE(fs.ReadChunks(**file, RoundDown(at, 4096), buffer.span()).ok());
    buffer.data()[at % 4096] ^= std::byte{8};
    ASSERT_TRUE(fs.WriteChunks(**file, RoundDown(at, 4096), buffer.span()).ok());
    ASSERT_TRUE(fs.Flush().ok());
  }
  // The store's files of this ending or beginning, the largest first.
  static std::vector<std::string> Files(const MetaFs& fs, const std::string& part) {
    std::multimap<std::uint64_t, std::string, std::greater<>> found;
    for (const std::string& name : fs.List("/meta")) {
      const std::string path = "/meta/" + name;
      if (name.ends_with(part) || name.starts_with(part)) {
        found.emplace(fs.SizeOf(**fs.Find(path)).value_or(0), path);
      }
    }
    std::vector<std::string> paths;
    for (auto& [size, path] : found) paths.push_back(path);
    return paths;
  }
  void FlipIn(const std::string& part, double where) {
    Change([&](MetaFs& fs) {
      const auto paths = Files(fs, part);
      ASSERT_FALSE(paths.empty());
      Flip(fs, paths[0], where);
    });
  }

  void DamageJournal(std::uint64_t at) {
    OpenVolume volume = Open();
    metafs::PoolSpace space(volume);
    const metafs::Superblock superblock = metafs::ReadSuperblock(space)->superblock;
    ASSERT_TRUE(space.SetRegions(superblock.regions).ok());
    const std::uint64_t block =
        superblock.journal[0].first * superblock.chunk_bytes + RoundDown(at, 4096);
    AlignedBuffer buffer(4096);
    ASSERT_TRUE(space.Read(block, buffer.span()).ok());
    buffer.data()[at % 4096] ^= std::byte{1};
    ASSERT_TRUE(space.Write(block, buffer.span()).ok());
  }
  // Both superblocks and all that is between them.
  void WipeHead() {
    OpenVolume volume = Open();
    metafs::PoolSpace space(volume);
    ASSERT_TRUE(space.Write(0, AlignedBuffer::Zeroed(metafs::kHeadBytes).span()).ok());
  }

  bool IsSound() {
    OpenVolume volume = Open();
    if (!Store::Check(volume).empty()) return false;
    auto store = Store::Open(volume, {.read_only = true, .cache_bytes = kMiB});
    return store.ok() && (*store)->db().VerifyChecksums().ok();
  }
  absl::StatusOr<StoreRepair> Repair(bool rebuild = true) {
    return Repair(StoreRepairOptions{.rebuild = rebuild});
  }
  absl::StatusOr<StoreRepair> Repair(const StoreRepairOptions& options) {
    OpenVolume volume = Open();
    lines_.clear();
    return RepairStore(volume, options, [&](const Problem& action) {
      lines_.push_back(action.where + ": " + action.what);
    });
  }
  // The damage is seen and repaired; how many records are there afterwards, all of them right.
  std::uint64_t KeptAfterRepair(StoreRepair expected_outcome = StoreRepair::kRebuilt) {
    EXPECT_FALSE(IsSound()) << "no damage was planted";
    const auto outcome = Repair();
    EXPECT_TRUE(outcome.ok()) << outcome.status();
    if (!outcome.ok()) return 0;
    EXPECT_EQ(*outcome, expected_outcome);
    EXPECT_FALSE(lines_.empty());
    EXPECT_TRUE(IsSound());
    OpenVolume volume = Open();
    auto store = Store::Open(volume, {.cache_bytes = kMiB});
    EXPECT_TRUE(store.ok()) << store.status();
    if (!store.ok()) return 0;
    std::uint64_t kept = 0;
    const std::string prefix = schema::Prefix(schema::Family::kXattr);
    for (auto cursor = (*store)->db().Scan(prefix, prefix, Tier::kAll); cursor->Valid();
         cursor->Next()) {
      const auto found = expected_.find(std::string(cursor->key()));
      if (found == expected_.end()) {
        ++resurrected_;
      } else {
        EXPECT_EQ(found->second, cursor->value());
        ++kept;
      }
    }
    v1::VolumeRecord record;
    std::string value;
    EXPECT_TRUE((*store)->db().Get(schema::VolumeKey(), &value, Tier::kAll).ok());
    EXPECT_TRUE(record.ParseFromString(value));
    EXPECT_GE(record.sequence_base() + (*store)->db().last_applied().value(), last_applied_)
        << "sequences never go back";
    return kept;
  }

  static constexpr std::uint64_t kLargeTableBytes = 64 * kKiB;

  TestVolumeOnImages images_;
  std::map<std::string, std::string> expected_;
  std::uint64_t last_applied_ = 0;
  std::uint64_t resurrected_ = 0;
  std::vector<std::string> lines_;
};

TEST_F(StoreRepairTest, ASoundStoreStaysAsItIs) {
  ASSERT_TRUE(IsSound());
  const auto outcome = Repair();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(*outcome, StoreRepair::kWhole);
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(StoreRepairTest, OneBitInATableCostsABlock) {
  FlipIn(".sst", 0.3);
  EXPECT_GE(KeptAfterRepair(), expected_.size() - 40);
  EXPECT_EQ(resurrected_, 0u);
  EXPECT_THAT(lines_, ::testing::Contains(HasSubstr("could not be read")));
}

TEST_F(StoreRepairTest, BitsInAllTables) {
  Change([](MetaFs& fs) {
    for (const std::string& path : Files(fs, ".sst")) {
      // In one of a block, that would be where it says what it is.
      if (fs.SizeOf(**fs.Find(path)).value_or(0) > kLargeTableBytes) Flip(fs, path, 0.4);
    }
  });
  EXPECT_GE(KeptAfterRepair(), expected_.size() * 9 / 10);
}

TEST_F(StoreRepairTest, ATableThatCannotBeOpened) {
  std::size_t tables = 0;
  Change([&](MetaFs& fs) {
    tables = Files(fs, ".sst").size();
    Flip(fs, Files(fs, ".sst").back(), 0.99999);
  });
  ASSERT_GT(tables, 1u);
  EXPECT_GE(KeptAfterRepair(), expected_.size() / 2);
}

TEST_F(StoreRepairTest, TheManifest) {
  FlipIn("MANIFEST-", 0.5);
  EXPECT_EQ(KeptAfterRepair(), expected_.size());
}

TEST_F(StoreRepairTest, TheNameOfTheManifest) {
  FlipIn("CURRENT", 0.5);
  EXPECT_EQ(KeptAfterRepair(), expected_.size());
  EXPECT_EQ(resurrected_, 0u);
}

TEST_F(StoreRepairTest, ALogIsCutAtTheDamage) {
  FlipIn(".log", 0.9);
  EXPECT_GE(KeptAfterRepair(), expected_.size() / 2);
  EXPECT_THAT(lines_, ::testing::Contains(HasSubstr("what followed is lost")));
}

TEST_F(StoreRepairTest, TheJournal) {
  DamageJournal(600);  // in the checkpoint
  EXPECT_GT(KeptAfterRepair(), 0u);
}

TEST_F(StoreRepairTest, OneSuperblock) {
  OpenVolume volume = Open();
  metafs::PoolSpace space(volume);
  const int slot = metafs::ReadSuperblock(space)->slot;
  ASSERT_TRUE(
      space.Write(metafs::kSuperblockOffsets[slot], AlignedBuffer::Zeroed(4096).span()).ok());
  volume = OpenVolume();
  EXPECT_EQ(KeptAfterRepair(StoreRepair::kWhole), expected_.size());
}

TEST_F(StoreRepairTest, BothSuperblocks) {
  WipeHead();
  EXPECT_EQ(KeptAfterRepair(StoreRepair::kWhole), expected_.size());
  EXPECT_THAT(lines_, ::testing::Contains(HasSubstr("both slots made anew")));
}

TEST_F(StoreRepairTest, BothSuperblocksAndTheEndOfTheJournal) {
  // The last write of the journal, which says that the store was closed.
  Change([](MetaFs&) {});
  DamageJournal(metafs::kSpaceUnitBytes * 3 / 2);
  WipeHead();
  EXPECT_EQ(KeptAfterRepair(), expected_.size());
  EXPECT_THAT(lines_, ::testing::Contains(HasSubstr("both slots made anew")));
}

TEST_F(StoreRepairTest, BothSuperblocksAndAllJournalsAreTheEnd) {
  OpenVolume volume = Open();
  metafs::PoolSpace space(volume);
  const metafs::Superblock superblock = metafs::ReadSuperblock(space)->superblock;
  ASSERT_TRUE(space.SetRegions(superblock.regions).ok());
  AlignedBuffer buffer(superblock.chunk_bytes);
  for (std::uint64_t chunk = 0; chunk < superblock.total_chunks(); ++chunk) {
    const std::uint64_t at = chunk * superblock.chunk_bytes;
    ASSERT_TRUE(space.Read(at, buffer.span()).ok());
    if (!metafs::LeadingSuperblock(buffer.span().subspan(metafs::kFrameHeaderBytes)).ok()) continue;
    ASSERT_TRUE(space.Write(at, AlignedBuffer::Zeroed(4096).span()).ok());
  }
  volume = OpenVolume();
  WipeHead();
  const auto outcome = Repair();
  EXPECT_TRUE(absl::IsDataLoss(outcome.status()));
  EXPECT_THAT(std::string(outcome.status().message()), HasSubstr("cannot be repaired"));
  EXPECT_THAT(lines_, IsEmpty());
}

TEST_F(StoreRepairTest, ARepairWhoseTermEndsCanBeRunAgain) {
  FlipIn(".sst", 0.3);
  int runs = 1;
  for (int writes = 0;; writes += 1 + writes / 4, ++runs) {
    ASSERT_LT(writes, 100'000);
    std::atomic<int> left = writes;
    const auto outcome = Repair({.may_write = [&left] {
      return --left >= 0 ? absl::OkStatus() : absl::AbortedError("the term is over");
    }});
    if (outcome.ok()) break;
    EXPECT_LT(left, 0) << outcome.status();
  }
  EXPECT_GT(runs, 3);
  EXPECT_TRUE(IsSound());
}

TEST_F(StoreRepairTest, NothingIsDroppedWithoutPermission) {
  FlipIn(".sst", 0.3);
  EXPECT_TRUE(absl::IsDataLoss(Repair(/*rebuild=*/false).status()));
  EXPECT_THAT(lines_, IsEmpty());
  EXPECT_GE(KeptAfterRepair(), expected_.size() - 40);
}

// Values that fill half of the store, so that there is no room for them twice.
class FullStoreRepairTest : public StoreRepairTest {
 protected:
  static constexpr std::uint64_t kFirst = 100'000, kMore = 21'000;

  FullStoreRepairTest() { Alter(/*removes=*/false, kFirst, kFirst + kMore); }

  void Alter(bool removes, std::uint64_t from, std::uint64_t to) {
    OpenVolume volume = Open();
    auto store = Store::Open(volume, {.cache_bytes = kMiB});
    ASSERT_TRUE(store.ok()) << store.status();
    for (std::uint64_t i = from; i < to; ++i) {
      WriteBatch batch;
      if (removes) {
        batch.Delete(Key(i));
      } else {
        batch.Put(Key(i), Value(i));
      }
      ASSERT_TRUE((*store)->db().Apply(batch).ok());
      if (i % 100 == 99) {
        ASSERT_TRUE((*store)->db().Sync().ok());
      }
    }
    ASSERT_TRUE((*store)->db().Sync().ok());
  }
  static std::string Value(std::uint64_t i) {
    auto noise = static_cast<std::uint32_t>(i * 2654435761u);
    std::string value(500, '\0');
    for (char& c : value) c = static_cast<char>((noise = noise * 1664525 + 1013904223) >> 24);
    return value;
  }
  // How many of those values are there and right, as a controller that serves it reads them.
  std::uint64_t Served() {
    OpenVolume volume = Open();
    auto store = Store::Open(volume, {.cache_bytes = kMiB});
    EXPECT_TRUE(store.ok()) << store.status();
    std::uint64_t count = 0;
    std::string value;
    for (std::uint64_t i = kFirst; store.ok() && i < kFirst + kMore; ++i) {
      const auto found = (*store)->db().Get(Key(i), &value, Tier::kAll);
      count += found.ok() && *found == Found::kYes && value == Value(i) ? 1 : 0;
    }
    return count;
  }
};

TEST_F(FullStoreRepairTest, ARebuildWithoutRoomLeavesAllAsItWas) {
  FlipIn(".sst", 0.3);
  const std::uint64_t served = Served();
  EXPECT_GT(served, kMore / 2);
  for (int runs = 0; runs < 2; ++runs) {
    const auto outcome = Repair();
    ASSERT_TRUE(absl::IsResourceExhausted(outcome.status())) << outcome.status();
    EXPECT_THAT(std::string(outcome.status().message()),
                AllOf(HasSubstr("too full to be rebuilt"), HasSubstr("remove files")));
    EXPECT_THAT(lines_, IsEmpty()) << "nothing was done";
    EXPECT_EQ(Served(), served);
  }
  Alter(/*removes=*/true, kFirst + kMore / 4, kFirst + kMore);
  const auto outcome = Repair();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_TRUE(IsSound());
  EXPECT_GE(Served(), kMore / 4 - 40);
}

TEST_F(FullStoreRepairTest, ARebuildWithoutAManifestPromisesNothing) {
  FlipIn("MANIFEST-", 0.5);
  for (int runs = 0; runs < 2; ++runs) {
    const auto outcome = Repair();
    ASSERT_TRUE(absl::IsResourceExhausted(outcome.status())) << outcome.status();
    EXPECT_THAT(std::string(outcome.status().message()), HasSubstr("restore a backup"));
  }
}

TEST_F(FullStoreRepairTest, ARollbackThatWasStoppedGoesOn) {
  FlipIn(".sst", 0.3);
  const std::uint64_t served = Served();
  for (const int writes : {60, 1'500}) {
    std::atomic<int> left = writes;
    const auto outcome = Repair({.may_write = [&left] {
      return --left >= 0 ? absl::OkStatus() : absl::AbortedError("the term is over");
    }});
    EXPECT_FALSE(outcome.ok());
  }
  EXPECT_TRUE(absl::IsResourceExhausted(Repair().status()));
  EXPECT_EQ(Served(), served);
}

TEST_F(StoreRepairTest, ARebuildThatWasStoppedGoesOn) {
  FlipIn(".sst", 0.3);
  Change([](MetaFs& fs) {
    for (const std::string& name : fs.List("/meta")) {
      ASSERT_TRUE(fs.Rename("/meta/" + name, "/meta.old/" + name).ok());
    }
    const auto mark = fs.Create(kRebuildingPath);
    ASSERT_TRUE(mark.ok());
    metafs::TableWriter writer(fs, *mark);
    ASSERT_TRUE(writer.Append("rebuilding").ok());
    ASSERT_TRUE(writer.Sync().ok());
  });
  EXPECT_GE(KeptAfterRepair(), expected_.size() - 40);
}

}  // namespace
}  // namespace reel::mdc
