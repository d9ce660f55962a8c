// A small volume on LUNs in memory, with the store and the controller that serves it, as mkfs makes
// and the daemon runs them, and power that fails at a chosen request: for tests of what a full
// metadata store does. Threads: one; RocksDB's own threads are inside.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mdc/check/checker.h"
#include "mdc/store/store.h"
#include "mdc/store/store_keeper.h"
#include "mdc/testing/core_harness.h"
#include "mdc/testing/rocks_crash_store.h"
#include "volume/base/aligned_buffer.h"
#include "volume/testing/faulty_lun.h"

namespace reel::mdc {

// Of all LUNs of a volume at once: from a chosen write or flush on, nothing reaches them.
class Power {
 public:
  void FailAfter(std::int64_t requests) { left_ = requests; }
  bool off() const { return left_ <= 0; }
  bool Take() { return --left_ > 0; }

 private:
  std::atomic<std::int64_t> left_{std::int64_t{1} << 40};
};

class PoweredLun final : public Lun {
 public:
  PoweredLun(FaultyLun& lun, Power& power) : lun_(lun), power_(power) {}

  const std::string& name() const override { return lun_.name(); }
  std::uint64_t size_bytes() const override { return lun_.size_bytes(); }
  std::uint32_t logical_block_bytes() const override { return lun_.logical_block_bytes(); }
  void Start(LunRequest& request) override {
    const bool write = request.kind == LunRequest::Kind::kWrite;
    if (write ? power_.Take() : !power_.off()) return lun_.Start(request);
    request.Complete(Off());
  }
  absl::Status Flush() override { return power_.Take() ? lun_.Flush() : Off(); }
  absl::Status Discard(std::uint64_t, std::uint64_t) override { return absl::OkStatus(); }
  absl::Status ClaimForThisProcess() override { return absl::OkStatus(); }

 private:
  static absl::Status Off() { return absl::UnavailableError("no power"); }
  FaultyLun& lun_;
  Power& power_;
};

// The first pool holds the metadata, the second one 4 GiB of data.
struct PoolShape {
  std::string name;
  std::uint32_t flags = Pool::kMetadata;
  std::size_t luns = 1;
  std::uint64_t mib = 32;         // of the first pool
  std::uint64_t region_mib = 24;  // of the store, in it
};

class FullVolume {
 public:
  // Where nothing is said, of a new volume; else with the content that another one had.
  explicit FullVolume(const PoolShape& shape, const std::vector<std::string>* content = nullptr)
      : shape_(shape) {
    spdlog::set_level(spdlog::level::off);  // RocksDB has much to say about failing power
    Describe();
    if (content == nullptr) {
      auto store = Store::Format(volume_, shape.region_mib * kMiB / kBlock, Options());
      EXPECT_TRUE(store.ok()) << store.status();
      EXPECT_TRUE(FormatVolume((*store)->db(), volume_.descriptor, (*store)->regions(),
                               WallTime{1'000'000, 0})
                      .ok());
      EXPECT_TRUE((*store)->db().Sync().ok());
    } else {
      for (std::size_t i = 0; i < content->size(); ++i) Restore(*luns_[i], (*content)[i]);
    }
  }
  ~FullVolume() { Close(); }

  // What is wrong, when it does not start.
  absl::Status Start() {
    Close();
    auto store = Store::Open(volume_, Options());
    if (!store.ok()) return store.status();
    store_ = *std::move(store);
    if (harness_ == nullptr) {
      harness_ = std::make_unique<CoreHarness>(store_->db(), volume_.descriptor);
      harness_->may_die_ = true;
    }
    if (!harness_->Revive(store_->db())) return absl::InternalError("the core does not start");
    keeper_ = std::make_unique<StoreKeeper>(*store_, *harness_->core_, volume_.descriptor,
                                            harness_->clock_);
    Watch();
    return absl::OkStatus();
  }
  void Close() {
    keeper_.reset();
    if (harness_ != nullptr) harness_->Kill();
    store_.reset();
  }
  void PowerFails(std::uint64_t seed) {
    power_.FailAfter(0);
    Close();
    for (auto& lun : luns_) lun->Crash(seed++);
    power_.FailAfter(std::int64_t{1} << 40);
  }
  // As VolumeServer does after every few events.
  void Watch() {
    for (int again = 0; again < 2 && !dead(); ++again) {
      if (keeper_->Watch()) {
        std::atomic<bool> cancelled{false};
        const absl::Status compacted = store_->db().Compact(cancelled);
        compactions_ += compacted.ok() ? 1 : 0;
        keeper_->OnCompacted(compacted);
      }
      harness_->Run();
      if (dead()) return;
      if (const auto run = keeper_->OnDurable(store_->db().last_applied())) {
        keeper_->OnRegionAdded(store_->AddRegion(*run));
      }
    }
  }
  // Time for the next compaction, and for leases.
  void Pass(std::uint64_t ms, Client& alive) {
    if (dead()) return;
    harness_->Pass(ms, {&alive});
    Watch();
  }

