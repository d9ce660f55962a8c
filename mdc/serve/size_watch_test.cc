#include "mdc/serve/size_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <utility>

#include "mdc/testing/test_volume.h"

namespace reel::mdc {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class SizeWatchTest : public testing::Test {
 protected:
  SizeWatchTest() {
    auto volume = OpenVolumeByName("reel", images_.paths(), LunAccess::kReadWrite);
    EXPECT_TRUE(volume.ok()) << volume.status();
    volume_ = *std::move(volume);
    bytes_ = volume_.luns[1]->size_bytes();
  }
  void Resize(std::uint64_t bytes) { std::filesystem::resize_file(images_.paths()[1], bytes); }

  TestVolumeOnImages images_;
  OpenVolume volume_;
  std::uint64_t bytes_ = 0;
};

TEST_F(SizeWatchTest, ALunThatHasGrownIsNoticed) {
  SizeWatch watch(volume_);
  watch.Look();
  EXPECT_THAT(watch.Grown(), IsEmpty());
  Resize(bytes_ + (256 << 20));
  watch.Look();
  EXPECT_THAT(watch.Grown(),
              ElementsAre(AllOf(HasSubstr("LUN lun1 ("), HasSubstr("has grown by 256 MiB"),
                                HasSubstr("goes on to use the first 512 MiB"))));
  EXPECT_THAT(watch.Cut(), IsEmpty());
  EXPECT_EQ(watch.SizeOf(0), bytes_);
  EXPECT_EQ(watch.SizeOf(1), bytes_ + (256 << 20));
  Resize(bytes_);
  watch.Look();
  EXPECT_THAT(watch.Grown(), IsEmpty());
}

TEST_F(SizeWatchTest, ALaterControllerSaysTheSame) {
  Resize(2 * bytes_);
  auto volume = OpenVolumeByName("reel", images_.paths(), LunAccess::kReadWrite);
  ASSERT_TRUE(volume.ok()) << volume.status();
  SizeWatch watch(*volume);
  watch.Look();
  EXPECT_THAT(watch.Grown(), ElementsAre(HasSubstr("has grown by 512 MiB, to 1 GiB")));
}

TEST_F(SizeWatchTest, ALunThatWasCutIsAnAlarmUntilItIsWhole) {
  SizeWatch watch(volume_);
  Resize(bytes_ / 2);
  watch.Look();
  EXPECT_THAT(watch.Cut(),
              ElementsAre(AllOf(HasSubstr("holds 256 MiB now"), HasSubstr("set its size back"))));
  Resize(bytes_);
  watch.Look();
  EXPECT_THAT(watch.Cut(), IsEmpty());
}

// A LUN for data whose device the kernel has removed, until it is opened anew.
class RemovedLun final : public Lun {
 public:
  explicit RemovedLun(std::shared_ptr<Lun> lun) : lun_(std::move(lun)) {}
  const std::string& name() const override { return lun_->name(); }
  std::uint64_t size_bytes() const override { return lun_->size_bytes(); }
  absl::StatusOr<std::uint64_t> SizeNow() override {
    if (removed_) return absl::UnavailableError("removed");
    return lun_->SizeNow();
  }
  std::uint32_t logical_block_bytes() const override { return lun_->logical_block_bytes(); }
  void Start(LunRequest& request) override { lun_->Start(request); }
  absl::Status Flush() override { return lun_->Flush(); }
  absl::Status Discard(std::uint64_t, std::uint64_t) override { return absl::OkStatus(); }
  absl::Status ClaimForThisProcess() override { return absl::OkStatus(); }
  absl::Status Reopen() override {
    removed_ = false;
    return absl::OkStatus();
  }
  bool removed() const { return removed_; }

 private:
  const std::shared_ptr<Lun> lun_;
  std::atomic<bool> removed_ = true;
};

TEST_F(SizeWatchTest, ALunForDataIsOpenedAnewAndOneWithMetadataIsNot) {
  auto removed = std::make_unique<RemovedLun>(std::move(volume_.luns[1]));
  const RemovedLun& lun = *removed;
  volume_.luns[1] = std::move(removed);
  {
    SizeWatch watch(volume_);
    watch.Look();
    EXPECT_TRUE(lun.removed()) << "what was on its way there decides what is durable";
  }
  volume_.descriptor.pools[0].flags = Pool::kData;
  Resize(2 * bytes_);
  SizeWatch watch(volume_);
  watch.Look();
  EXPECT_FALSE(lun.removed());
  watch.Look();
  EXPECT_EQ(watch.SizeOf(1), 2 * bytes_);
}

}  // namespace
}  // namespace reel::mdc
