// What a client knows of the LUNs' contents after a flush, and when it has to forget it.
#include <gtest/gtest.h>

#include <string>

#include "client/testing/write_behind_fixture.h"

namespace reel::client {
namespace {

class KnownBytesTest : public WriteBehindTest {
 protected:
  std::uint64_t Reads() {
    std::uint64_t reads = 0;
    for (std::size_t i = 0; i < 3; ++i) reads += cluster().lun(i).counters().reads;
    return reads;
  }
  // A client that has written "old" over the file's beginning, and knows what lies on the LUN.
  std::unique_ptr<TestClient> MountKnowing() {
    auto client = Mount();
    EXPECT_TRUE(client->data().Open(inode_, true, {}).ok());
    client->Write(inode_, 0, std::string(4'096, 'o'));
    EXPECT_TRUE(client->Fsync(inode_).ok());
    return client;
  }
  // Ten bytes from `at` on, flushed.
  void Overwrite(TestClient& client, std::uint64_t at, char with) {
    client.Write(inode_, at, std::string(10, with));
    EXPECT_TRUE(client.Fsync(inode_).ok());
  }
};

TEST_F(KnownBytesTest, ALogIsAppendedToWithoutReadingItsLastBlock) {
  const auto client = Mount();
  ASSERT_TRUE(client->data().Open(inode_, true, {}).ok());
  std::string log;
  for (int i = 0; i < 300; ++i) {
    const std::string record(100, static_cast<char>('a' + i % 26));
    client->Write(inode_, log.size(), record);
    ASSERT_TRUE(client->Fsync(inode_).ok());
    log += record;
  }
  EXPECT_EQ(Reads(), 0u);
  EXPECT_EQ(client->Read(inode_, log.size() - 250, 300), log.substr(log.size() - 250));
  EXPECT_EQ(Reads(), 0u);
  EXPECT_EQ(Mount()->Read(inode_, 0, 40'000), log);
}

// As a database does with a log that it begins anew.
TEST_F(KnownBytesTest, AWriterOverOldBytesReadsTheNextOnesBeforeItNeedsThem) {
  shape_.data.max_read_ahead_bytes = 0;
  std::string expected(64 * 1'024, 'o');
  Mount()->Write(inode_, 0, expected);
  const auto client = Mount();
  ASSERT_TRUE(client->data().Open(inode_, true, {}).ok());
  const std::uint64_t before = Reads();
  for (std::uint64_t at = 0; at < 60'000; at += 300) {
    client->Write(inode_, at, std::string(300, 'n'));
    ASSERT_TRUE(client->Fsync(inode_).ok());
    expected.replace(at, 300, 300, 'n');
  }
  EXPECT_LE(Reads() - before, 40u);  // of 200 blocks: few reads, in pieces by stripe unit
  EXPECT_EQ(Mount()->Read(inode_, 0, 70'000), expected);
}

// Only what is needed has to be readable.
TEST_F(KnownBytesTest, AFailedReadOfTheNextBytesFailsNoWrite) {
  Mount()->Write(inode_, 0, std::string(64 * 1'024, 'o'));
  const auto client = Mount();
  ASSERT_TRUE(client->data().Open(inode_, true, {}).ok());
  client->Write(inode_, 0, std::string(300, 'n'));
  for (std::size_t i = 0; i < 3; ++i) cluster().lun(i).FailRequest(1, LunRequest::Kind::kRead);
  EXPECT_EQ(FsyncOf(*client, 1), 0);
  std::uint64_t errors = 0;
  for (std::size_t i = 0; i < 3; ++i) errors += cluster().lun(i).counters().errors;
  EXPECT_EQ(errors, 1u);
  for (std::size_t i = 0; i < 3; ++i) cluster().lun(i).ClearFaults();
  EXPECT_EQ(client->Read(inode_, 0, 600), std::string(300, 'n') + std::string(300, 'o'));
}

TEST_F(KnownBytesTest, KnownBytesAreDroppedWhenAnotherClientWrites) {
  const auto client = MountKnowing();
  const auto other = Mount();
  Overwrite(*other, 100, 'n');
  Overwrite(*client, 20, 'x');
  const std::string expected = std::string(20, 'o') + std::string(10, 'x') + std::string(70, 'o') +
                               std::string(10, 'n') + std::string(10, 'o');
  EXPECT_EQ(client->Read(inode_, 0, 120), expected);
  EXPECT_EQ(other->Read(inode_, 0, 120), expected);
}

TEST_F(KnownBytesTest, KnownBytesAreDroppedByADirectWrite) {
  const auto client = MountKnowing();
  client->Write(inode_, 100, std::string(10, 'n'), {.direct = true});
  Overwrite(*client, 20, 'x');
  client->Write(inode_, 0, std::string(600'000, 'L'));  // too large for memory
  Overwrite(*client, 40, 'y');
  EXPECT_EQ(client->Read(inode_, 0, 60),
            std::string(40, 'L') + std::string(10, 'y') + std::string(10, 'L'));
}

TEST_F(KnownBytesTest, TruncatedBytesAreNotWrittenAgain) {
  const auto client = MountKnowing();
  ASSERT_TRUE(client->Truncate(inode_, 100).ok());
  ASSERT_TRUE(client->Truncate(inode_, 4'096).ok());
  Overwrite(*client, 200, 'x');
  const std::string expected =
      std::string(100, 'o') + std::string(100, '\0') + std::string(10, 'x') + std::string(90, '\0');
  EXPECT_EQ(client->Read(inode_, 0, 300), expected);
  EXPECT_EQ(Mount()->Read(inode_, 0, 300), expected);
}

TEST_F(KnownBytesTest, KnownBytesAreDroppedByAFailedFlush) {
  const auto client = MountKnowing();
  client->Write(inode_, 0, std::string(512, 'l'));
  for (std::size_t i = 0; i < 3; ++i) cluster().lun(i).FailFlush(1);
  EXPECT_EQ(FsyncOf(*client, 1), EIO);
  for (std::size_t i = 0; i < 3; ++i) cluster().lun(i).ClearFaults();
  for (std::size_t i = 0; i < 3; ++i) cluster().lun(i).Crash(1, FaultyLun::kLoseAll);
  client->Write(inode_, 20, std::string(10, 'x'));
  EXPECT_EQ(FsyncOf(*client, 1), 0);
  EXPECT_EQ(client->Read(inode_, 0, 40),
            std::string(20, 'o') + std::string(10, 'x') + std::string(10, 'o'));
}

TEST_F(KnownBytesTest, KnownBytesAreDroppedByTheLastClose) {
  const auto client = MountKnowing();
  const std::uint64_t before = Reads();
  client->data().Close(inode_);
  EXPECT_EQ(client->Read(inode_, 0, 10), std::string(10, 'o'));
  EXPECT_GT(Reads(), before);
}

}  // namespace
}  // namespace reel::client
