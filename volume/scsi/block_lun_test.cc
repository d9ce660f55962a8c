// Block devices, over a loop device; skipped where the kernel or the user's rights give none.
#include "volume/scsi/block_lun.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/loop.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "volume/base/aligned_buffer.h"
#include "volume/lun/lun_fault.h"
#include "volume/testing/temporary_image.h"

namespace reel {
namespace {

using ::testing::HasSubstr;

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

// What another process would get: the kernel knows a claim by the file.
class AnotherProcess {
 public:
  explicit AnotherProcess(const std::string& path)
      : file_(open(path.c_str(), O_RDONLY | O_EXCL | O_CLOEXEC)) {}
  bool claimed() const { return file_.valid(); }

 private:
  const UniqueFd file_;
};

TEST_F(BlockLunTest, OneProcessHoldsTheClaimWithAllItsObjects) {
  auto first = Open();
  {
    const AnotherProcess other(path_);
    ASSERT_TRUE(other.claimed());
    EXPECT_TRUE(absl::IsFailedPrecondition(first->ClaimForThisProcess()));
  }
  ASSERT_TRUE(first->ClaimForThisProcess().ok());
  EXPECT_TRUE(first->ClaimForThisProcess().ok()) << "again";
  auto second = Open();
  EXPECT_TRUE(second->ClaimForThisProcess().ok());
  first.reset();
  EXPECT_FALSE(AnotherProcess(path_).claimed());
  const AlignedBuffer block = AlignedBuffer::Zeroed(512);
  EXPECT_TRUE(second->Write(512, block.span()).ok());
  second.reset();
  EXPECT_TRUE(AnotherProcess(path_).claimed());
}

// A request that the kernel has not ended keeps its file, and nothing else of its process: here a
// second descriptor does. Whoever gets the claim comes after it.
TEST_F(BlockLunTest, TheClaimEndsWithTheFileThatCarriesTheIo) {
  const auto descriptors = [&] {
    std::vector<int> found;
    for (int fd = 0; fd < 1024; ++fd) {
      std::array<char, 64> target{};
      const std::string link = absl::StrCat("/proc/self/fd/", fd);
      if (readlink(link.c_str(), target.data(), target.size() - 1) < 0) continue;
      if (fd != device_.get() && target.data() == path_) found.push_back(fd);
    }
    return found;
  };
  auto lun = Open();
  const std::vector<int> carries = descriptors();
  ASSERT_EQ(carries.size(), 1U);
  ASSERT_TRUE(lun->ClaimForThisProcess().ok());
  UniqueFd request(dup(carries[0]));
  lun.reset();
  EXPECT_FALSE(AnotherProcess(path_).claimed()) << "a request is still with the kernel";
  request = UniqueFd();
  EXPECT_TRUE(AnotherProcess(path_).claimed());
}

// A real file on its way to the end of its process: a killed writer, and who comes after it.
TEST_F(BlockLunTest, AKilledProcessLeavesTheClaim) {
  std::array<int, 2> ready{};
  ASSERT_EQ(pipe(ready.data()), 0);
  const pid_t child = fork();
  if (child == 0) {
    const auto lun = OpenLun(path_, LunAccess::kReadWrite);
    const char word = lun.ok() && (*lun)->ClaimForThisProcess().ok() ? 'y' : 'n';
    if (write(ready[1], &word, 1) == 1) pause();
    _exit(1);
  }
  char word = 0;
  ASSERT_EQ(read(ready[0], &word, 1), 1);
  EXPECT_EQ(word, 'y');
  const auto next = Open();
  EXPECT_TRUE(absl::IsFailedPrecondition(next->ClaimForThisProcess()));
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_TRUE(next->ClaimForThisProcess().ok());
  close(ready[0]);
  close(ready[1]);
}

// What the kernel makes of a LUN that it has lost and found again: a device of another number, to
// which the same name leads by then.
class ReplacedDeviceTest : public BlockLunTest {
 protected:
  void SetUp() override {
    BlockLunTest::SetUp();
    if (IsSkipped()) return;
    // Another block device with the same content.
    ASSERT_TRUE(std::filesystem::copy_file(image_.path(), other_.path(),
                                           std::filesystem::copy_options::overwrite_existing));
    const UniqueFd control(open("/dev/loop-control", O_RDWR | O_CLOEXEC));
    const UniqueFd image(open(other_.path().c_str(), O_RDWR | O_CLOEXEC));
    for (int attempt = 0; attempt < 10 && !other_device_.valid(); ++attempt) {
      other_path_ = absl::StrCat("/dev/loop", ioctl(control.get(), LOOP_CTL_GET_FREE));
      other_device_ = UniqueFd(open(other_path_.c_str(), O_RDWR | O_CLOEXEC));
      if (ioctl(other_device_.get(), LOOP_SET_FD, image.get()) != 0) other_device_ = UniqueFd();
    }
    if (!other_device_.valid()) GTEST_SKIP() << "no second loop device to be had here";
    std::filesystem::create_symlink(path_, by_id_);
  }
  void TearDown() override {
    std::filesystem::remove(by_id_);
    if (other_device_.valid()) ioctl(other_device_.get(), LOOP_CLR_FD);
    BlockLunTest::TearDown();
  }
  std::unique_ptr<Lun> OpenById() {
    auto lun = OpenLun(by_id_, LunAccess::kReadWrite);
    EXPECT_TRUE(lun.ok()) << lun.status();
    return *std::move(lun);
  }
  // Of the first device nothing can be read any more; its number stays taken.
  void LoseFirst() { std::filesystem::resize_file(image_.path(), 0); }
  void NameOther() {
    std::filesystem::remove(by_id_);
    std::filesystem::create_symlink(other_path_, by_id_);
  }

