// Where a log ends: what is cut off, and what must not be.
#include "mdc/metafs/framed_log.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>

namespace reel::metafs {
namespace {

constexpr LogId kId{7, Epoch(3)};
constexpr std::uint64_t kCapacityBytes = 64 * 1024;

class FramedLog : public ::testing::Test {
 protected:
  // One write of the log; the next one says that it was synced.
  void Write(const std::string& data) {
    Put(data);
    writer_.Synced(writer_.frames());
  }
  void WriteUnsynced(const std::string& data) { Put(data); }
  void Flip(std::uint64_t frame) { medium_[frame * kFrameBytes + 60] ^= 4; }
  void Lose(std::uint64_t first, std::uint64_t count) {
    std::memset(medium_.data() + first * kFrameBytes, 0, count * kFrameBytes);
  }
  LogSource Source() {
    return [this](std::uint64_t offset, std::span<std::byte> to) {
      std::memcpy(to.data(), medium_.data() + offset, to.size());
      return absl::OkStatus();
    };
  }
  absl::StatusOr<std::string> Read(LogId id = kId) {
    const absl::StatusOr<LogEnd> end = ScanLog(Source(), kCapacityBytes, id);
    if (!end.ok()) return end.status();
    LogReader reader(Source(), id, *end);
    std::string all;
    if (absl::Status s = reader.Read(1, all); !s.ok()) return s;
    if (absl::Status s = reader.Read(1 << 20, all); !s.ok()) return s;
    EXPECT_EQ(all.size(), end->stream_bytes);
    return all;
  }

 private:
  void Put(const std::string& data) {
    const std::uint64_t at = writer_.next_offset_bytes();
    const AlignedBuffer frames = writer_.Frame(data);
    EXPECT_EQ(frames.size(), LogWriter::FramedBytes(data.size()));
    std::memcpy(medium_.data() + at, frames.data(), frames.size());
  }
  LogWriter writer_{kId};
  std::string medium_ = std::string(kCapacityBytes, '\0');
};

TEST_F(FramedLog, ReadsBackWrittenFrames) {
  EXPECT_EQ(*Read(), "");
  std::string expected;
  for (const std::size_t size : {1u, 455u, 456u, 457u, 3648u, 3649u, 10000u}) {
    const std::string data(size, static_cast<char>('a' + size % 26));
    Write(data);
    expected += data;
  }
  EXPECT_EQ(*Read(), expected);
}

TEST_F(FramedLog, ATornTailIsCutBackToWholeWrites) {
  Write("one");
  WriteUnsynced(std::string(3000, 'x'));
  Lose(8 + 6, 2);  // padding at the end of the second write
  EXPECT_EQ(*Read(), "one");
}

TEST_F(FramedLog, ALostWriteBeforeAKeptOneEndsTheLog) {
  Write("one");
  WriteUnsynced("two");
  WriteUnsynced("three");
  Lose(8, 8);
  EXPECT_EQ(*Read(), "one");
}

TEST_F(FramedLog, ASyncedWriteThatIsMissingIsDataLoss) {
  Write("one");
  Write("two");
  Write("three");
  Lose(8, 8);
  EXPECT_TRUE(absl::IsDataLoss(Read().status()));
}

TEST_F(FramedLog, AFlippedBitIsDataLossEvenAtTheTail) {
  Write("one");
  Write("two");
  for (std::uint64_t frame = 0; frame < 16; ++frame) {
    Flip(frame);
    EXPECT_TRUE(absl::IsDataLoss(Read().status())) << frame;
    Flip(frame);
  }
  EXPECT_TRUE(Read().ok());
}

TEST_F(FramedLog, FramesOfAnotherLogAreOldContent) {
  Write("one");
  EXPECT_EQ(*Read({8, Epoch(3)}), "");
  // The same log in another epoch cannot be: one epoch writes a log.
  EXPECT_TRUE(absl::IsDataLoss(Read({7, Epoch(4)}).status()));
}

}  // namespace
}  // namespace reel::metafs
