// A map that changes while files are read and written: the LUNs that came are opened, and used.
#include "client/luns/map_taker.h"

#include <algorithm>

#include "client/testing/data_cluster.h"
#include "gmock/gmock.h"
#include "volume/format/stripe_map.h"

namespace reel::client {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kRows = 64;
constexpr std::uint64_t kOldBlocks = kRows * 3 * 3;

class MapTakerTest : public testing::Test {
 protected:
  MapTakerTest() {
    ClusterShape shape{.rows = kRows};
    shape.data.open_more = [this](const OpenVolume& open, const VolumeDescriptor& later) {
      return OpenIt(open, later);
    };
    cluster_ = std::make_unique<DataCluster>(shape);
  }
  // This host's way to the LUN that comes.
  absl::StatusOr<OpenVolume> OpenIt(const OpenVolume& open, const VolumeDescriptor& later) {
    ++tries_;
    if (!reached_) return absl::NotFoundError("LUN extra was not found");
    return OpenMoreLuns(open, later,
                        {{SampleUuid(9), {std::make_shared<BorrowedLun>(extra_), "extra"}}});
  }
  // One more set, on a LUN of its own; from now on that is where files get blocks.
  void Grow() {
    map_ = SampleVolume({{3, {{kRows, 3}}}}, 4096);
    map_.generation = 2;
    map_.pools[0].sets.push_back(
        StripeSet{{LunEntry{SampleUuid(9), "extra", DataCluster::kReservedBytes}}, 32});
    cluster_->mdc().ChangeMap(map_, kOldBlocks);
  }
  void AwaitTaken() {
    while (cluster_->mdc().taken_map() != map_.generation) std::this_thread::yield();
  }
  // So many of them lie on the added LUN, in whatever order they came there.
  std::int64_t OnExtra(char byte) {
    AlignedBuffer buffer(96 * 4096);
    EXPECT_TRUE(extra_.Read(DataCluster::kReservedBytes, buffer.span()).ok());
    return std::count(buffer.data(), buffer.data() + buffer.size(), static_cast<std::byte>(byte));
  }

  FaultyLun extra_{{.name = "extra", .size_bytes = 4 << 20, .logical_block_bytes = 512}};
  std::atomic<bool> reached_{true};
  std::atomic<int> tries_{0};
  VolumeDescriptor map_;
  std::unique_ptr<DataCluster> cluster_;
};

TEST_F(MapTakerTest, FilesAreWrittenAndReadWhereTheMapHasGrown) {
  const auto one = cluster_->Mount();
  const auto other = cluster_->Mount();
  const std::uint64_t before = cluster_->mdc().CreateFile();
  one->Write(before, 0, std::string(40'000, 'b'));
  ASSERT_TRUE(one->Fsync(before).ok());
  Grow();
  AwaitTaken();
  const std::uint64_t after = cluster_->mdc().CreateFile();
  one->Write(after, 0, std::string(20'000, 'a'));
  ASSERT_TRUE(one->Fsync(after).ok());
  EXPECT_GT(OnExtra('a'), 0) << "but for what came back of the file before";
  EXPECT_EQ(other->Read(after, 0, 20'000), std::string(20'000, 'a'));
  EXPECT_EQ(other->Read(before, 0, 40'000), std::string(40'000, 'b')) << "as it was";
}

TEST_F(MapTakerTest, WhatIsNotFlushedWhenTheMapChangesIsFlushedAfterwards) {
  const auto one = cluster_->Mount();
  const std::uint64_t inode = cluster_->mdc().CreateFile();
  one->Write(inode, 0, std::string(700'000, 'u'));
  Grow();
  AwaitTaken();
  ASSERT_TRUE(one->Fsync(inode).ok());
  const auto other = cluster_->Mount();
  EXPECT_EQ(other->Read(inode, 0, 700'000), std::string(700'000, 'u'));
}

TEST_F(MapTakerTest, ALunThatIsNotReachedIsToldAndWhatLiesThereWaits) {
  const auto one = cluster_->Mount();
  reached_ = false;
  Grow();
  while (cluster_->mdc().map_problem().empty()) std::this_thread::yield();
  EXPECT_THAT(cluster_->mdc().map_problem(), HasSubstr("LUN extra was not found"));
  EXPECT_EQ(cluster_->mdc().taken_map(), 0u);
  const std::uint64_t inode = cluster_->mdc().CreateFile();
  std::thread writer([&] {
    one->Write(inode, 0, std::string(20'000, 'w'));
    EXPECT_TRUE(one->Fsync(inode).ok());
  });
  const int tried = tries_;
  while (tries_ == tried) std::this_thread::yield();
  reached_ = true;
  writer.join();
  AwaitTaken();
  EXPECT_EQ(cluster_->mdc().map_problem(), "");
  EXPECT_EQ(OnExtra('w'), 20'000);
}

TEST_F(MapTakerTest, AStreamThatWasLostBringsTheMapAgain) {
  const auto one = cluster_->Mount();
  cluster_->mdc().SetDown(true);
  Grow();
  cluster_->mdc().SetDown(false);
  AwaitTaken();
}

TEST_F(MapTakerTest, ANewSessionOfAMountHasToTakeItAgain) {
  const auto one = cluster_->Mount();
  Grow();
  AwaitTaken();
  const std::uint64_t taken = cluster_->mdc().CountOf(v1::Request::kMapTaken);
  cluster_->mdc().Evict(one->session().session_id());
  while (cluster_->mdc().CountOf(v1::Request::kMapTaken) == taken) std::this_thread::yield();
  const std::uint64_t inode = cluster_->mdc().CreateFile();
  one->Write(inode, 0, "after all");
  EXPECT_TRUE(one->Fsync(inode).ok());
}

TEST_F(MapTakerTest, UnmountingDoesNotWaitForALunThatIsNotThere) {
  auto one = cluster_->Mount();
  reached_ = false;
  Grow();
  while (cluster_->mdc().map_problem().empty()) std::this_thread::yield();
  one.reset();
}

}  // namespace
}  // namespace reel::client
