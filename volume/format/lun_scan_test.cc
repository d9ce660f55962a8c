// Finding a volume's LUNs: real image files, each test a story of what happened to them.
#include "volume/format/lun_scan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "volume/testing/sample_volume.h"
#include "volume/testing/sizes.h"
#include "volume/testing/volume_images.h"

namespace reel {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class LunScanTest : public ::testing::Test {
 protected:
  LunScanTest() { AddImages(volume_, images_); }

  std::unique_ptr<Lun> Open(std::size_t image) {
    auto lun = OpenLun(images_[image]->path(), LunAccess::kReadWrite);
    EXPECT_TRUE(lun.ok()) << lun.status();
    return *std::move(lun);
  }
  std::vector<std::string> Paths() const {
    std::vector<std::string> paths;  // not in the order of the volume
    for (auto it = images_.rbegin(); it != images_.rend(); ++it) paths.push_back((*it)->path());
    return paths;
  }
  absl::StatusOr<OpenVolume> OpenStudio(LunAccess access = LunAccess::kReadWrite) {
    return OpenVolumeByName("studio", Paths(), access);
  }
  void Flip(std::size_t image, std::uint64_t offset) { FlipBit(*images_[image], offset); }
  static std::string Message(const absl::StatusOr<OpenVolume>& volume) {
    return std::string(volume.status().message());
  }

