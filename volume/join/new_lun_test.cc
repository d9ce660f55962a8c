#include "volume/join/new_lun.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "volume/base/aligned_buffer.h"
#include "volume/format/descriptor.h"
#include "volume/format/label.h"
#include "volume/testing/sample_volume.h"
#include "volume/testing/temporary_image.h"

namespace reel {
namespace {

using testing::HasSubstr;

class NewLunTest : public testing::Test {
 protected:
  NewLunTest() : lun_(OpenLun(image_.path(), LunAccess::kReadWrite).value()) {}
  absl::StatusOr<NewLun> Look(bool forced = false) {
    return LookAtNewLun(*lun_, image_.path(), forced, "--force");
  }
  TemporaryImage image_{64 * kMiB};
  std::unique_ptr<Lun> lun_;
};

TEST_F(NewLunTest, AnEmptyOneIsNamedByItsPath) {
  const auto looked = Look();
  ASSERT_TRUE(looked.ok()) << looked.status();
  EXPECT_EQ(looked->name, LunNameFromPath(image_.path()));
  EXPECT_TRUE(looked->start_over);
  EXPECT_TRUE(looked->volume.is_nil());
}

TEST_F(NewLunTest, ALabelOfNoVolumeIsKept) {
  ASSERT_TRUE(
      WriteLabel(*lun_, {.lun = SampleUuid(7), .name = "fast", .volume = {}, .generation = 4})
          .ok());
  const auto looked = Look();
  ASSERT_TRUE(looked.ok()) << looked.status();
  EXPECT_EQ(looked->uuid, SampleUuid(7));
  EXPECT_EQ(looked->name, "fast");
  EXPECT_FALSE(looked->start_over);
}

TEST_F(NewLunTest, AFileSystemIsNotOverwrittenUnlessForced) {
  AlignedBuffer block = AlignedBuffer::Zeroed(4096);
  std::memcpy(block.data() + 4096 - 10, "SWAPSPACE2", 10);
  std::memcpy(block.data() + 1024, "\x01\x00\x00\x00\xff\x00\x00\x00", 8);
  ASSERT_TRUE(lun_->Write(0, block.span()).ok());
  const auto looked = Look();
  EXPECT_TRUE(absl::IsFailedPrecondition(looked.status())) << looked.status();
  EXPECT_THAT(looked.status().message(), HasSubstr("swap"));
  EXPECT_THAT(looked.status().message(), HasSubstr("give --force " + image_.path()));
  EXPECT_TRUE(Look(/*forced=*/true).ok());
}

TEST_F(NewLunTest, WhatAnotherVolumeLeftIsCleared) {
  VolumeDescriptor old = SampleVolume({{16, {{100, 1}}}});
  ASSERT_TRUE(WriteDescriptor(*lun_, old).ok());
  ASSERT_TRUE(
      WriteLabel(*lun_,
                 {.lun = SampleUuid(1), .name = "lun0", .volume = old.volume, .generation = 2})
          .ok());
  const auto looked = Look();
  ASSERT_TRUE(looked.ok()) << looked.status();
  EXPECT_EQ(looked->volume, old.volume);
  ASSERT_TRUE(PrepareNewLun(*lun_, *looked).ok());
  EXPECT_TRUE(absl::IsNotFound(ReadDescriptor(*lun_).status()));
  const auto label = ReadLabel(*lun_);
  ASSERT_TRUE(label.ok()) << label.status();
  EXPECT_TRUE(label->label.volume.is_nil());
  EXPECT_EQ(label->label.generation, 3u);
}

}  // namespace
}  // namespace reel
