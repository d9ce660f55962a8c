#include "volume/format/dump_mark.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "volume/base/aligned_buffer.h"
#include "volume/base/coding.h"
#include "volume/testing/faulty_lun.h"
#include "volume/testing/sample_volume.h"

namespace reel {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const Uuid kVolume = SampleUuid(200);
const Uuid kFirst = SampleUuid(1), kSecond = SampleUuid(2);

DumpMark MarkOf(std::uint64_t epoch, std::uint64_t generation, std::vector<Uuid> dumps) {
  return {kVolume, Epoch(epoch), generation, std::move(dumps)};
}

absl::Status Allowed() {
  return absl::OkStatus();
}

class DumpMarkTest : public testing::Test {
 protected:
  absl::Status Write(const DumpMark& mark) { return WriteDumpMark(lun_, mark, Allowed); }
  DumpMark Read() {
    const auto mark = ReadDumpMark(lun_, kVolume);
    EXPECT_TRUE(mark.ok()) << mark.status();
    return mark.value_or(DumpMark());
  }

  FaultyLun lun_;
};

// What a mark with these fields looks like on the LUN, for ever.
TEST_F(DumpMarkTest, GoldenBytes) {
  std::string expected = "REELDUMP";
  expected += std::string("\x01\x00\x00\x00", 4);
  expected += std::string("\x00\x00\x00\x00", 4);
  expected += std::string(15, '\0') + '\xc8';
  expected += std::string("\x07\x00\x00\x00\x00\x00\x00\x00", 8);
  expected += std::string("\x02\x01\x00\x00\x00\x00\x00\x00", 8);
  expected += std::string("\x02\x00\x00\x00\x00\x00\x00\x00", 8);
  expected += std::string(15, '\0') + '\x01';
  expected += std::string(15, '\0') + '\x02';
  const std::string encoded = EncodeDumpMark(MarkOf(7, 0x102, {kFirst, kSecond}));
  StoreU32(expected.data() + 12, LoadU32(encoded.data() + 12));
  expected.resize(kDumpMarkBytes, '\0');
  EXPECT_TRUE(encoded == expected);
  EXPECT_EQ(DecodeDumpMark(AsBytes(encoded)).value(), MarkOf(7, 0x102, {kFirst, kSecond}));
}

TEST_F(DumpMarkTest, DamageIsSeen) {
  EXPECT_TRUE(absl::IsNotFound(DecodeDumpMark({}).status()));
  std::string bytes = EncodeDumpMark(MarkOf(1, 1, {kFirst}));
  EXPECT_TRUE(absl::IsDataLoss(DecodeDumpMark(AsBytes(bytes.substr(0, 4000))).status()));
  for (std::size_t at = 8; at < kDumpMarkBytes; at += 7) {
    bytes[at] = static_cast<char>(bytes[at] ^ 4);
    EXPECT_FALSE(DecodeDumpMark(AsBytes(bytes)).ok()) << at;
    bytes[at] = static_cast<char>(bytes[at] ^ 4);
  }
}

TEST_F(DumpMarkTest, NoneIsThereAtFirstOrOnlyAnotherVolumes) {
  EXPECT_TRUE(absl::IsNotFound(ReadDumpMark(lun_, kVolume).status()));
  ASSERT_TRUE(WriteDumpMark(lun_, {SampleUuid(9), Epoch(50), 1, {kFirst}}, Allowed).ok());
  EXPECT_TRUE(absl::IsNotFound(ReadDumpMark(lun_, kVolume).status()));
  ASSERT_TRUE(Write(MarkOf(1, 1, {kSecond})).ok());
  EXPECT_THAT(Read().dumps, ElementsAre(kSecond));
}

TEST_F(DumpMarkTest, OnceAChangeIsDoneNoSlotSaysWhatWasBefore) {
  for (std::uint64_t generation = 1; generation < 5; ++generation) {
    ASSERT_TRUE(Write(MarkOf(1, generation, {kFirst})).ok());
  }
  ASSERT_TRUE(Write(MarkOf(1, 5, {})).ok());
  lun_.Crash(1, FaultyLun::kLoseAll);
  for (const std::uint64_t offset : kDumpMarkOffsets) {
    lun_.FlipBit(offset + 20, 3);
    EXPECT_THAT(Read().dumps, IsEmpty()) << "the other slot says the same";
    lun_.FlipBit(offset + 20, 3);
  }
}

// A crash between any two steps, and a write that is torn, leave the old mark or the new one.
TEST_F(DumpMarkTest, AChangeThatIsCutOffLeavesOldOrNew) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    FaultyLun lun;
    ASSERT_TRUE(WriteDumpMark(lun, MarkOf(1, 1, {kFirst}), Allowed).ok());
    if (seed % 2 != 0) lun.FailRequest(1 + seed / 2 % 2, LunRequest::Kind::kWrite);
    if (seed % 2 == 0) lun.FailFlush(1 + seed / 2 % 2);
    ASSERT_FALSE(WriteDumpMark(lun, MarkOf(1, 2, {kSecond}), Allowed).ok());
    lun.Crash(seed);
    const auto mark = ReadDumpMark(lun, kVolume);
    ASSERT_TRUE(mark.ok()) << seed << ": " << mark.status();
    EXPECT_TRUE(mark->Names(kFirst) != mark->Names(kSecond)) << seed;
    ASSERT_TRUE(WriteDumpMark(lun, MarkOf(1, 3, {}), Allowed).ok());
    EXPECT_THAT(ReadDumpMark(lun, kVolume)->dumps, IsEmpty());
  }
}

TEST_F(DumpMarkTest, AnEarlierEpochChangesNothing) {
  ASSERT_TRUE(Write(MarkOf(1, 9, {kFirst})).ok());
  ASSERT_TRUE(Write(MarkOf(2, 1, {})).ok());
  EXPECT_TRUE(absl::IsAborted(Write(MarkOf(1, 10, {kFirst}))));
  EXPECT_THAT(Read().dumps, IsEmpty());
}

// A controller stood still between its look at the clock and its write, which lands later.
TEST_F(DumpMarkTest, ALateWriteOfAnEarlierEpochDoesNotRule) {
  for (const std::uint64_t offset : kDumpMarkOffsets) {
    ASSERT_TRUE(Write(MarkOf(2, 1, {})).ok());
    AlignedBuffer buffer(kDumpMarkBytes);
    std::memcpy(buffer.data(), EncodeDumpMark(MarkOf(1, 10, {kFirst})).data(), kDumpMarkBytes);
    ASSERT_TRUE(lun_.Write(offset, buffer.span()).ok());
    EXPECT_THAT(Read().dumps, IsEmpty());
  }
}

TEST_F(DumpMarkTest, NothingIsWrittenWithoutTheSeat) {
  ASSERT_TRUE(Write(MarkOf(1, 1, {kFirst})).ok());
  const auto writes = lun_.counters().writes;
  int asked = 0;
  EXPECT_FALSE(WriteDumpMark(lun_, MarkOf(1, 2, {}), [&] {
                 return ++asked < 2 ? absl::OkStatus() : absl::AbortedError("lost");
               }).ok());
  EXPECT_EQ(lun_.counters().writes, writes + 1) << "asked before each write";
}

}  // namespace
}  // namespace reel
