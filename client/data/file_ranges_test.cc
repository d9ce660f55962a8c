// Several hosts write one file: by ranges of it, without losing each other's bytes.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>
#include <vector>

#include "client/testing/data_cluster.h"

namespace reel::client {
namespace {

std::string Stamp(std::uint64_t writer, std::uint64_t round, std::size_t length) {
  return std::string(length, static_cast<char>('a' + (writer * 7 + round) % 26));
}

std::vector<std::unique_ptr<TestClient>> MountAll(DataCluster& cluster, std::uint64_t count) {
  std::vector<std::unique_ptr<TestClient>> clients;
  for (std::uint64_t i = 0; i < count; ++i) clients.push_back(cluster.Mount());
  return clients;
}

struct Records {
  std::uint64_t offset, length, count;
};

class DisjointWriters : public testing::TestWithParam<Records> {};

// Neighbouring records belong to different hosts, and share blocks and stripes with theirs.
TEST_P(DisjointWriters, KeepEveryByte) {
  constexpr std::uint64_t kClients = 3, kRounds = 3;
  const Records records = GetParam();
  DataCluster cluster({.block_bytes = 16384});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto clients = MountAll(cluster, kClients);
  std::vector<std::thread> threads;
  for (std::uint64_t c = 0; c < kClients; ++c) {
    threads.emplace_back([&, c] {
      std::mt19937_64 random(c);
      for (std::uint64_t round = 0; round < kRounds; ++round) {
        for (std::uint64_t r = c; r < records.count; r += kClients) {
          const std::uint64_t at = records.offset + r * records.length;
          const std::string bytes = Stamp(c, round, records.length);
          clients[c]->Write(inode, at, bytes);
          const std::uint64_t toss = random() % 16;
          if (toss < 4) {
            ASSERT_EQ(clients[c]->Read(inode, at, bytes.size()), bytes) << "record " << r;
          } else if (toss == 4) {
            ASSERT_TRUE(clients[c]->Fsync(inode).ok());
          }
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& client : clients) {
    const std::uint64_t end = records.offset + records.count * records.length;
    const std::string all = client->Read(inode, 0, end + 100);
    ASSERT_EQ(all.size(), end);
    for (std::uint64_t r = 0; r < records.count; ++r) {
      ASSERT_EQ(all.substr(records.offset + r * records.length, records.length),
                Stamp(r % kClients, kRounds - 1, records.length))
          << "record " << r;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, DisjointWriters,
                         testing::Values(Records{0, 512, 300}, Records{777, 4000, 150},
                                         Records{0, 16384, 90}, Records{100, 70'000, 30}));

TEST(FileRangesTest, WritersFarFromEachOtherAskOnce) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto one = cluster.Mount();
  const auto two = cluster.Mount();
  for (TestClient* client : {one.get(), two.get()}) {
    ASSERT_TRUE(client->data().Open(inode, true, {.handle = 1}).ok());  // else the tail goes back
  }
  one->Write(inode, 0, std::string(400'000, 'o'));
  two->Write(inode, 200'000, "t");
  one->Write(inode, 0, "o");
  const std::uint64_t returns = cluster.mdc().CountOf(v1::Request::kLayoutReturn);
  for (std::uint64_t i = 1; i < 40; ++i) {
    one->Write(inode, i * 1'000, "1");
    two->Write(inode, 200'000 + i * 1'000, "2");
    ASSERT_EQ(one->Read(inode, i * 1'000, 1), "1");
  }
  EXPECT_EQ(cluster.mdc().CountOf(v1::Request::kLayoutReturn), returns);
  EXPECT_EQ(one->Read(inode, 201'000, 1), "2");
  EXPECT_EQ(two->Read(inode, 1'000, 1), "1");
}

// One that sets attributes itself would wait for this host, and this host for it.
TEST(FileRangesTest, DelayedAttributesAreSentBeforeAnotherHostWrites) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto one = cluster.Mount();
  const auto two = cluster.Mount();
  // Open: of a closed file no token to write is kept once all is committed.
  ASSERT_TRUE(one->data().Open(inode, false, {}).ok());
  one->Write(inode, 0, std::string(400'000, 'o'));
  EXPECT_EQ(two->Read(inode, 0, 1), "o");  // it knows the size: it will not ask for all
  one->Write(inode, 0, std::string(400'000, 'o'));
  one->Write(inode, 390'000, "o");  // what lies there is what this host goes on with
  ASSERT_TRUE(one->Fsync(inode).ok());
  v1::SetAttr set;
  set.set_inode(inode);
  set.set_fields(v1::SetAttr::MODE);
  set.set_mode(0640);
  ASSERT_TRUE(one->data().DelayAttributes(set, cluster.mdc().AttrOf(inode)));
  two->Write(inode, 0, "t");
  EXPECT_EQ(cluster.mdc().AttrOf(inode).mode() & 07777, 0640u);
  const std::uint64_t returns = cluster.mdc().CountOf(v1::Request::kLayoutReturn);
  one->Write(inode, 390'000, "1");
  EXPECT_EQ(cluster.mdc().CountOf(v1::Request::kLayoutReturn), returns) << "it kept a part";
}

// While a token keeps a file, the controller need not know that it is open.
TEST(FileRangesTest, AnOpenIsRegisteredBeforeTheLastTokenGoes) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto one = cluster.Mount();
  const auto two = cluster.Mount();
  one->Write(inode, 0, "text");
  ASSERT_TRUE(one->Fsync(inode).ok());
  const v1::Attr known = cluster.mdc().AttrOf(inode);
  ASSERT_TRUE(one->data().Open(inode, false, {.known = &known}).ok());
  EXPECT_EQ(cluster.mdc().OpensOf(inode), 0u);
  two->Write(inode, 0, "T");
  EXPECT_EQ(cluster.mdc().OpensOf(inode), 1u);
  one->data().Close(inode);
  EXPECT_EQ(one->Read(inode, 0, 4), "Text");
  while (cluster.mdc().OpensOf(inode) != 0) std::this_thread::yield();
  EXPECT_TRUE(one->data().Open(inode, false, {}).ok());  // nothing known: it is asked
  EXPECT_EQ(cluster.mdc().OpensOf(inode), 1u);
}

TEST(FileRangesTest, AReaderBehindAWriterTakesWhatLiesBehindIt) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto writer = cluster.Mount();
  const auto reader = cluster.Mount();
  const std::string bytes(300'000, 'w');
  writer->Write(inode, 0, bytes);
  ASSERT_TRUE(writer->Fsync(inode).ok());
  writer->Write(inode, bytes.size(), "w");  // its place
  ASSERT_TRUE(reader->data().Open(inode, false, {}).ok());
  ASSERT_EQ(reader->Read(inode, 0, 1'000), bytes.substr(0, 1'000));
  const std::uint64_t returns = cluster.mdc().CountOf(v1::Request::kLayoutReturn);
  for (std::uint64_t at = 0; at + 8'192 < bytes.size(); at += 8'192) {
    ASSERT_EQ(reader->Read(inode, at, 4'096), bytes.substr(0, 4'096));
    writer->Write(inode, bytes.size() + at, "w");
  }
  EXPECT_EQ(cluster.mdc().CountOf(v1::Request::kLayoutReturn), returns);
  reader->data().Close(inode);
}

TEST(FileRangesTest, AppendsOfManyHostsStayWhole) {
  constexpr std::uint64_t kClients = 3, kLines = 40;
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto clients = MountAll(cluster, kClients);
  std::vector<std::thread> threads;
  for (std::uint64_t c = 0; c < kClients; ++c) {
    threads.emplace_back([&, c] {
      for (std::uint64_t i = 0; i < kLines; ++i) {
        clients[c]->Write(inode, 0, Stamp(c, 0, 1 + (c * 31 + i * 977) % 9'000) + "\n",
                          {.append = true});
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::string all = clients[0]->Read(inode, 0, 4 << 20);
  std::vector<std::uint64_t> lines(kClients);
  for (std::size_t at = 0; at < all.size();) {
    const std::size_t end = all.find('\n', at);
    ASSERT_NE(end, std::string::npos);
    const std::string line = all.substr(at, end - at);
    const std::uint64_t c = [&] {
      std::uint64_t i = 0;
      while (i < kClients && Stamp(i, 0, 1)[0] != line[0]) ++i;
      return i;
    }();
    ASSERT_LT(c, kClients);
    ASSERT_EQ(line, Stamp(c, 0, 1 + (c * 31 + lines[c] * 977) % 9'000)) << "line " << lines[c];
    ++lines[c];
    at = end + 1;
  }
  EXPECT_EQ(lines, std::vector<std::uint64_t>(kClients, kLines));
}

// A size is never larger than the file, nor does it fall while a file only grows.
TEST(FileRangesTest, ReadersSeeAGrowingFileGrow) {
  DataCluster cluster({});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  const auto writer = cluster.Mount();
  const auto other = cluster.Mount();
  const auto reader = cluster.Mount();
  std::atomic<std::uint64_t> written{0};
  std::atomic<bool> done{false};
  std::thread grows([&] {
    for (int i = 0; i < 60; ++i) {
      TestClient& client = i % 7 == 6 ? *other : *writer;
      const std::uint64_t at = client.Write(inode, 0, std::string(3'001, 'g'), {.append = true});
      written = at + 3'001;
    }
    done = true;
  });
  std::uint64_t seen = 0;
  while (!done) {
    const std::uint64_t before = written;
    const std::string all = reader->Read(inode, 0, 1 << 20);
    ASSERT_GE(all.size(), before);
    ASSERT_GE(all.size(), seen);
    ASSERT_EQ(all, std::string(all.size(), 'g'));
    seen = all.size();
  }
  grows.join();
  EXPECT_EQ(reader->Read(inode, 0, 1 << 20).size(), 60u * 3'001);
}

// An answer describes some hundred extents: in a file that has more of them within a window, the
// place asked for is found all the same, and the whole file is known after few questions.
TEST(FileDataTest, APlaceInAFileOfManyExtentsIsFoundAtOnce) {
  constexpr std::uint64_t kPieces = 2500, kStep = 2 * 4096;
  DataCluster cluster({.rows = 1024, .mdc = {.preallocated_blocks = 0, .max_extents = 300}});
  const std::uint64_t inode = cluster.mdc().CreateFile();
  {
    const auto writer = cluster.Mount();
    for (std::uint64_t i = 0; i < kPieces; ++i) writer->Write(inode, i * kStep, std::to_string(i));
    ASSERT_TRUE(writer->Fsync(inode).ok());
  }
  const auto reader = cluster.Mount();
  const auto asked = [&, before = cluster.mdc().CountOf(v1::Request::kLayoutGet)] {
    return cluster.mdc().CountOf(v1::Request::kLayoutGet) - before;
  };
  const auto check = [&](std::uint64_t i) {
    const std::string text = std::to_string(i);
    ASSERT_EQ(reader->Read(inode, i * kStep, text.size()), text);
  };
  check(kPieces - 1);
  EXPECT_LE(asked(), 5u);
  std::mt19937_64 random(1);
  for (int i = 0; i < 5000; ++i) check(random() % kPieces);
  EXPECT_LE(asked(), 40u);
}

}  // namespace
}  // namespace reel::client
