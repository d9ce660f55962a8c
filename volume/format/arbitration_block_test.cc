#include "volume/format/arbitration_block.h"

#include <gtest/gtest.h>

#include "volume/base/coding.h"
#include "volume/format/label.h"
#include "volume/lun/lun_fault.h"
#include "volume/testing/faulty_lun.h"
#include "volume/testing/sample_volume.h"

namespace reel {
namespace {

ArbitrationBlock SampleBlock() {
  return {.state = ArbitrationBlock::State::kHeld,
          .volume = SampleUuid(200),
          .epoch = Epoch(7),
          .beat = 0x0102,
          .holder = SampleUuid(3),
          .machine = SampleUuid(4),
          .claimed = true,
          .seat_ms = 1500,
          .host = "mdc1",
          .address = "mdc1:7440"};
}

// What a block with these fields looks like on the LUN, for ever.
TEST(ArbitrationBlock, GoldenBytes) {
  std::string expected = "REELSEAT";
  expected += std::string("\x01\x00\x00\x00", 4);
  expected += std::string("\x00\x00\x00\x00", 4);
  expected += std::string(15, '\0') + '\xc8';
  expected += std::string("\x07\x00\x00\x00\x00\x00\x00\x00", 8);
  expected += std::string("\x02\x01\x00\x00\x00\x00\x00\x00", 8);
  expected += std::string(15, '\0') + '\x03';
  expected += std::string(15, '\0') + '\x04';
  expected += std::string("\xdc\x05\x00\x00\x01\x01", 6);
  expected += std::string("\x04\x00mdc1\x09\x00mdc1:7440", 17);
  const std::string encoded = EncodeArbitration(SampleBlock());
  EXPECT_EQ(LoadU32(encoded.data() + 12), 0xF47BF15D);
  StoreU32(expected.data() + 12, LoadU32(encoded.data() + 12));
  EXPECT_EQ(encoded.substr(0, expected.size()), expected);
  expected.resize(kArbitrationBytes, '\0');
  EXPECT_TRUE(encoded == expected) << "zeros to the end";
  ASSERT_TRUE(DecodeArbitration(AsBytes(expected)).ok());
  EXPECT_EQ(*DecodeArbitration(AsBytes(expected)), SampleBlock());
}

// Since version 2 of the protocol a holder says what it speaks, where there were zeros.
TEST(ArbitrationBlock, GoldenBytesWithProtocolAndRelease) {
  ArbitrationBlock block = SampleBlock();
  block.protocol_oldest = 1;
  block.protocol_newest = 2;
  block.program = "0.9";
  const std::string before = EncodeArbitration(SampleBlock());
  const std::string encoded = EncodeArbitration(block);
  const std::string added = std::string("\x01\x00\x02\x00", 4) + std::string("\x03\x00", 2) + "0.9";
  EXPECT_EQ(encoded.substr(103, added.size()), added);
  EXPECT_EQ(encoded.substr(16, 87), before.substr(16, 87)) << "nothing has moved";
  EXPECT_EQ(*DecodeArbitration(AsBytes(encoded)), block);
}

// Programs that know nothing of what administrators want leave such a block, and the seat, alone.
TEST(ArbitrationBlock, GoldenBytesOfAVolumeThatIsStoppedOrInMaintenance) {
  ArbitrationBlock block = SampleBlock();
  block.state = ArbitrationBlock::State::kOffered;
  block.successor = SampleUuid(9);
  EXPECT_EQ(LoadU32(EncodeArbitration(block).data() + 8), 1U);
  EXPECT_EQ(EncodeArbitration(block).substr(109, 16), std::string(15, '\0') + '\x09');
  EXPECT_EQ(*DecodeArbitration(AsBytes(EncodeArbitration(block))), block);
  for (const bool stopped : {true, false}) {
    block.stopped = stopped;
    block.maintenance = !stopped;
    const std::string encoded = EncodeArbitration(block);
    EXPECT_EQ(LoadU32(encoded.data() + 8), 2U);
    EXPECT_EQ(encoded[85], stopped ? 3 : 5);
    EXPECT_EQ(*DecodeArbitration(AsBytes(encoded)), block);
  }
}

TEST(ArbitrationBlock, EveryFlippedBitIsNoticed) {
  std::string bytes = EncodeArbitration(SampleBlock());
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
    const absl::Status status = DecodeArbitration(AsBytes(bytes)).status();
    ASSERT_TRUE(bit < 64 ? absl::IsNotFound(status) : absl::IsDataLoss(status)) << bit << status;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << bit % 8));
  }
}

TEST(ArbitrationBlock, ANewerFormatIsRefusedAndNoTakenForDamage) {
  std::string bytes = EncodeArbitration(SampleBlock());
  StoreU32(bytes.data() + 8, 3);
  StoreU32(bytes.data() + 12,
           ExtendCrc32c(Crc32c(AsBytes(bytes).first(12)), AsBytes(bytes).subspan(16)));
  EXPECT_TRUE(absl::IsUnimplemented(DecodeArbitration(AsBytes(bytes)).status()));
  EXPECT_TRUE(absl::IsDataLoss(DecodeArbitration(AsBytes(bytes).first(100)).status()));
  EXPECT_TRUE(absl::IsNotFound(DecodeArbitration(AsBytes(std::string(512, '\0'))).status()));
}

TEST(ArbitrationBlock, NamesThatAreTooLongAreCutOff) {
  ArbitrationBlock block = SampleBlock();
  block.host = std::string(300, 'h');
  block.address = std::string(300, 'a');
  block.program = std::string(300, 'p');
  const auto read = DecodeArbitration(AsBytes(EncodeArbitration(block)));
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->host, std::string(kMaxSeatHostBytes, 'h'));
  EXPECT_EQ(read->address, std::string(kMaxSeatAddressBytes, 'a'));
  EXPECT_EQ(read->program, std::string(kMaxSeatProgramBytes, 'p'));
}

TEST(ArbitrationBlock, OverlapsNothingOnLunsOfAnyBlockSize) {
  for (const std::uint32_t block_bytes : {512U, 4096U}) {
    FaultyLun lun(FaultyLun::Options{.logical_block_bytes = block_bytes});
    ASSERT_TRUE(WriteArbitration(lun, SampleBlock()).ok());
    const auto bytes = ReadArbitration(lun);
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_EQ(*bytes, EncodeArbitration(SampleBlock()));
    lun.SetUnplugged(true);
    EXPECT_FALSE(ReadArbitration(lun).ok());
    EXPECT_FALSE(WriteArbitration(lun, SampleBlock()).ok());
  }
  EXPECT_GE(kArbitrationOffset, kDescriptorSlotOffsets[1] + kDescriptorSlotBytes);
  EXPECT_LE(kArbitrationOffset + 4096, kLabelCopyOffset);
}

TEST(ArbitrationBlock, AMachineIsTheSameForAllItsProcesses) {
  EXPECT_EQ(ThisMachine(), ThisMachine());
  EXPECT_FALSE(ThisMachine().is_nil());
}

}  // namespace
}  // namespace reel
