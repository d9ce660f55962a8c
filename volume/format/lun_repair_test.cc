// Damage to labels and descriptors, one bit or all of them: the copies mend it.
#include "volume/format/lun_repair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "volume/format/descriptor.h"
#include "volume/format/label.h"
#include "volume/format/lun_scan.h"
#include "volume/testing/sample_volume.h"
#include "volume/testing/sizes.h"
#include "volume/testing/volume_images.h"

namespace reel {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// The sample volume on images, in the order of its pools.
class LunRepairTest : public ::testing::Test {
 protected:
  LunRepairTest() {
    AddImages(volume_, images_);
    while (ReadLabel(*Open(seat_))->label.lun != volume_.seat_lun) ++seat_;
    other_ = seat_ == 0 ? 1 : 0;
  }
  std::unique_ptr<Lun> Open(std::size_t image) {
    return *OpenLun(images_[image]->path(), LunAccess::kReadWrite);
  }
  void Flip(std::size_t image, std::uint64_t offset) { FlipBit(*images_[image], offset); }
  std::vector<std::string> Paths() const {
    std::vector<std::string> paths;
    for (const auto& image : images_) paths.push_back(image->path());
    return paths;
  }
  // Mends `mends` LUNs; the volume opens then without a warning, and is as it was.
  void Mend(std::size_t mends) {
    auto damaged = OpenToMend("studio", Paths());
    ASSERT_TRUE(damaged.ok()) << damaged.status();
    const auto done = MendLuns(*damaged);
    ASSERT_TRUE(done.ok()) << done.status();
    ASSERT_THAT(*done, SizeIs(mends));
    const auto volume = OpenVolumeByName("studio", Paths(), LunAccess::kReadOnly);
    ASSERT_TRUE(volume.ok()) << volume.status();
    EXPECT_THAT(volume->warnings, IsEmpty());
    EXPECT_EQ(volume->descriptor, volume_);
    EXPECT_THAT(*MendLuns(*damaged), IsEmpty());
  }

  VolumeDescriptor volume_ = SampleVolume({{4, {{8, 1}}}, {4, {{8, 2}}}});
  Images images_;
  std::size_t seat_ = 0, other_ = 0;
};

TEST_F(LunRepairTest, ASoundVolumeStaysAsItIs) {
  Mend(0);
}

TEST_F(LunRepairTest, OneBitInEachCopyOfALabel) {
  Flip(seat_, kLabelOffset + 50);
  Mend(1);
  Flip(seat_, kLabelCopyOffset + 50);
  Mend(1);
}

TEST_F(LunRepairTest, OneBitInTheSeatLunsOnlyDescriptor) {
  Flip(seat_, kDescriptorSlotOffsets[0] + 40);
  EXPECT_TRUE(absl::IsDataLoss(OpenVolumeByName("studio", Paths(), LunAccess::kReadOnly).status()));
  Mend(1);
}

TEST_F(LunRepairTest, OneBitInACopyOfTheDescriptor) {
  Flip(other_, kDescriptorSlotOffsets[0] + 40);
  Mend(1);
}

TEST_F(LunRepairTest, ACopyThatStayedBehind) {
  volume_.generation += 1;
  ASSERT_TRUE(WriteDescriptor(*Open(seat_), volume_).ok());
  Mend(images_.size() - 1);
}

TEST_F(LunRepairTest, TheSeatLunsNewestDescriptorIsDamaged) {
  volume_.generation += 1;
  for (std::size_t i = 0; i < images_.size(); ++i) {
    ASSERT_TRUE(WriteDescriptor(*Open(i), volume_).ok());
  }
  Flip(seat_, kDescriptorSlotOffsets[1] + 40);
  Mend(1);
}

TEST_F(LunRepairTest, ALabelThatSaysAnotherPlace) {
  Label label = ReadLabel(*Open(other_))->label;
  label.position = 7;
  label.name = "wrong";
  ASSERT_TRUE(WriteLabel(*Open(other_), label).ok());
  Mend(1);
}

TEST_F(LunRepairTest, BothCopiesOfOneLabel) {
  Flip(other_, kLabelOffset + 50);
  Flip(other_, kLabelCopyOffset + 50);
  Mend(1);
  Flip(seat_, kLabelOffset + 50);
  Flip(seat_, kLabelCopyOffset + 50);
  Mend(1);
}

TEST_F(LunRepairTest, WhereLunsCannotBeToldApartNothingIsChanged) {
  for (const std::size_t image : {other_, seat_}) {
    Flip(image, kLabelOffset + 50);
    Flip(image, kLabelCopyOffset + 50);
  }
  EXPECT_TRUE(absl::IsNotFound(OpenToMend("studio", Paths()).status()));
  EXPECT_TRUE(absl::IsDataLoss(ReadLabel(*Open(seat_)).status()));
}

TEST_F(LunRepairTest, NoVolumeOfThatName) {
  EXPECT_TRUE(absl::IsNotFound(OpenToMend("nowhere", Paths()).status()));
}

}  // namespace
}  // namespace reel