  TemporaryImage other_{kDeviceBytes};
  std::string other_path_;
  UniqueFd other_device_;
  const std::string by_id_ = image_.path() + ".by-id";
};

TEST_F(ReplacedDeviceTest, ALunIsFoundAgainByItsName) {
  const auto lun = OpenById();
  const auto beats = OpenById();
  ASSERT_TRUE(lun->ClaimForThisProcess().ok());
  ASSERT_TRUE(beats->ClaimForThisProcess().ok());
  const AlignedBuffer block = AlignedBuffer::Zeroed(4096);
  LoseFirst();
  EXPECT_FALSE(lun->Read(0, block.span()).ok());
  EXPECT_FALSE(lun->Reopen().ok()) << "the name leads to the lost device";
  EXPECT_FALSE(AnotherProcess(path_).claimed()) << "the claim goes with the lost device only";
  std::filesystem::remove(by_id_);
  EXPECT_FALSE(lun->Reopen().ok()) << "the name leads nowhere";
  NameOther();
  for (Lun* one : {lun.get(), beats.get()}) {
    EXPECT_FALSE(one->Read(0, block.span()).ok());
    EXPECT_TRUE(one->Reopen().ok());
    EXPECT_TRUE(one->Read(0, block.span()).ok());
  }
  EXPECT_TRUE(lun->Write(4096, block.span()).ok());
  EXPECT_TRUE(lun->Reopen().ok()) << "it answers";
  EXPECT_FALSE(AnotherProcess(other_path_).claimed()) << "a claim is kept";
  EXPECT_TRUE(AnotherProcess(path_).claimed());
}

TEST_F(ReplacedDeviceTest, ADeviceThatAnotherProcessHasIsNotTaken) {
  const auto lun = OpenById();
  ASSERT_TRUE(lun->ClaimForThisProcess().ok());
  LoseFirst();
  NameOther();
  const AlignedBuffer block = AlignedBuffer::Zeroed(4096);
  {
    const AnotherProcess other(other_path_);
    ASSERT_TRUE(other.claimed());
    EXPECT_THAT(std::string(lun->Reopen().message()), HasSubstr("in use on this host"));
    EXPECT_FALSE(lun->Read(0, block.span()).ok());
  }
  EXPECT_TRUE(lun->Reopen().ok());
}

TEST_F(ReplacedDeviceTest, AnotherLunOfThatNameIsNotTaken) {
  const auto lun = OpenById();
  LoseFirst();
  NameOther();
  AlignedBuffer block = AlignedBuffer::Zeroed(4096);
  std::memset(block.data(), 'x', block.size());
  ASSERT_EQ(pwrite(other_device_.get(), block.data(), block.size(), 0), 4096);
  ASSERT_EQ(fsync(other_device_.get()), 0);
  const absl::Status status = lun->Reopen();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("another LUN has that name now"));
  EXPECT_FALSE(lun->Read(0, block.span()).ok());
}

// As of one that the kernel has removed: its size is 0.
TEST_F(BlockLunTest, WhatLiesBeyondTheEndOfADeviceThatShrankIsInDoubt) {
  const auto lun = Open();
  loop_info64 info{};
  info.lo_sizelimit = 512;
  ASSERT_EQ(ioctl(device_.get(), LOOP_SET_STATUS64, &info), 0);
  const AlignedBuffer block = AlignedBuffer::Zeroed(4096);
  EXPECT_EQ(FaultOf(lun->Write(8192, block.span())), LunFault::kInDoubt);
  EXPECT_EQ(FaultOf(lun->Read(8192, block.span())), LunFault::kInDoubt);
  EXPECT_EQ(FaultOf(lun->Read(0, block.span())), LunFault::kInDoubt) << "a part of it";
  EXPECT_TRUE(lun->Read(0, block.span().first(512)).ok());
}

TEST_F(BlockLunTest, ADeviceThatHasGrownSaysSo) {
  const auto lun = Open();
  EXPECT_EQ(*lun->SizeNow(), kDeviceBytes);
  std::filesystem::resize_file(image_.path(), 2 * kDeviceBytes);
  EXPECT_EQ(*lun->SizeNow(), kDeviceBytes) << "the kernel has not been told";
  ASSERT_EQ(ioctl(device_.get(), LOOP_SET_CAPACITY), 0);
  EXPECT_EQ(*lun->SizeNow(), 2 * kDeviceBytes);
  EXPECT_EQ(lun->size_bytes(), kDeviceBytes);
}

}  // namespace
}  // namespace reel
