// Block devices, over a loop device; skipped where the kernel or the user's rights give none.
#include "volume/block_lun.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/loop.h>
#include <sys/ioctl.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "volume/aligned_buffer.h"
#include "volume/testing/temporary_image.h"

namespace reel {
namespace {

constexpr std::uint64_t kDeviceBytes = 4 << 20;

class BlockLunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const UniqueFd control(open("/dev/loop-control", O_RDWR | O_CLOEXEC));
    const UniqueFd image(open(image_.path().c_str(), O_RDWR | O_CLOEXEC));
    // Another process may take the free device before us.
    for (int attempt = 0; attempt < 10 && control.valid(); ++attempt) {
      const int number = ioctl(control.get(), LOOP_CTL_GET_FREE);
      if (number < 0) break;
      path_ = absl::StrCat("/dev/loop", number);
      device_ = UniqueFd(open(path_.c_str(), O_RDWR | O_CLOEXEC));
      if (!device_.valid()) break;
      if (ioctl(device_.get(), LOOP_SET_FD, image.get()) == 0) return;
      device_ = UniqueFd();
      if (errno != EBUSY) break;
    }
    GTEST_SKIP() << "no loop device to be had here";
  }
  void TearDown() override {
    if (device_.valid()) ioctl(device_.get(), LOOP_CLR_FD);
  }
  std::unique_ptr<Lun> Open(LunAccess access = LunAccess::kReadWrite) {
    auto lun = OpenLun(path_, access);
    EXPECT_TRUE(lun.ok()) << lun.status();
    return *std::move(lun);
  }

  TemporaryImage image_{kDeviceBytes};
  std::string path_;
  UniqueFd device_;
};

TEST_F(BlockLunTest, ReadsAndWritesInItsOwnLogicalBlocks) {
  const auto lun = Open();
  EXPECT_EQ(lun->size_bytes(), kDeviceBytes);
  EXPECT_EQ(lun->logical_block_bytes(), 512U);
  EXPECT_FALSE(lun->has_reservations());  // a loop device takes no SCSI commands
  const AlignedBuffer out(4096);
  std::memset(out.data(), 'x', out.size());
  ASSERT_TRUE(lun->Write(3 * 512, out.span().first(512)).ok());
  ASSERT_TRUE(lun->Flush().ok());
  const AlignedBuffer in(4096);
  ASSERT_TRUE(lun->Read(0, in.span()).ok());
  EXPECT_EQ(static_cast<char>(in.data()[3 * 512 - 1]), '\0');
  EXPECT_EQ(static_cast<char>(in.data()[3 * 512]), 'x');
  EXPECT_EQ(static_cast<char>(in.data()[4 * 512]), '\0');
  EXPECT_TRUE(absl::IsOutOfRange(lun->Read(kDeviceBytes, in.span())));
}

TEST_F(BlockLunTest, DiscardsOrSaysThatItCannot) {
  const auto lun = Open();
  const absl::Status status = lun->Discard(1 << 20, 1 << 20);
  EXPECT_TRUE(status.ok() || absl::IsUnimplemented(status)) << status;
  EXPECT_TRUE(absl::IsInvalidArgument(lun->Discard(1, 512)));
  EXPECT_TRUE(absl::IsFailedPrecondition(Open(LunAccess::kReadOnly)->Discard(0, 512)));
}

TEST_F(BlockLunTest, OnlyOneObjectHoldsAClaim) {
  auto first = Open();
  const auto second = Open();
  ASSERT_TRUE(first->ClaimForThisProcess().ok());
  EXPECT_TRUE(first->ClaimForThisProcess().ok()) << "again";
  EXPECT_TRUE(absl::IsFailedPrecondition(second->ClaimForThisProcess()));
  first.reset();
  EXPECT_TRUE(second->ClaimForThisProcess().ok());
}

}  // namespace
}  // namespace reel
