// Files of a directory that were fetched before anybody opened them.
#include <gtest/gtest.h>

#include <cerrno>
#include <future>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/testing/data_cluster.h"

namespace reel::client {
namespace {

class FilesAheadTest : public testing::Test {
 protected:
  static constexpr std::size_t kLarge = 20'000;

  FilesAheadTest() {
    const auto writer = cluster_.Mount();
    for (std::size_t i = 0; i < 4; ++i) {
      files_.push_back(cluster_.mdc().CreateFile());
      writer->Write(files_.back(), 0, BytesOf(i));
      EXPECT_TRUE(writer->Fsync(files_.back()).ok());
    }
  }
  static ClusterShape Shape() {
    ClusterShape shape;
    shape.mdc.small_file_bytes = 8192;
    shape.mdc.opens_grant = true;
    return shape;
  }
  // Every other one is too large to be a small file.
  static std::string BytesOf(std::size_t i) {
    return std::string(i % 2 == 0 ? 3'000 : kLarge, static_cast<char>('a' + i));
  }
  std::string ReadAll(TestClient& client, std::size_t i) {
    return client.Read(files_[i], 0, 2 * kLarge);
  }
  // All files behind the first one, and the bytes of those of at most that size.
  absl::StatusOr<v1::Reply> List(TestClient& client, std::uint64_t most_bytes = kLarge) {
    std::promise<absl::StatusOr<v1::Reply>> reply;
    Start(client, most_bytes, reply);
    return reply.get_future().get();
  }
  void Start(TestClient& client, std::uint64_t most_bytes,
             std::promise<absl::StatusOr<v1::Reply>>& reply) {
    v1::Request request;
    request.mutable_read_dir()->set_behind(absl::StrCat(files_[0]));
    request.mutable_read_dir()->set_layouts(16);
    client.data().ListAhead(
        std::move(request), most_bytes,
        [this, &reply](const absl::StatusOr<v1::Reply>& answer, std::vector<std::uint64_t> taken) {
          taken_ = std::move(taken);
          reply.set_value(answer);
        });
  }
  static FileData::PrefetchCounts Counts(TestClient& client) {
    return client.data().prefetch_counts();
  }

  DataCluster cluster_{Shape()};
  std::vector<std::uint64_t> files_;
  std::vector<std::uint64_t> taken_;  // by the last listing
};

TEST_F(FilesAheadTest, WhatCameAheadIsOpenedAndReadWithoutAQuestion) {
  const auto reader = cluster_.Mount();
  EXPECT_FALSE(reader->data().Holds(files_[1]));
  const absl::StatusOr<v1::Reply> reply = List(*reader);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(reply->read_dir().entries_size(), 3);
  EXPECT_EQ(taken_, (std::vector<std::uint64_t>{files_[1], files_[2], files_[3]}));
  EXPECT_EQ(Counts(*reader).files, 3u);
  EXPECT_FALSE(reader->data().Holds(files_[0]));
  const std::uint64_t layouts = cluster_.mdc().CountOf(v1::Request::kLayoutGet);
  for (const std::size_t i : {1, 2, 3}) {
    ASSERT_TRUE(reader->data().Holds(files_[i]));
    v1::Attr known;
    known.set_inode(files_[i]);
    ASSERT_TRUE(reader->data().Open(files_[i], false, {.known = &known}).ok());
    EXPECT_EQ(ReadAll(*reader, i), BytesOf(i));
    reader->data().Close(files_[i]);
  }
  EXPECT_EQ(Counts(*reader).frame_reads, 2u) << "of the large ones";
  EXPECT_EQ(cluster_.mdc().CountOf(v1::Request::kOpen), 0u);
  EXPECT_EQ(cluster_.mdc().CountOf(v1::Request::kLayoutGet), layouts);
}

TEST_F(FilesAheadTest, LargerFilesAreReadByWhoeverOpensThem) {
  const auto reader = cluster_.Mount();
  ASSERT_TRUE(List(*reader, kLarge - 1).ok());
  for (const std::size_t i : {1, 2, 3}) EXPECT_EQ(ReadAll(*reader, i), BytesOf(i));
  EXPECT_EQ(Counts(*reader).frame_reads, 0u);
}

TEST_F(FilesAheadTest, AnotherHostsChangeIsSeen) {
  const auto reader = cluster_.Mount(), writer = cluster_.Mount();
  ASSERT_TRUE(List(*reader).ok());
  for (const std::size_t i : {2, 3}) writer->Write(files_[i], 0, "new");
  for (const std::size_t i : {2, 3}) EXPECT_EQ(ReadAll(*reader, i), "new" + BytesOf(i).substr(3));
  EXPECT_EQ(ReadAll(*reader, 1), BytesOf(1));
}

TEST_F(FilesAheadTest, WhatAnotherHostWritesStaysItsOwn) {
  const auto reader = cluster_.Mount(), writer = cluster_.Mount();
  ASSERT_TRUE(writer->data().Open(files_[2], true, {.handle = 1}).ok());
  writer->Write(files_[2], 0, "new");
  const absl::StatusOr<v1::Reply> reply = List(*reader);
  ASSERT_TRUE(reply.ok());
  EXPECT_FALSE(reply->read_dir().entries(1).has_layout());
  EXPECT_FALSE(reader->data().Holds(files_[2]));
  EXPECT_TRUE(cluster_.mdc().HasWriter(files_[2]));
  EXPECT_EQ(ReadAll(*reader, 2), "new" + BytesOf(2).substr(3));
}

TEST_F(FilesAheadTest, GrantsThatARemovalMayHaveTakenAwayAreLeftAside) {
  const auto reader = cluster_.Mount();
  cluster_.mdc().HoldReplies(v1::Request::kReadDir);
  std::promise<absl::StatusOr<v1::Reply>> reply;
  Start(*reader, kLarge, reply);
  v1::Attr removed;
  removed.set_inode(files_[1]);
  reader->data().RemoveLast(removed, /*only_here=*/true, [](bool) -> std::uint64_t { return 1; });
  cluster_.mdc().ReleaseReplies();
  ASSERT_TRUE(reply.get_future().get().ok());
  EXPECT_TRUE(taken_.empty());
  EXPECT_EQ(Counts(*reader).files, 0u);
  EXPECT_FALSE(reader->data().Holds(files_[1]));
}

TEST_F(FilesAheadTest, NothingIsSentBesideARemoval) {
  const auto reader = cluster_.Mount();
  v1::Attr removed;
  removed.set_inode(files_[1]);
  reader->data().RemoveLast(removed, /*only_here=*/true, [&](bool) -> std::uint64_t {
    EXPECT_EQ(ErrnoOf(List(*reader).status()), EAGAIN) << "a removal is being sent";
    return 1;
  });
}

}  // namespace
}  // namespace reel::client
