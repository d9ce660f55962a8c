#include "volume/lun/io_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "volume/base/aligned_buffer.h"
#include "volume/testing/faulty_lun.h"
#include "volume/testing/sizes.h"

namespace reel {
namespace {

using ::testing::HasSubstr;
constexpr auto kRead = LunRequest::Kind::kRead;
constexpr auto kWrite = LunRequest::Kind::kWrite;

class IoBatchTest : public ::testing::Test {
 protected:
  // Block `n` of the test's memory, as one piece.
  iovec Block(std::size_t n, std::size_t count = 1) {
    return {memory_.data() + n * kBlock, count * kBlock};
  }
  void Fill(std::size_t n, char with) { std::memset(memory_.data() + n * kBlock, with, kBlock); }
  static char FirstByteAt(Lun& lun, std::uint64_t block) {
    AlignedBuffer buffer(kBlock);
    EXPECT_TRUE(lun.Read(block * kBlock, buffer.span()).ok());
    return static_cast<char>(buffer.data()[0]);
  }

  AlignedBuffer memory_ = AlignedBuffer::Zeroed(64 * kBlock);
  FaultyLun a_{{.name = "a"}};
  FaultyLun b_{{.name = "b"}};
};

TEST_F(IoBatchTest, EmptyRunsAtOnce) {
  IoBatch batch;
  EXPECT_TRUE(batch.empty());
  EXPECT_TRUE(batch.Run().ok());
}

TEST_F(IoBatchTest, MergesNeighboursAcrossAnInterleavedLun) {
  for (std::size_t i = 0; i < 6; ++i) Fill(i, static_cast<char>('0' + i));
  IoBatch batch;  // stripes: a0 b0 a1 b1 a2 b2
  for (std::size_t i = 0; i < 6; ++i)
    batch.Add(i % 2 == 0 ? a_ : b_, kWrite, i / 2 * kBlock, Block(i));
  ASSERT_TRUE(batch.Run().ok());
  EXPECT_EQ(a_.counters().writes, 1U);
  EXPECT_EQ(b_.counters().writes, 1U);
  EXPECT_EQ(a_.counters().written_bytes, 3 * kBlock);
  EXPECT_EQ(FirstByteAt(a_, 2), '4');
  EXPECT_EQ(FirstByteAt(b_, 1), '3');
}

TEST_F(IoBatchTest, KeepsDistantRequestsApart) {
  IoBatch batch;
  batch.Add(a_, kRead, 0, Block(0));
  batch.Add(a_, kWrite, kBlock, Block(1));     // another kind
  batch.Add(a_, kRead, 2 * kBlock, Block(2));  // a gap
  batch.Add(b_, kRead, kBlock, Block(3));      // another LUN
  ASSERT_TRUE(batch.Run().ok());
  EXPECT_EQ(a_.counters().reads, 2U);
  EXPECT_EQ(a_.counters().writes, 1U);
  EXPECT_EQ(b_.counters().reads, 1U);
}

TEST_F(IoBatchTest, SplitsLongRequests) {
  const AlignedBuffer large(IoBatch::kMaxRequestBytes + kBlock);
  std::memset(large.data(), 'x', large.size());
  IoBatch batch;
  batch.Add(a_, kWrite, 0, {large.data(), large.size()});
  ASSERT_TRUE(batch.Run().ok());
  EXPECT_EQ(a_.counters().writes, 2U);
  EXPECT_EQ(FirstByteAt(a_, IoBatch::kMaxRequestBytes / kBlock), 'x');
}

TEST_F(IoBatchTest, ReturnsTheFirstErrorByOrderOfAddingAndRunsTheRest) {
  b_.FailRange(8 * kBlock, kBlock);
  a_.FailRange(16 * kBlock, kBlock);
  Fill(2, 'z');
  IoBatch batch;
  batch.Add(b_, kWrite, 8 * kBlock, Block(0));
  batch.Add(a_, kWrite, 16 * kBlock, Block(1));
  batch.Add(a_, kWrite, 0, Block(2));
  const absl::Status status = batch.Run();
  EXPECT_TRUE(absl::IsUnknown(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("b: write of 4096 bytes at offset 32768"));
  EXPECT_EQ(FirstByteAt(a_, 0), 'z');
}

TEST_F(IoBatchTest, WaitsForLunsThatCompleteFromTheirOwnThreads) {
  FaultyLun threaded({.name = "threaded", .threads = 3});
  for (int round = 0; round < 200; ++round) {
    IoBatch batch;
    for (std::size_t i = 0; i < 8; ++i) {
      Fill(i, static_cast<char>(round + static_cast<int>(i)));
      batch.Add(threaded, kWrite, 2 * i * kBlock, Block(i));  // gaps: eight requests
    }
    ASSERT_TRUE(batch.Run().ok());
    IoBatch again;
    for (std::size_t i = 0; i < 8; ++i) again.Add(threaded, kRead, 2 * i * kBlock, Block(8 + i));
    ASSERT_TRUE(again.Run().ok());
    ASSERT_EQ(std::memcmp(Block(0).iov_base, Block(8).iov_base, 8 * kBlock), 0);
  }
  EXPECT_EQ(threaded.counters().writes, 1600U);
}

}  // namespace
}  // namespace reel
