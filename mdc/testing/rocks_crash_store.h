// A metadata store on RocksDB on metafs on a faulty LUN, whose power can fail: for tests of what a
// crash leaves behind. Threads: one; RocksDB's own threads are inside.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mdc/metadb/meta_db.h"
#include "mdc/metafs/metafs.h"
#include "mdc/metafs/rocks_fs.h"
#include "mdc/metafs/testing/lun_space.h"
#include "rocksdb/env.h"
#include "rocksdb/system_clock.h"
#include "spdlog/spdlog.h"
#include "volume/testing/faulty_lun.h"

namespace reel::mdc {

// Power that fails at a chosen request: from then on, nothing reaches the LUN.
class PowerSpace final : public metafs::Space {
 public:
  explicit PowerSpace(metafs::LunSpace& space) : space_(space) {}

  void FailAfter(std::int64_t requests) { left_ = requests; }
  bool off() const { return left_ <= 0; }
  // From now on it does not fail. False: it has failed already, and the store may yet learn of that
  // from a thread of its own: only a crash ends it.
  bool StayOn() { return left_.exchange(kForGood) > 0; }
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
  metafs::LunSpace& space_;
  static constexpr std::int64_t kForGood = 1 << 30;
  std::atomic<std::int64_t> left_{kForGood};
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

  // While they are held nobody begins a table: flushes and compactions stand still.
  void HoldTables(bool held) {
    const std::lock_guard<std::mutex> lock(mutex_);
    held_ = held;
    changed_.notify_all();
  }
  rocksdb::Status NewWritableFile(const std::string& path,
                                  std::unique_ptr<rocksdb::WritableFile>* file,
                                  const rocksdb::EnvOptions& options) override {
    if (path.ends_with(".sst")) {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return !held_; });
    }
    return rocksdb::EnvWrapper::NewWritableFile(path, file, options);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool held_ = false;
};

class CrashStore {
  using LunSpace = metafs::LunSpace;
  using MetaFs = metafs::MetaFs;

 public:
  explicit CrashStore(std::uint64_t lun_bytes = 64 << 20)
      : lun_({.size_bytes = lun_bytes, .logical_block_bytes = 512}) {
    spdlog::set_level(spdlog::level::off);  // RocksDB has much to say about failing power
    metafs::FormatOptions format;
    format.regions = {space.Whole()};
    format.epoch = Epoch(++epoch_);
    EXPECT_TRUE(MetaFs::Format(power, format).ok());
    options.cache_bytes = 1 << 20;
    options.write_buffer_bytes = 64 << 10;
    options.create = true;
    options.listener = metafs::NewTableListener();
    EXPECT_TRUE(Open().ok());
    options.create = false;
  }
  ~CrashStore() { Close(); }

  // metafs alone: no store is open on it.
  absl::Status Mount() {
    Close();
    absl::StatusOr<std::unique_ptr<MetaFs>> mounted =
        MetaFs::Mount(power, {.epoch = Epoch(++epoch_), .read_only = options.read_only});
    if (!mounted.ok()) return mounted.status();
    fs = *std::move(mounted);
    env_ = std::make_unique<NoSleepEnv>(metafs::NewRocksEnv(*fs));
    return absl::OkStatus();
  }
  absl::Status Open() {
    if (absl::Status mounted = Mount(); !mounted.ok()) return mounted;
    // As mdc/store/store.cc does.
    if (!options.create && !options.read_only && fs->FreeBytes() < fs->ReservedBytes()) {
      if (absl::Status removed = MetaDb::RemoveLeftovers(env_.get(), options); !removed.ok()) {
        return removed;
      }
    }
    absl::StatusOr<std::unique_ptr<MetaDb>> opened = MetaDb::Open(env_.get(), options);
    if (!opened.ok()) return opened.status();
    db = *std::move(opened);
    if (!options.read_only) fs->Started();
    return absl::OkStatus();
  }
  void Close() {
    db.reset();
    env_.reset();
    fs.reset();
  }
  // Nothing reaches the LUN any more; what of the unsynced writes did is decided by the seed.
  void PowerFails(std::uint64_t seed) {
    power.FailAfter(0);
    Close();
    lun_.Crash(seed);
    power.FailAfter(1 << 30);
  }
  // Every key and value.
  absl::StatusOr<std::map<std::string, std::string>> All() {
    std::map<std::string, std::string> content;
    auto cursor = db->Scan("", "", Tier::kAll);
    for (; cursor->Valid(); cursor->Next()) content.emplace(cursor->key(), cursor->value());
    if (!cursor->status().ok()) return cursor->status();
    return content;
  }
  FaultyLun& lun() { return lun_; }
  NoSleepEnv* env() { return env_.get(); }

 private:
  FaultyLun lun_;
  std::uint64_t epoch_ = 0;

 public:
  LunSpace space{lun_};
  PowerSpace power{space};
  MetaDb::Options options;
  std::unique_ptr<MetaFs> fs;

 private:
  std::unique_ptr<NoSleepEnv> env_;

 public:
  std::unique_ptr<MetaDb> db;
};

}  // namespace reel::mdc
