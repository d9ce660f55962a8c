#include "client/buffers/read_ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "client/testing/data_cluster.h"

namespace reel::client {
namespace {

constexpr IoContext kStream{.read_ahead = true};

class ReadAheadTest : public testing::Test {
 protected:
  ReadAheadTest() : cluster_(Shape()), inode_(cluster_.mdc().CreateFile()) {}

  static ClusterShape Shape() {
    ClusterShape shape{.block_bytes = 65536, .rows = 200};
    shape.data.always_read_ahead = true;
    shape.mdc.run_blocks = 100'000;
    return shape;
  }
  static std::string Bytes(std::uint64_t length, char first = 'a') {
    std::string bytes(length, ' ');
    for (std::uint64_t i = 0; i < length; ++i) {
      bytes[i] = static_cast<char>(first + i / 1'009 % 26);
    }
    return bytes;
  }
  // All of the file, by reads of `step` bytes.
  std::string Scan(TestClient& client, std::uint64_t step) {
    std::string all;
    for (;;) {
      const std::string part = client.Read(inode_, all.size(), step, kStream);
      if (part.empty()) return all;
      all += part;
    }
  }

  DataCluster cluster_;
  const std::uint64_t inode_;
};

TEST_F(ReadAheadTest, AStreamReadsWhatIsThere) {
  const auto client = cluster_.Mount();
  const std::string bytes = Bytes(9'876'543);
  client->Write(inode_, 0, bytes);
  for (const std::uint64_t step : {100'000, 131'072, 1 << 20, 777'777}) {
    ASSERT_EQ(Scan(*client, step), bytes) << step;
  }
}

TEST_F(ReadAheadTest, TheLunsAreReadBeforeTheProgramAsks) {
  const auto client = cluster_.Mount();
  ASSERT_TRUE(client->data().Open(inode_, true, {}).ok());
  const std::string bytes = Bytes(6 << 20);
  client->Write(inode_, 0, bytes);
  EXPECT_EQ(client->Read(inode_, 0, 1 << 20, kStream), bytes.substr(0, 1 << 20));
  EXPECT_EQ(client->Read(inode_, 1 << 20, 1 << 20, kStream), bytes.substr(1 << 20, 1 << 20));
  // This waits for the part that is on its way; the rest of it is there then.
  EXPECT_EQ(client->Read(inode_, 2 << 20, 1, kStream), bytes.substr(2 << 20, 1));
  for (std::size_t i = 0; i < 3; ++i) cluster_.lun(i).SetUnplugged(true);
  EXPECT_EQ(client->Read(inode_, (2 << 20) + 1, 1000, kStream), bytes.substr((2 << 20) + 1, 1000));
  for (std::size_t i = 0; i < 3; ++i) cluster_.lun(i).SetUnplugged(false);
  client->data().Close(inode_);
}

TEST_F(ReadAheadTest, LargeReadsAreReadAheadAsSmallOnesAre) {
  const auto client = cluster_.Mount();
  ASSERT_TRUE(client->data().Open(inode_, true, {}).ok());
  const std::string bytes = Bytes(24 << 20);
  client->Write(inode_, 0, bytes);
  EXPECT_EQ(Scan(*client, 4 << 20), bytes);
  EXPECT_EQ(client->data().prefetch_counts().reads, 4u)
      << "all but the first two, which make the stream";
  client->data().Close(inode_);
}

TEST(ReadAheadInLittleMemory, ReadsNothingTwiceWhereALargeReadHasNoRoom) {
  ClusterShape shape{.block_bytes = 65536, .rows = 200};
  shape.data.always_read_ahead = true;
  shape.data.max_read_ahead_bytes = 3 << 20;
  shape.mdc.run_blocks = 100'000;
  DataCluster cluster(shape);
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto client = cluster.Mount();
  ASSERT_TRUE(client->data().Open(inode, true, {}).ok());
  constexpr std::uint64_t kStep = 4 << 20, kFile = 6 * kStep;
  client->Write(inode, 0, std::string(kFile, 'x'));
  const auto read_bytes = [&] {
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < 3; ++i) sum += cluster.lun(i).counters().read_bytes;
    return sum;
  };
  const std::uint64_t before = read_bytes();
  for (std::uint64_t at = 0; at < kFile; at += kStep) {
    EXPECT_EQ(client->Read(inode, at, kStep, kStream).size(), kStep);
  }
  EXPECT_EQ(read_bytes() - before, kFile);
  client->data().Close(inode);
}

TEST_F(ReadAheadTest, AWriteDuringReadAheadIsSeen) {
  const auto client = cluster_.Mount();
  const auto other = cluster_.Mount();
  const std::string bytes = Bytes(8 << 20);
  client->Write(inode_, 0, bytes);
  ASSERT_TRUE(client->Fsync(inode_).ok());
  for (TestClient* writer : {client.get(), other.get()}) {
    for (std::uint64_t at = 0; at < (6u << 20); at += 300'000) {
      (void)client->Read(inode_, at, 300'000, kStream);
      const std::string mark = writer == other.get() ? "OTHER" : "OWN";
      writer->Write(inode_, at + 500'000, mark);
      (void)client->Read(inode_, at + 300'000, 1'000, kStream);
      ASSERT_EQ(client->Read(inode_, at + 500'000, mark.size(), kStream), mark);
    }
  }
  ASSERT_TRUE(other->Truncate(inode_, 100).ok());
  EXPECT_EQ(Scan(*client, 300'000).size(), 100u);
}

// A scan beside a writer of another host: each record is one that was written, and none is older
// than what the scanner could know.
TEST_F(ReadAheadTest, AScanBesideAWriterSeesNoOldRecord) {
  constexpr std::uint64_t kRecord = 50'000, kRecords = 60;
  const auto client = cluster_.Mount();
  const auto writer = cluster_.Mount();
  std::vector<std::atomic<int>> written(kRecords);
  const auto write = [&](std::uint64_t r, int round) {
    writer->Write(inode_, r * kRecord, std::string(kRecord, static_cast<char>('a' + round)));
    written[r] = round;
  };
  for (std::uint64_t r = 0; r < kRecords; ++r) write(r, 0);
  std::thread writes([&] {
    for (int round = 1; round < 8; ++round) {
      for (std::uint64_t r = 0; r < kRecords; ++r) write(r, round);
    }
  });
  for (int scan = 0; scan < 6; ++scan) {
    for (std::uint64_t r = 0; r < kRecords; ++r) {
      const int least = written[r];
      const std::string record = client->Read(inode_, r * kRecord, kRecord, kStream);
      ASSERT_EQ(record, std::string(kRecord, record[0])) << "record " << r;
      ASSERT_GE(record[0] - 'a', least) << "record " << r;
    }
  }
  writes.join();
}

}  // namespace
}  // namespace reel::client
