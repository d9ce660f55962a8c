// Where files lie, and what happens when there is no more room.
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

}  // namespace
}  // namespace reel::metafs