  std::vector<std::string> Content() {
    Close();
    std::vector<std::string> content;
    for (auto& lun : luns_)
      content.push_back(lun->DurableContent(0, std::min(lun->size_bytes(), MetadataLunBytes())));
    return content;
  }
  std::vector<std::string> Problems() {
    std::vector<std::string> problems;
    CheckSink sink;
    sink.on_problem = [&](const Problem& problem) {
      problems.push_back(absl::StrCat(problem.code, ": ", problem.where, ": ", problem.what));
    };
    CheckVolume({store_->db(), volume_.descriptor, store_->regions()}, sink);
    return problems;
  }

  // For people.
  std::string State() {
    const metafs::MetaFs& fs = store_->fs();
    return absl::StrCat(fs.FreeBytes(), " of ", fs.SizeBytes(), " bytes are free (reserve ",
                        fs.ReservedBytes(), ", ", fs.WorkingBytes(), " to work in, ",
                        store_->db().CompactionBytes(),
                        " to compact); store: ", store_->db().Sync().status().ToString(),
                        ", core: ", harness_->core_->health().ToString());
  }
  bool dead() const { return harness_->dead_ || power_.off() || !harness_->core_->health().ok(); }
  CoreHarness& harness() { return *harness_; }
  Store& store() { return *store_; }
  OpenVolume& volume() { return volume_; }
  Power& power() { return power_; }
  std::uint64_t compactions() const { return compactions_; }

 private:
  static constexpr std::uint64_t kBreadthBlocks = 16;
  std::uint64_t MetadataLunBytes() const { return kMiB + shape_.mib * kMiB / shape_.luns; }

  StoreOptions Options() const {
    return {.cache_bytes = 8 * kMiB, .wrap_env = [](std::unique_ptr<rocksdb::Env> env) {
              return std::make_unique<NoSleepEnv>(std::move(env));
            }};
  }
  void AddPool(const std::string& name, std::uint32_t flags, std::size_t luns, std::uint64_t mib) {
    Pool pool;
    pool.name = name;
    pool.flags = flags;
    pool.breadth_blocks = kBreadthBlocks;
    StripeSet set;
    set.rows = mib * kMiB / kBlock / kBreadthBlocks / luns;
    for (std::size_t i = 0; i < luns; ++i) {
      LunEntry lun;
      lun.name = absl::StrCat(name, i);
      lun.data_start_bytes = kMiB;
      lun.lun.bytes[0] = static_cast<std::uint8_t>(luns_.size() + 1);
      luns_.push_back(std::make_unique<FaultyLun>(
          FaultyLun::Options{.size_bytes = kMiB + set.rows * kBreadthBlocks * kBlock}));
      volume_.luns.push_back(std::make_unique<PoweredLun>(*luns_.back(), power_));
      set.luns.push_back(lun);
    }
    pool.sets = {set};
    volume_.descriptor.pools.push_back(pool);
  }
  void Describe() {
    VolumeDescriptor& descriptor = volume_.descriptor;
    descriptor.volume.bytes[0] = 9;
    descriptor.name = "reel";
    descriptor.generation = 1;
    descriptor.block_bytes = kBlock;
    AddPool("meta", shape_.flags, shape_.luns, shape_.mib);
    AddPool("data", Pool::kData, 1, 4096);
    descriptor.seat_lun = descriptor.pools[0].sets[0].luns[0].lun;
  }
  static void Restore(FaultyLun& lun, const std::string& content) {
    AlignedBuffer buffer(std::min<std::size_t>(content.size(), 64 * kKiB));
    const std::string nothing(buffer.size(), '\0');
    for (std::size_t at = 0; at < content.size(); at += buffer.size()) {
      const std::size_t length = std::min(buffer.size(), content.size() - at);
      if (content.compare(at, length, nothing, 0, length) == 0) continue;
      std::memcpy(buffer.data(), content.data() + at, length);
      EXPECT_TRUE(lun.Write(at, buffer.span().first(length)).ok());
    }
    EXPECT_TRUE(lun.Flush().ok());
  }

  const PoolShape shape_;
  Power power_;
  std::vector<std::unique_ptr<FaultyLun>> luns_;
  OpenVolume volume_;
  std::unique_ptr<Store> store_;
  std::unique_ptr<CoreHarness> harness_;
  std::unique_ptr<StoreKeeper> keeper_;
  std::uint64_t compactions_ = 0;
};

}  // namespace reel::mdc
