// A dump is read whole or not at all.
#include "mdc/backup/dump_format.h"

#include <sstream>

#include "gmock/gmock.h"
#include "mdc/backup/dump_reader.h"
#include "mdc/backup/dump_writer.h"
#include "mdc/metadb/rocks_memory.h"

namespace reel::mdc {
namespace {

using testing::ElementsAre;
using testing::Pair;

Uuid Id(std::uint8_t number) {
  Uuid id;
  id.bytes[15] = number;
  return id;
}

DumpHead SampleHead(std::uint8_t dump = 1) {
  return {.dump = Id(dump),
          .volume = Id(9),
          .epoch = Epoch(7),
          .sequence = Sequence(0x102),
          .taken = {1'700'000'000, 5},
          .lease_ms = 10'000,
          .descriptor = "described"};
}

class DumpTest : public testing::Test {
 protected:
  DumpTest() {
    WriteBatch batch;
    batch.Put(schema::VolumeKey(), "volume");
    batch.Put(schema::InodeKey(InodeNumber(1)), "root");
    batch.Put(schema::InodeKey(InodeNumber(2)), std::string(700'000, 'i'));
    batch.Put(schema::InodeKey(InodeNumber(3)), std::string(700'000, 'j'));
    batch.Put(schema::DirentKey(InodeNumber(1), "name"), "entry");
    batch.Put(schema::XattrKey(InodeNumber(2), "user.empty"), "");
    // None of a dump's business.
    batch.Put(schema::FreeKey(PoolId(0), PoolBlock(1)), "free");
    batch.Put(schema::WaitingKey(PoolId(0), PoolBlock(9)), "waiting");
    batch.Put(schema::SessionKey(SessionId(4)), "session");
    batch.Put(schema::ReplyKey(SessionId(4), 1), "reply");
    EXPECT_TRUE(store_.db().Apply(batch).ok());
  }
  static std::vector<std::string> BlocksOf(DumpWriter writer) {
    std::vector<std::string> blocks;
    while (!writer.done()) blocks.push_back(writer.Next().value());
    return blocks;
  }
  std::vector<std::string> Blocks(std::uint8_t dump = 1) {
    return BlocksOf(DumpWriter(store_.db(), SampleHead(dump)));
  }
  static std::string Joined(const std::vector<std::string>& blocks) {
    std::string file;
    for (const std::string& block : blocks) file += block;
    return file;
  }
  // Reads all of it; the records are in records_.
  absl::Status Read(const std::string& bytes) {
    std::istringstream file(bytes);
    DumpReader reader(file);
    records_.clear();
    const auto head = reader.ReadHead();
    if (!head.ok()) return head.status();
    EXPECT_EQ(*head, SampleHead());
    return reader
        .ReadRecords([&](const schema::ParsedKey&, std::string_view key, std::string_view value) {
          records_.emplace_back(std::string(key), value.size());
          return absl::OkStatus();
        })
        .status();
  }

  MemoryStore store_;
  std::vector<std::pair<std::string, std::size_t>> records_;
};

TEST_F(DumpTest, HoldsWhatHasToBeRestored) {
  ASSERT_TRUE(Read(Joined(Blocks())).ok());
  EXPECT_THAT(records_, ElementsAre(Pair("V", 6), Pair(schema::InodeKey(InodeNumber(1)), 4),
                                    Pair(schema::InodeKey(InodeNumber(2)), 700'000),
                                    Pair(schema::InodeKey(InodeNumber(3)), 700'000),
                                    Pair(schema::DirentKey(InodeNumber(1), "name"), 5),
                                    Pair(schema::XattrKey(InodeNumber(2), "user.empty"), 0)));
}

TEST_F(DumpTest, HoldsTheStoreAsItWasWhenItBegan) {
  DumpWriter writer(store_.db(), SampleHead());
  WriteBatch later;
  later.Put(schema::InodeKey(InodeNumber(4)), "later");
  later.Delete(schema::InodeKey(InodeNumber(2)));
  later.Put(schema::VolumeKey(), "changed volume");
  ASSERT_TRUE(store_.db().Apply(later).ok());
  ASSERT_TRUE(Read(Joined(BlocksOf(std::move(writer)))).ok());
  EXPECT_EQ(records_.size(), 6u);
  EXPECT_EQ(records_[0].second, 6u);
}

// The head and the frame of a block, for ever.
TEST_F(DumpTest, GoldenBytes) {
  const std::string head = Blocks()[0];
  std::string expected = "REELMETA" + std::string("\x01\x00\x00\x00", 4);
  expected += head.substr(12, 4);
  expected += std::string(15, '\0') + '\x01' + std::string(8, '\0');
  expected += std::string("\x01\x00\x00\x00\x3d\x00\x00\x00", 8);
  expected += std::string(15, '\0') + '\x09';
  expected += std::string("\x07\x00\x00\x00\x00\x00\x00\x00\x02\x01\x00\x00\x00\x00\x00\x00", 16);
  expected += std::string("\x00\xf1\x53\x65\x00\x00\x00\x00\x05\x00\x00\x00\x10\x27\x00\x00", 16);
  expected += std::string("\x09\x00\x00\x00", 4) + "described";
  EXPECT_EQ(head, expected);
}

TEST_F(DumpTest, OneThatIsCutShortIsRefused) {
  const std::vector<std::string> blocks = Blocks();
  ASSERT_GT(blocks.size(), 3u);
  const std::string file = Joined(blocks);
  for (std::size_t bytes = 0; bytes < file.size(); bytes += bytes < 200 ? 1 : 9973) {
    EXPECT_TRUE(absl::IsDataLoss(Read(file.substr(0, bytes)))) << bytes;
  }
  EXPECT_TRUE(absl::IsDataLoss(Read(file.substr(0, file.size() - 1))));
  EXPECT_TRUE(absl::IsDataLoss(Read(file + "x")));
  for (std::size_t missing = 0; missing < blocks.size(); ++missing) {
    std::vector<std::string> rest = blocks;
    rest.erase(rest.begin() + static_cast<std::ptrdiff_t>(missing));
    EXPECT_TRUE(absl::IsDataLoss(Read(Joined(rest)))) << "without block " << missing;
  }
}

TEST_F(DumpTest, AFlippedBitIsSeen) {
  std::string file = Joined(Blocks());
  for (std::size_t at = 0; at < file.size(); at += at < 400 ? 1 : 4999) {
    file[at] = static_cast<char>(file[at] ^ 0x10);
    EXPECT_FALSE(Read(file).ok()) << at;
    file[at] = static_cast<char>(file[at] ^ 0x10);
  }
  EXPECT_TRUE(Read(file).ok());
}

TEST_F(DumpTest, BlocksOfTwoDumpsAreNotOne) {
  std::vector<std::string> blocks = Blocks();
  blocks[1] = Blocks(2)[1];
  EXPECT_TRUE(absl::IsDataLoss(Read(Joined(blocks))));
  blocks = Blocks();
  std::swap(blocks[1], blocks[2]);
  EXPECT_TRUE(absl::IsDataLoss(Read(Joined(blocks))));
}

}  // namespace
}  // namespace reel::mdc
