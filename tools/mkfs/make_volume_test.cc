// mkfs is stopped at each of its writes and flushes, with power lost: there is no volume, and the
// LUNs can be used again, or a whole one.
#include "tools/mkfs/make_volume.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "mdc/check/checker.h"
#include "mdc/store/store.h"
#include "spdlog/spdlog.h"
#include "volume/format/label.h"
#include "volume/lun/borrowed_lun.h"
#include "volume/testing/faulty_lun.h"
#include "volume/testing/shared_lun.h"
#include "volume/testing/temporary_image.h"

namespace reel::tools {
namespace {

constexpr std::uint64_t kLunBytes = 64 * kMiB;

// Passes on so many writes and flushes of a host, then nothing any more.
struct Countdown {
  std::uint64_t left = std::numeric_limits<std::uint64_t>::max();
  bool Stopped() { return left == 0 || (--left, false); }
};

class StoppingLun final : public Lun {
 public:
  StoppingLun(std::unique_ptr<Lun> lun, Countdown& countdown)
      : lun_(std::move(lun)), countdown_(countdown) {}

  const std::string& name() const override { return lun_->name(); }
  std::uint64_t size_bytes() const override { return lun_->size_bytes(); }
  std::uint32_t logical_block_bytes() const override { return lun_->logical_block_bytes(); }
  Reservations* reservations() const override { return lun_->reservations(); }
  void Start(LunRequest& request) override {
    if (request.kind == LunRequest::Kind::kWrite && Stopped()) {
      request.Complete(absl::AbortedError("stopped"));
    } else {
      lun_->Start(request);
    }
  }
  absl::Status Flush() override {
    return Stopped() ? absl::AbortedError("stopped") : lun_->Flush();
  }
  absl::Status Discard(std::uint64_t offset_bytes, std::uint64_t length_bytes) override {
    return Stopped() ? absl::AbortedError("stopped") : lun_->Discard(offset_bytes, length_bytes);
  }
  absl::Status ClaimForThisProcess() override { return lun_->ClaimForThisProcess(); }

 private:
  bool Stopped() {
    MutexLock lock(mutex_);
    return countdown_.Stopped();
  }
  static inline Mutex mutex_;  // RocksDB writes from threads of its own
  const std::unique_ptr<Lun> lun_;
  Countdown& countdown_;
};

class MakeVolumeTest : public ::testing::Test {
 protected:
  MakeVolumeTest() {
    spdlog::set_level(spdlog::level::off);  // a host that stops has much to say
    description_.name = "reel1";
    description_.pools = {{.name = "meta",
                           .flags = Pool::kMetadata | Pool::kData,
                           .affinities = {},
                           .breadth_bytes = 256 * kKiB,
                           .luns = {{"a", ""}},
                           .where = ""},
                          {.name = "data",
                           .flags = Pool::kData,
                           .affinities = {},
                           .breadth_bytes = 256 * kKiB,
                           .luns = {{"b", ""}},
                           .where = ""}};
    PowerOn();
  }

  // New LUNs, without a label.
  void PowerOn() {
    shared_.clear();
    media_.clear();
    for (const char* name : {"a", "b"}) {
      media_.push_back(
          std::make_unique<FaultyLun>(FaultyLun::Options{.name = name, .size_bytes = kLunBytes}));
      shared_.push_back(std::make_unique<SharedLun>(*media_.back()));
    }
  }

