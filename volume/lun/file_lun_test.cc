// Image files: real O_DIRECT I/O over real rings.
#include "volume/lun/file_lun.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <thread>

#include "volume/base/aligned_buffer.h"
#include "volume/lun/io_batch.h"
#include "volume/lun/uring.h"
#include "volume/testing/sizes.h"
#include "volume/testing/temporary_image.h"

namespace reel {
namespace {

using ::testing::HasSubstr;

class FileLunTest : public ::testing::Test {
 protected:
  std::unique_ptr<Lun> Open(LunAccess access = LunAccess::kReadWrite) {
    auto lun = OpenLun(image_.path(), access);
    EXPECT_TRUE(lun.ok()) << lun.status();
    return lun.ok() ? *std::move(lun) : nullptr;
  }
  // A block that says where it belongs.
  static void Stamp(std::byte* block, std::uint64_t number) {
    for (std::size_t at = 0; at < kBlock; at += 8) std::memcpy(block + at, &number, 8);
  }

  TemporaryImage image_{16 << 20};
};

TEST_F(FileLunTest, ReportsItsFacts) {
  const auto lun = Open();
  EXPECT_EQ(lun->size_bytes(), 16U << 20);
  EXPECT_EQ(lun->logical_block_bytes(), 4096U);
  EXPECT_EQ(lun->name(), image_.path());
  EXPECT_FALSE(lun->has_reservations());
}

TEST_F(FileLunTest, ManyThreadsRunBatchesLargerThanTheRing) {
  const auto lun = Open();
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kBlocks = 2 * Uring::kEntries + 7;
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&lun, t] {
      // Every other block, so that nothing merges; each thread has its own lane.
      const auto place = [t](std::size_t i) { return (i * kThreads + t) * kBlock; };
      const AlignedBuffer out(kBlocks * kBlock);
      IoBatch writes;
      for (std::size_t i = 0; i < kBlocks; ++i) {
        Stamp(out.data() + i * kBlock, place(i));
        writes.Add(*lun, LunRequest::Kind::kWrite, place(i), {out.data() + i * kBlock, kBlock});
      }
      EXPECT_TRUE(writes.Run().ok());
      const AlignedBuffer in = AlignedBuffer::Zeroed(kBlocks * kBlock);
      IoBatch reads;
      for (std::size_t i = 0; i < kBlocks; ++i) {
        reads.Add(*lun, LunRequest::Kind::kRead, place(i), {in.data() + i * kBlock, kBlock});
      }
      EXPECT_TRUE(reads.Run().ok());
      EXPECT_EQ(std::memcmp(in.data(), out.data(), out.size()), 0);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(lun->Flush().ok());
}

TEST_F(FileLunTest, VectoredRequestsScatterAndGather) {
  const auto lun = Open();
  const AlignedBuffer memory = AlignedBuffer::Zeroed(8 * kBlock);
  IoBatch writes;  // consecutive on the LUN, apart in memory: one request of four parts
  for (std::size_t i = 0; i < 4; ++i) {
    std::byte* block = memory.data() + 2 * i * kBlock;
    Stamp(block, 100 + i);
    writes.Add(*lun, LunRequest::Kind::kWrite, i * kBlock, {block, kBlock});
  }
  ASSERT_TRUE(writes.Run().ok());
  const AlignedBuffer in(4 * kBlock);
  ASSERT_TRUE(lun->Read(0, in.span()).ok());
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(std::memcmp(in.data() + i * kBlock, memory.data() + 2 * i * kBlock, kBlock), 0) << i;
  }
}

TEST_F(FileLunTest, RefusesUnalignedOrOutOfRangeRequests) {
  const auto lun = Open();
  const AlignedBuffer buffer(2 * kBlock);
  EXPECT_TRUE(absl::IsInvalidArgument(lun->Read(512, buffer.span())));
  EXPECT_TRUE(absl::IsInvalidArgument(lun->Read(0, buffer.span().first(100))));
  EXPECT_TRUE(absl::IsOutOfRange(lun->Read((16 << 20) - kBlock, buffer.span())));
  EXPECT_TRUE(absl::IsOutOfRange(lun->Write(~std::uint64_t{4095}, buffer.span())));
}

TEST_F(FileLunTest, AShortTransferIsAnError) {
  const auto lun = Open();
  ASSERT_EQ(truncate(image_.path().c_str(), 3 * kBlock), 0);  // behind the LUN's back
  const AlignedBuffer buffer(2 * kBlock);
  const absl::Status status = lun->Read(2 * kBlock, buffer.span());
  EXPECT_TRUE(absl::IsUnknown(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("only 4096 bytes"));
}

TEST_F(FileLunTest, ReadOnlyRefusesWrites) {
  const auto lun = Open(LunAccess::kReadOnly);
  const AlignedBuffer buffer = AlignedBuffer::Zeroed(kBlock);
  EXPECT_TRUE(lun->read_only());
  EXPECT_TRUE(lun->Read(0, buffer.span()).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(lun->Write(0, buffer.span())));
  EXPECT_TRUE(absl::IsFailedPrecondition(lun->Discard(0, kBlock)));
}

TEST_F(FileLunTest, DiscardFreesTheFilesBlocks) {
  const auto lun = Open();
  const AlignedBuffer buffer(1 << 20);
  Stamp(buffer.data(), 1);
  ASSERT_TRUE(lun->Write(0, buffer.span()).ok());
  const absl::Status status = lun->Discard(0, 1 << 20);
  if (absl::IsUnimplemented(status)) GTEST_SKIP() << status;
  ASSERT_TRUE(status.ok()) << status;
  struct stat facts {};
  ASSERT_EQ(stat(image_.path().c_str(), &facts), 0);
  EXPECT_LT(facts.st_blocks, 100);
  EXPECT_EQ(facts.st_size, 16 << 20);
}

TEST_F(FileLunTest, OnlyOneObjectHoldsAClaim) {
  auto first = Open();
  const auto second = Open();
  EXPECT_TRUE(first->ClaimForThisProcess().ok());
  EXPECT_TRUE(first->ClaimForThisProcess().ok()) << "again";
  EXPECT_TRUE(absl::IsFailedPrecondition(second->ClaimForThisProcess()));
  first.reset();
  EXPECT_TRUE(second->ClaimForThisProcess().ok());
}

TEST_F(FileLunTest, TheRingSurvivesAFork) {
  const auto lun = Open();
  const AlignedBuffer buffer = AlignedBuffer::Zeroed(kBlock);
  ASSERT_TRUE(lun->Read(0, buffer.span()).ok());  // this thread has a ring now
  const pid_t child = fork();
  if (child == 0) {
    Stamp(buffer.data(), 7);
    _exit(lun->Write(0, buffer.span()).ok() ? 0 : 1);
  }
  int outcome = -1;
  ASSERT_EQ(waitpid(child, &outcome, 0), child);
  EXPECT_EQ(outcome, 0);
  ASSERT_TRUE(lun->Read(0, buffer.span()).ok());
  EXPECT_EQ(static_cast<int>(buffer.data()[0]), 7);
}

TEST_F(FileLunTest, WithoutIoUringRequestsStillRun) {
  const int fd = open(image_.path().c_str(), O_RDWR | O_DIRECT | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  // A LUN over an engine of its own choosing.
  struct EngineLun final : Lun {
    explicit EngineLun(int fd) : fd(fd) {}
    const std::string& name() const override { return lun_name; }
    std::uint64_t size_bytes() const override { return 16 << 20; }
    std::uint32_t logical_block_bytes() const override { return 4096; }
    void Start(LunRequest& request) override { engine.Start({.fd = fd}, request); }
    absl::Status Flush() override { return absl::OkStatus(); }
    absl::Status Discard(std::uint64_t, std::uint64_t) override { return absl::OkStatus(); }
    absl::Status ClaimForThisProcess() override { return absl::OkStatus(); }
    Uring engine{Uring::Mode::kBlocking};
    int fd;
    std::string lun_name = "engine";
  } lun(fd);
  const AlignedBuffer buffer(kBlock);
  Stamp(buffer.data(), 42);
  EXPECT_TRUE(lun.Write(kBlock, buffer.span()).ok());
  Stamp(buffer.data(), 0);
  EXPECT_TRUE(lun.Read(kBlock, buffer.span()).ok());
  EXPECT_EQ(static_cast<int>(buffer.data()[0]), 42);
  close(fd);
  const absl::Status status = lun.Read(0, buffer.span());
  EXPECT_THAT(std::string(status.message()), HasSubstr("Bad file descriptor"));
}

TEST(OpenLun, ABadNameIsExplained) {
  EXPECT_TRUE(absl::IsNotFound(OpenLun("/no/such/lun", LunAccess::kReadOnly).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(OpenLun("/", LunAccess::kReadOnly).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(OpenLun("/dev/null", LunAccess::kReadOnly).status()));
  const absl::Status iscsi = OpenLun("iscsi://portal/target/1", LunAccess::kReadOnly).status();
  EXPECT_TRUE(absl::IsInvalidArgument(iscsi));
  EXPECT_THAT(std::string(iscsi.message()), HasSubstr("iqn."));
}

}  // namespace
}  // namespace reel
