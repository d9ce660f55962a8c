#include "client/buffers/frame_ahead.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/testing/data_cluster.h"

namespace reel::client {
namespace {

constexpr std::uint64_t kFrame = 2 * kMiB + 12'345;

class FrameAheadTest : public testing::Test {
 protected:
  FrameAheadTest() : cluster_(Shape()) {}

  static ClusterShape Shape() {
    ClusterShape shape{.block_bytes = 65536, .rows = 200};
    shape.data.max_frame_bytes = 16 * kMiB;
    shape.mdc.run_blocks = 100'000;
    return shape;
  }
  static std::string Bytes(char first) {
    std::string bytes(kFrame, ' ');
    for (std::uint64_t i = 0; i < kFrame; ++i) bytes[i] = static_cast<char>(first + i / 1'009 % 26);
    return bytes;
  }
  // A frame that was written by a host that is gone.
  std::uint64_t MakeFrame(char first = 'a') {
    const std::uint64_t inode = cluster_.mdc().CreateFile();
    const auto writer = cluster_.Mount();
    writer->Write(inode, 0, Bytes(first));
    EXPECT_TRUE(writer->Fsync(inode).ok());
    return inode;
  }
  static v1::Request Lookup(std::uint64_t inode, std::uint64_t bytes) {
    v1::Request request;
    request.mutable_lookup()->set_name(absl::StrCat(inode));
    request.mutable_lookup()->set_ahead(true);
    request.mutable_lookup()->set_layout_bytes(bytes);
    return request;
  }
  // Returns when it is answered: with an errno, or 0.
  static int LookAhead(TestClient& client, std::uint64_t inode, std::uint64_t bytes = kFrame) {
    std::promise<int> error;
    client.data().LookAhead(Lookup(inode, bytes), bytes, [&](const absl::StatusOr<v1::Attr>& attr) {
      error.set_value(attr.ok() ? 0 : ErrnoOf(attr.status()));
    });
    return error.get_future().get();
  }
  // As a player reads it, by a MiB at a time.
  static std::string ReadAll(TestClient& client, std::uint64_t inode) {
    std::string all;
    for (;;) {
      const std::string part = client.Read(inode, all.size(), kMiB);
      if (part.empty()) return all;
      all += part;
    }
  }
  static FileData::PrefetchCounts Counts(TestClient& client) {
    return client.data().prefetch_counts();
  }

  // Whoever has read a chunk lets go of it a moment later.
  static void AwaitNoMemory(TestClient& client) {
    while (Counts(client).frame_bytes != 0) std::this_thread::yield();
  }

  DataCluster cluster_;
};

TEST_F(FrameAheadTest, AFrameThatWasFetchedAsksNobody) {
  const std::uint64_t inode = MakeFrame();
  const auto reader = cluster_.Mount();
  ASSERT_EQ(LookAhead(*reader, inode), 0);
  EXPECT_EQ(Counts(*reader).frames, 1u);
  EXPECT_EQ(ReadAll(*reader, inode), Bytes('a'));
  EXPECT_EQ(Counts(*reader).frame_reads, 3u);
  AwaitNoMemory(*reader);  // what was handed over goes
  EXPECT_EQ(cluster_.mdc().CountOf(v1::Request::kLayoutGet), 1u) << "its writer's";
}

TEST_F(FrameAheadTest, ItsFirstPartAloneIsFetchedWhereNoMoreIsWanted) {
  const std::uint64_t inode = MakeFrame();
  const auto reader = cluster_.Mount();
  ASSERT_EQ(LookAhead(*reader, inode, 10'000), 0);
  EXPECT_EQ(reader->Read(inode, 100, 9'900), Bytes('a').substr(100, 9'900));
  EXPECT_EQ(Counts(*reader).frame_reads, 1u);
  EXPECT_EQ(reader->Read(inode, 5'000, 10'000), Bytes('a').substr(5'000, 10'000));
  EXPECT_EQ(Counts(*reader).frame_reads, 1u);
}

TEST_F(FrameAheadTest, AWriterOfAnotherHostKeepsItsToken) {
  const std::uint64_t inode = cluster_.mdc().CreateFile();
  const auto writer = cluster_.Mount();
  std::atomic<int> recalls{0};
  writer->on_recall = [&](std::uint64_t) { ++recalls; };
  ASSERT_TRUE(writer->data().Open(inode, true, {}).ok());
  writer->Write(inode, 0, Bytes('a'));
  const auto reader = cluster_.Mount();
  EXPECT_EQ(LookAhead(*reader, inode), EAGAIN);
  EXPECT_TRUE(cluster_.mdc().HasWriter(inode));
  EXPECT_EQ(recalls, 0);
  EXPECT_EQ(ReadAll(*reader, inode), Bytes('a')) << "who reads it takes it";
  writer->data().Close(inode);
}

TEST_F(FrameAheadTest, ARecallDropsIt) {
  const std::uint64_t inode = MakeFrame();
  const auto reader = cluster_.Mount();
  ASSERT_EQ(LookAhead(*reader, inode), 0);
  ASSERT_TRUE(reader->data().Open(inode, false, {}).ok());  // else nothing of it would be kept
  const auto writer = cluster_.Mount();
  writer->Write(inode, 0, Bytes('n'));
  EXPECT_EQ(ReadAll(*reader, inode), Bytes('n'));
  EXPECT_EQ(Counts(*reader).frame_reads, 0u);
  AwaitNoMemory(*reader);
  reader->data().Close(inode);
}

TEST_F(FrameAheadTest, AWriteOfThisHostDropsIt) {
  const std::uint64_t inode = MakeFrame();
  const auto reader = cluster_.Mount();
  ASSERT_EQ(LookAhead(*reader, inode), 0);
  reader->Write(inode, 1'000, "CHANGED");
  std::string bytes = Bytes('a');
  bytes.replace(1'000, 7, "CHANGED");
  EXPECT_EQ(ReadAll(*reader, inode), bytes);
  AwaitNoMemory(*reader);
}

TEST_F(FrameAheadTest, ALostSessionDropsIt) {
  const std::uint64_t inode = MakeFrame();
  const auto reader = cluster_.Mount();
  ASSERT_EQ(LookAhead(*reader, inode), 0);
  cluster_.mdc().Evict(reader->session().session_id());
  const auto writer = cluster_.Mount();
  writer->Write(inode, 0, Bytes('n'));
  EXPECT_EQ(ReadAll(*reader, inode), Bytes('n'));
}

TEST_F(FrameAheadTest, ClosedOrDroppedItGivesItsMemoryBack) {
  const std::uint64_t inode = MakeFrame();
  const auto reader = cluster_.Mount();
  ASSERT_EQ(LookAhead(*reader, inode), 0);
  ASSERT_TRUE(reader->data().Open(inode, false, {}).ok());
  reader->data().DropAhead(inode);
  (void)reader->Read(inode, 0, 100);
  EXPECT_EQ(Counts(*reader).frame_reads, 1u) << "somebody has it open";
  EXPECT_EQ(reader->data().ReadTo(inode), 100u);
  (void)reader->Read(inode, kMiB, kFrame - kMiB);  // until what is on its way has come
  reader->data().Close(inode);
  AwaitNoMemory(*reader);
  EXPECT_EQ(reader->data().ReadTo(inode), 0u);
  EXPECT_TRUE(reader->data().FetchAhead(inode, 1));
  EXPECT_EQ(reader->Read(inode, 0, 1), "a");
  EXPECT_TRUE(reader->data().FetchAhead(inode, 1));
  reader->data().DropAhead(inode);
  EXPECT_EQ(reader->Read(inode, 0, 1), "a");
}

TEST_F(FrameAheadTest, AllFramesTogetherStayWithinTheirMemory) {
  ClusterShape shape = Shape();
  shape.data.max_frame_bytes = 4 * kMiB;
  DataCluster cluster(shape);
  std::vector<std::uint64_t> frames;
  {
    const auto writer = cluster.Mount();
    for (const char first : {'a', 'b', 'c', 'd'}) {
      frames.push_back(cluster.mdc().CreateFile());
      writer->Write(frames.back(), 0, Bytes(first));
      ASSERT_TRUE(writer->Fsync(frames.back()).ok());
    }
  }
  const auto reader = cluster.Mount();
  for (const std::uint64_t inode : frames) ASSERT_EQ(LookAhead(*reader, inode), 0);
  EXPECT_EQ(Counts(*reader).frame_bytes, 4 * kMiB);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    EXPECT_EQ(ReadAll(*reader, frames[i]), Bytes(static_cast<char>('a' + i)));
    EXPECT_LE(Counts(*reader).frame_bytes, 4 * kMiB);
  }
  EXPECT_GE(Counts(*reader).frame_reads, 4u);
  AwaitNoMemory(*reader);
  reader->data().Change({.max_frame_bytes = 0});
  EXPECT_TRUE(reader->data().FetchAhead(frames[0], kFrame));
  EXPECT_EQ(Counts(*reader).frame_bytes, 0u);
}

TEST_F(FrameAheadTest, AGrantThatARemovalMayHaveTakenAwayIsLeftAside) {
  const std::uint64_t inode = MakeFrame();
  const auto reader = cluster_.Mount();
  cluster_.mdc().HoldReplies(v1::Request::kLookup);
  std::promise<void> done;
  reader->data().LookAhead(Lookup(inode, kFrame), kFrame,
                           [&](const absl::StatusOr<v1::Attr>&) { done.set_value(); });
  v1::Attr removed;
  removed.set_inode(inode);
  reader->data().RemoveLast(removed, /*only_here=*/true, [](bool) -> std::uint64_t { return 1; });
  cluster_.mdc().ReleaseReplies();
  done.get_future().wait();
  EXPECT_EQ(Counts(*reader).frames, 0u);
  EXPECT_FALSE(reader->data().FetchAhead(inode, kFrame));
}

TEST_F(FrameAheadTest, WhatIsOpenToWriteIsNotFetched) {
  const std::uint64_t inode = MakeFrame();
  const auto host = cluster_.Mount();
  ASSERT_EQ(LookAhead(*host, inode, 0), 0);
  ASSERT_TRUE(host->data().Open(inode, true, {}).ok());
  EXPECT_TRUE(host->data().FetchAhead(inode, kFrame));
  EXPECT_EQ(Counts(*host).frame_bytes, 0u);
  host->data().Close(inode);
}

}  // namespace
}  // namespace reel::client