  // Runs mkfs up to its `steps`th write or flush.
  absl::Status Make(std::uint64_t steps) {
    Countdown countdown{steps};
    std::vector<std::vector<PickedLun>> picked;
    std::vector<std::vector<LunFacts>> facts;
    for (std::size_t i = 0; i < media_.size(); ++i) {
      const auto& medium = media_[i];
      PickedLun lun;
      lun.facts = {.uuid = Uuid::Random(),
                   .name = medium->name(),
                   .path = medium->name(),
                   .size_bytes = medium->size_bytes(),
                   .logical_block_bytes = 4096};
      lun.lun = std::make_unique<StoppingLun>(shared_[i]->NewPath("mkfs"), countdown);
      lun.start_over = true;
      facts.push_back({lun.facts});
      picked.emplace_back().push_back(std::move(lun));
    }
    auto geometry = ComputeGeometry({.description = description_,
                                     .luns = facts,
                                     .min_region_blocks = mdc::MinimumRegionBlocks(
                                         static_cast<std::uint32_t>(description_.block_bytes)),
                                     .volume = Uuid::Random(),
                                     .now = {}});
    EXPECT_TRUE(geometry.ok()) << geometry.status();
    const absl::Status status = MakeVolume(*geometry, std::move(picked), {1'700'000'000, 0});
    steps_taken_ = steps - countdown.left;
    return status;
  }

  // What another host finds: the reserved areas, as image files.
  void ShowToAnotherHost() {
    images_.clear();
    paths_.clear();
    for (const auto& medium : media_) {
      images_.push_back(std::make_unique<TemporaryImage>(kLunBytes));
      paths_.push_back(images_.back()->path());
      const std::string reserved = medium->DurableContent(0, kReservedBytes);
      const int fd = open(paths_.back().c_str(), O_WRONLY);
      EXPECT_EQ(pwrite(fd, reserved.data(), reserved.size(), 0),
                static_cast<ssize_t>(reserved.size()));
      close(fd);
    }
  }
  // The volume's descriptor, as it finds that.
  absl::StatusOr<VolumeDescriptor> Find() {
    ShowToAnotherHost();
    auto volume = OpenVolumeByName("reel1", paths_, LunAccess::kReadOnly);
    if (!volume.ok()) return volume.status();
    return volume->descriptor;
  }
  // Whether mkfs takes these LUNs without --force.
  absl::Status TakesThemAgain() {
    VolumeDescription description = description_;
    for (std::size_t i = 0; i < paths_.size(); ++i) description.pools[i].luns = {{paths_[i], ""}};
    return PickLuns(description, {}).status();
  }

  void ExpectWhole(const VolumeDescriptor& descriptor) {
    OpenVolume volume;
    volume.descriptor = descriptor;
    for (const auto& medium : media_) {
      volume.luns.push_back(std::make_unique<BorrowedLun>(*medium));
    }
    EXPECT_THAT(mdc::Store::Check(volume), ::testing::IsEmpty());
    auto store = mdc::Store::Open(volume, {.read_only = true});
    ASSERT_TRUE(store.ok()) << store.status();
    mdc::CheckSink sink;
    sink.on_problem = [](const mdc::Problem& problem) {
      ADD_FAILURE() << problem.where << ": " << problem.what;
    };
    const auto totals = mdc::CheckVolume({(*store)->db(), descriptor, (*store)->regions()}, sink);
    EXPECT_EQ(totals.directories, 1u);
  }

  VolumeDescription description_;
  std::vector<std::unique_ptr<FaultyLun>> media_;
  std::vector<std::unique_ptr<SharedLun>> shared_;
  std::vector<std::unique_ptr<TemporaryImage>> images_;
  std::vector<std::string> paths_;
  std::uint64_t steps_taken_ = 0;
};

TEST_F(MakeVolumeTest, AMadeVolumeIsFoundWhole) {
  ASSERT_TRUE(Make(std::numeric_limits<std::uint64_t>::max()).ok());
  for (const auto& medium : media_) medium->Crash(1, FaultyLun::kLoseAll);
  const auto descriptor = Find();
  ASSERT_TRUE(descriptor.ok()) << descriptor.status();
  ExpectWhole(*descriptor);
  for (const auto& lun : shared_) EXPECT_NE(lun->Holder(), 0u) << "until a controller takes it";
}

TEST_F(MakeVolumeTest, StoppedAtAnyStepThereIsNoVolumeOrAWholeOne) {
  ASSERT_TRUE(Make(std::numeric_limits<std::uint64_t>::max()).ok());
  const std::uint64_t all = steps_taken_;
  std::uint64_t found = 0;
  for (std::uint64_t steps = 0; steps <= all; ++steps) {
    PowerOn();
    const absl::Status made = Make(steps);
    for (const auto& medium : media_) medium->Crash(steps);
    const auto descriptor = Find();
    SCOPED_TRACE(testing::Message() << "stopped after " << steps << " of " << all << " steps");
    EXPECT_TRUE(descriptor.ok() || !made.ok()) << descriptor.status();
    const absl::Status again = TakesThemAgain();
    EXPECT_EQ(again.ok(), !descriptor.ok()) << again;
    if (!descriptor.ok()) continue;
    ++found;
    ExpectWhole(*descriptor);
  }
  // The last label's copy or its primary: a few steps of many.
  EXPECT_GE(found, 1u);
  EXPECT_LE(found, 6u);
}

TEST_F(MakeVolumeTest, AFullyWrittenVolumeCanBeReplaced) {
  ASSERT_EQ(Make(std::numeric_limits<std::uint64_t>::max()), absl::OkStatus());
  const auto first = Find();
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_EQ(Make(std::numeric_limits<std::uint64_t>::max()), absl::OkStatus());
  const auto second = Find();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_NE(first->volume, second->volume);
  ExpectWhole(*second);
}

}  // namespace
}  // namespace reel::tools