  VolumeDescriptor volume_ = SampleVolume({{4, {{8, 1}}}, {4, {{8, 2}}}});
  Images images_;
};

TEST_F(LunScanTest, OpensTheLunsInTheirPlaces) {
  const auto volume = OpenStudio();
  ASSERT_TRUE(volume.ok()) << volume.status();
  EXPECT_EQ(volume->descriptor, volume_);
  EXPECT_THAT(volume->warnings, IsEmpty());
  ASSERT_EQ(volume->luns.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(volume->luns[i]->name(), images_[i]->path());
  EXPECT_EQ(volume->seat_lun().name(), images_[0]->path());
  EXPECT_TRUE(OpenVolumeLuns(volume_, Paths(), LunAccess::kReadOnly).ok());
}

TEST_F(LunScanTest, AnUnknownNameIsNotFound) {
  const auto volume = OpenVolumeByName("garage", Paths(), LunAccess::kReadOnly);
  EXPECT_TRUE(absl::IsNotFound(volume.status())) << volume.status();
  EXPECT_THAT(Message(volume), HasSubstr("garage"));
}

TEST_F(LunScanTest, AMissingLunIsNamed) {
  images_.pop_back();
  const auto volume = OpenStudio();
  EXPECT_TRUE(absl::IsNotFound(volume.status())) << volume.status();
  EXPECT_THAT(Message(volume), HasSubstr("LUN lun2"));
}

TEST_F(LunScanTest, AMissingSeatLunIsNamedAsSuch) {
  images_.erase(images_.begin());
  const auto volume = OpenStudio();
  EXPECT_TRUE(absl::IsNotFound(volume.status())) << volume.status();
  EXPECT_THAT(Message(volume), HasSubstr("seat LUN"));
}

// Its metadata were restored onto a LUN that is not there, and the old one is.
TEST_F(LunScanTest, TheSeatOfBeforeARestoreIsRefused) {
  VolumeDescriptor restored = volume_;
  ++restored.generation;
  restored.pools[0].sets[0].luns[0].lun = SampleUuid(77);
  restored.pools[0].sets[0].luns[0].name = "new";
  restored.seat_lun = SampleUuid(77);
  ASSERT_TRUE(WriteDescriptor(*Open(2), restored).ok());
  const auto volume = OpenStudio();
  EXPECT_TRUE(absl::IsFailedPrecondition(volume.status())) << volume.status();
  EXPECT_THAT(Message(volume), HasSubstr("another seat LUN by now"));
}

TEST_F(LunScanTest, ACloneIsRefused) {
  images_.push_back(std::make_unique<TemporaryImage>(kImageBytes));
  std::filesystem::copy_file(images_[1]->path(), images_.back()->path(),
                             std::filesystem::copy_options::overwrite_existing);
  const auto volume = OpenStudio();
  EXPECT_TRUE(absl::IsFailedPrecondition(volume.status())) << volume.status();
  EXPECT_THAT(Message(volume), HasSubstr(images_[1]->path()));
  EXPECT_THAT(Message(volume), HasSubstr(images_.back()->path()));
}

TEST_F(LunScanTest, ASecondPathToOneLunIsNoClone) {
  const std::string link = images_[1]->path() + "-link";
  std::filesystem::create_symlink(images_[1]->path(), link);
  std::vector<std::string> paths = Paths();
  paths.push_back(link);
  EXPECT_TRUE(OpenVolumeByName("studio", paths, LunAccess::kReadOnly).ok());
  std::filesystem::remove(link);
}

TEST_F(LunScanTest, DamagedCopiesAreWarnings) {
  Flip(1, kLabelOffset + 50);
  Flip(2, kLabelCopyOffset + 50);
  Flip(2, kDescriptorSlotOffsets[0] + 50);  // the only slot in use
  const auto volume = OpenStudio();
  ASSERT_TRUE(volume.ok()) << volume.status();
  EXPECT_THAT(volume->warnings,
              ElementsAre(HasSubstr("LUN lun1"), HasSubstr("copy of the label"),
                          HasSubstr("copy of the volume descriptor is not valid")));
}

TEST_F(LunScanTest, AStaleCopyIsAWarningAndTheSeatLunRules) {
  VolumeDescriptor next = volume_;
  next.generation = 2;
  next.strategy = AllocationStrategy::kFill;
  ASSERT_TRUE(WriteDescriptor(*Open(0), next).ok());  // and then the power went
  const auto volume = OpenStudio();
  ASSERT_TRUE(volume.ok()) << volume.status();
  EXPECT_EQ(volume->descriptor, next);
  EXPECT_THAT(volume->warnings, ElementsAre(HasSubstr("generation 1"), HasSubstr("generation 1")));
}

TEST_F(LunScanTest, ASeatLunWithoutAValidDescriptorIsDataLoss) {
  Flip(0, kDescriptorSlotOffsets[0] + 50);
  const auto volume = OpenStudio();
  EXPECT_TRUE(absl::IsDataLoss(volume.status())) << volume.status();
  EXPECT_THAT(Message(volume), HasSubstr("fsck.reelfs"));
  Flip(1, kDescriptorSlotOffsets[0] + 50);
  Flip(2, kDescriptorSlotOffsets[0] + 50);
  EXPECT_TRUE(absl::IsDataLoss(OpenStudio().status())) << "no copy is left to tell the name";
}

TEST_F(LunScanTest, ALunThatShrankIsRefused) {
  std::filesystem::resize_file(images_[2]->path(), kReservedBytes + 8 * 4 * 4096 - 4096);
  const auto volume = OpenStudio();
  EXPECT_TRUE(absl::IsFailedPrecondition(volume.status())) << volume.status();
  EXPECT_THAT(Message(volume), HasSubstr("restore its size"));
}

TEST_F(LunScanTest, TwoVolumesOfOneNameAreRefused) {
  VolumeDescriptor twin = volume_;
  twin.volume = SampleUuid(201);
  twin.seat_lun = SampleUuid(101);
  std::uint8_t n = 101;
  for (Pool& pool : twin.pools) {
    for (LunEntry& lun : pool.sets[0].luns) lun.lun = SampleUuid(n++);
  }
  AddImages(twin, images_);
  const auto volume = OpenStudio();
  EXPECT_TRUE(absl::IsFailedPrecondition(volume.status())) << volume.status();
  EXPECT_THAT(Message(volume), HasSubstr("two volumes are named studio"));
}

TEST_F(LunScanTest, ALunThatGrewIsOpenedOnce) {
  VolumeDescriptor grown = volume_;
  grown.generation = 2;
  LunEntry again = grown.pools[1].sets[0].luns[1];
  again.data_start_bytes = 2 << 20;
  grown.pools[1].sets.push_back({.luns = {again}, .rows = 8});
  for (std::size_t i = 0; i < 3; ++i) ASSERT_TRUE(WriteDescriptor(*Open(i), grown).ok());
  const auto volume = OpenStudio();
  ASSERT_TRUE(volume.ok()) << volume.status();
  ASSERT_EQ(volume->luns.size(), 4U);
  for (const auto& lun : volume->luns) EXPECT_TRUE(lun->ClaimForThisProcess().ok());
}

TEST_F(LunScanTest, AnUnknownReadOnlyFeatureForbidsWriting) {
  volume_.ro_compat = 1;
  volume_.generation = 2;
  ASSERT_TRUE(WriteDescriptor(*Open(0), volume_).ok());
  EXPECT_TRUE(absl::IsUnimplemented(OpenStudio(LunAccess::kReadWrite).status()));
  EXPECT_TRUE(OpenStudio(LunAccess::kReadOnly).ok());
}

TEST_F(LunScanTest, PatternsExpandInOrderAndOnce) {
  const std::string directory = images_[0]->path() + "-dir";
  std::filesystem::create_directory(directory);
  for (const char* name : {"b.img", "a.img", "c.txt"}) std::ofstream(directory + "/" + name);
  const auto in = [&](const char* name) { return directory + "/" + name; };
  EXPECT_THAT(
      ExpandLunPatterns({in("c.txt"), in("*.img"), in("b.img"), in("none"), in("none*"),
                         "iscsi://[fe80::1]/t/1"}),
      ElementsAre(in("c.txt"), in("a.img"), in("b.img"), in("none"), "iscsi://[fe80::1]/t/1"));
  std::filesystem::remove_all(directory);
}

TEST_F(LunScanTest, AScanClassifiesEachCandidate) {
  images_.push_back(std::make_unique<TemporaryImage>(kImageBytes));
  std::vector<std::string> paths = Paths();
  paths.push_back("/no/such/lun");
  const std::vector<FoundLun> found = ScanLuns(paths);
  ASSERT_EQ(found.size(), 5U);
  EXPECT_TRUE(absl::IsNotFound(found[0].status)) << "the image without a label";
  EXPECT_EQ(found[3].reading.label.name, "lun0");
  EXPECT_TRUE(absl::IsNotFound(found[4].status));
}

}  // namespace
}  // namespace reel
