// The byte layouts of the superblock, the frame and the journal's records.
#include <gtest/gtest.h>

#include <string>

#include "mdc/metafs/frame.h"
#include "mdc/metafs/journal.h"
#include "mdc/metafs/superblock.h"
#include "volume/base/coding.h"

namespace reel::metafs {
namespace {

std::string Hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  for (const char c : bytes) {
    hex.push_back(kDigits[static_cast<unsigned char>(c) >> 4]);
    hex.push_back(kDigits[static_cast<unsigned char>(c) & 15]);
  }
  return hex;
}

Superblock Example() {
  Superblock s;
  s.generation = 7;
  s.epoch = Epoch(5);
  s.block_bytes = 4096;
  s.chunk_bytes = 65536;
  s.journal_id = 9;
  s.journal = {{3, 2}};
  s.regions = {{PoolId(1), PoolBlock(0), 0x1000}, {PoolId(2), PoolBlock(0x55), 0x10}};
  return s;
}

TEST(SuperblockCodec, GoldenBytes) {
  const std::string encoded = EncodeSuperblock(Example());
  ASSERT_EQ(encoded.size(), kSuperblockBytes);
  EXPECT_EQ(Hex(encoded.substr(0, 128)),
            "524c4d455441465301000000a034138b000000000000000007000000000000000500000000000000001000"
            "0000000100"
            "09000000000000000100000002000000030000000000000002000000000000000100000000000000000000"
            "00001000"
            "000000000002000000550000000000000010000000000000000000000000000000");
  EXPECT_EQ(encoded.find_first_not_of('\0', 128), std::string::npos);
  const absl::StatusOr<Superblock> decoded = DecodeSuperblock(AsBytes(encoded));
  ASSERT_TRUE(decoded.ok()) << decoded.status();
  EXPECT_EQ(*decoded, Example());
}

TEST(SuperblockCodec, EveryFlippedBitIsSeen) {
  const std::string encoded = EncodeSuperblock(Example());
  for (std::size_t bit = 0; bit < encoded.size() * 8; ++bit) {
    std::string flipped = encoded;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    ASSERT_FALSE(DecodeSuperblock(AsBytes(flipped)).ok()) << "bit " << bit;
  }
}

TEST(SuperblockCodec, RefusesWhatCannotBe) {
  const auto refused = [](auto change) {
    Superblock s = Example();
    change(s);
    return !ValidateSuperblock(s).ok();
  };
  EXPECT_TRUE(refused([](Superblock& s) { s.regions.clear(); }));
  EXPECT_TRUE(refused([](Superblock& s) { s.regions[0].first_block = PoolBlock(1); }));
  EXPECT_TRUE(refused([](Superblock& s) { s.regions[1].length_blocks = ~0ull; }));
  EXPECT_TRUE(refused([](Superblock& s) { s.regions[1] = {PoolId(1), PoolBlock(0xfff), 1}; }));
  EXPECT_TRUE(refused([](Superblock& s) { s.journal = {{~0ull, 2}}; }));
  EXPECT_TRUE(refused([](Superblock& s) { s.journal = {{3, ~0ull}}; }));
  EXPECT_TRUE(refused([](Superblock& s) { s.chunk_bytes = 3 << 15; }));
}

TEST(FrameCodec, GoldenBytes) {
  const FrameHeader header{.file_id = 0x1122,
                           .epoch = Epoch(3),
                           .sequence = 8,
                           .synced_through = 7,
                           .stream_offset = 0x1234,
                           .length_bytes = 5,
                           .ends_write = true};
  std::string frame(kFrameBytes, 'x');
  EncodeFrame(header, "hello", reinterpret_cast<std::byte*>(frame.data()));
  EXPECT_EQ(Hex(frame.substr(0, 64)),
            "4c46524d214b5352221100000000000003000000000000000800000000000000"
            "07000000000000003412000000000000050001000000000068656c6c6f000000");
  EXPECT_EQ(frame.find_first_not_of('\0', 61), std::string::npos);
  FrameHeader decoded;
  ASSERT_EQ(DecodeFrame(AsBytes(frame), decoded), FrameState::kFrame);
  EXPECT_EQ(decoded, header);
}

TEST(FrameCodec, EveryFlippedBitIsSeen) {
  std::string frame(kFrameBytes, 'x');
  EncodeFrame({.file_id = 1, .epoch = Epoch(1), .length_bytes = 3}, "abc",
              reinterpret_cast<std::byte*>(frame.data()));
  for (std::size_t bit = 0; bit < kFrameBytes * 8; ++bit) {
    std::string flipped = frame;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    FrameHeader header;
    ASSERT_EQ(DecodeFrame(AsBytes(flipped), header), FrameState::kDamaged) << "bit " << bit;
  }
  FrameHeader header;
  EXPECT_EQ(DecodeFrame(AsBytes(std::string(kFrameBytes, '\0')), header), FrameState::kBlank);
}

TEST(JournalCodec, ReplaysToTheLastRecord) {
  FileRecord file;
  file.id = 4;
  file.epoch = Epoch(2);
  file.size_bytes = 99;
  file.checksum = 0xabcd;
  file.name = "/meta/CURRENT";
  file.runs = {{5, 1}, {9, 3}};
  std::string stream;
  PutNextIdRecord(stream, 11);
  PutClaimRecord(stream, {{5, 8}});
  PutFileRecord(stream, file);
  EXPECT_EQ(Hex(stream),
            "040b00000000000000"
            "030100000005000000000000000800000000000000"
            "0104000000000000000002000000000000006300000000000000cdab0000"
            "0d002f6d6574612f43555252454e54"
            "020000000500000000000000010000000000000009000000000000000300000000000000");
  file.size_bytes = 100;
  PutFileRecord(stream, file);
  FileRecord other = file;
  other.id = 6;
  PutFileRecord(stream, other);
  PutRemoveRecord(stream, 6);
  absl::StatusOr<JournalState> state = ReplayJournal(AsBytes(stream));
  ASSERT_TRUE(state.ok()) << state.status();
  ASSERT_EQ(state->files.size(), 1u);
  EXPECT_EQ(state->files.at(4), file);
  EXPECT_EQ(state->next_id, 11u);
  EXPECT_FALSE(state->clean);
  PutCleanRecord(stream);
  EXPECT_TRUE(ReplayJournal(AsBytes(stream))->clean);
  for (std::size_t cut = stream.size() - 3; cut > stream.size() - 9; --cut) {
    EXPECT_FALSE(ReplayJournal(AsBytes(stream).first(cut)).ok()) << cut;
  }
}

TEST(JournalCodec, ACopyOfTheSuperblock) {
  std::string stream;
  PutSuperblockRecord(stream, Example());
  EXPECT_EQ(Hex(stream.substr(0, 11)), "067100524c4d4554414653");
  EXPECT_EQ(stream.size(), 3u + 0x71) << "without the zeros at its end";
  EXPECT_EQ(*LeadingSuperblock(AsBytes(stream)), Example());
  PutNextIdRecord(stream, 11);
  EXPECT_EQ(ReplayJournal(AsBytes(stream))->superblock, Example());
  for (std::size_t at = 0; at < 3u + 0x71; ++at) {
    std::string flipped = stream;
    flipped[at] = static_cast<char>(flipped[at] ^ 4);
    EXPECT_FALSE(LeadingSuperblock(AsBytes(flipped)).ok()) << at;
  }
}

}  // namespace
}  // namespace reel::metafs
