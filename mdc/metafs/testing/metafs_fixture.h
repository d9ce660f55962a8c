// A mounted metafs on one LUN in memory, which can lose its power.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "mdc/metafs/file_io.h"
#include "mdc/metafs/metafs.h"
#include "mdc/metafs/testing/lun_space.h"
#include "volume/testing/faulty_lun.h"

namespace reel::metafs {

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

}  // namespace reel::metafs
