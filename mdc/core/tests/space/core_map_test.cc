// A map that changes while the volume is in use: who is told, and when what it adds is given out.
#include "gmock/gmock.h"
#include "mdc/check/checker.h"
#include "mdc/core/core.h"
#include "mdc/space/areas.h"
#include "mdc/testing/core_harness.h"

namespace reel::mdc {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kOld = std::uint64_t{16} << 14;  // blocks of the pool as it was made
constexpr std::uint64_t kAdded = 16 * 1000;

class CoreMapTest : public testing::Test {
 protected:
  CoreMapTest() {
    for (Client* client : {&a_, &b_, &old_}) {
      client->mounted_volume_ = "";
      client->features_ = v1::FEATURE_NEW_MAP;
    }
    old_.features_ = 0;
  }
  // The map with one more set, as the LUNs hold it from now on.
  void Grow() {
    ++harness_.volume_.generation;
    LunEntry lun;
    lun.lun.bytes[0] = static_cast<std::uint8_t>(10 + harness_.volume_.generation);
    lun.name = absl::StrCat("lun", harness_.volume_.generation);
    lun.data_start_bytes = kMiB;
    harness_.volume_.pools[0].sets.push_back(StripeSet{{lun}, 1000});
  }
  void Take() {
    ASSERT_TRUE(harness_.core_->TakeMap(harness_.volume_, 0).ok());
    harness_.Run();
  }
  void GrowAndTake() {
    Grow();
    Take();
  }
  int Taken(Client& client, std::uint64_t generation, const std::string& problem = "") {
    v1::Request request;
    request.mutable_map_taken()->set_generation(generation);
    request.mutable_map_taken()->set_problem(problem);
    return client.Do(request);
  }
  int Taken(Client& client) { return Taken(client, harness_.volume_.generation); }
  v1::ShowReply Show() {
    v1::ShowReply show;
    harness_.core_->Describe(show);
    return show;
  }
  std::uint64_t Total() {
    v1::Request request;
    request.mutable_stat_fs();
    EXPECT_EQ(a_.Do(request), 0);
    return a_.last_.stat_fs().total_blocks();
  }
  // The highest block that a file of that size gets.
  std::uint64_t EndOfNewFile(Client& client, const std::string& name, std::uint64_t blocks) {
    const std::uint64_t inode = client.Create(name, true);
    std::uint64_t end = 0;
    for (std::uint64_t at = 0; at < blocks;) {
      const std::uint64_t part = std::min<std::uint64_t>(blocks - at, 16'384);
      const int error = client.Do(
          Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE, true, at * kBlock, part * kBlock), true);
      if (error != 0) return 0;
      for (const v1::Extent& extent : client.last_.layout().extents()) {
        if (extent.state() == v1::EXTENT_HOLE) continue;
        end = std::max(end, extent.pool_block() + extent.length_blocks());
      }
      at += part;
    }
    return end;
  }
  void ExpectClean() {
    std::vector<std::string> problems;
    const CheckSink sink{.on_phase = {}, .on_problem = [&](const Problem& problem) {
                           problems.push_back(problem.code + ": " + problem.where);
                         }};
    CheckVolume({harness_.db(), harness_.volume_, {}}, sink);
    EXPECT_THAT(problems, IsEmpty());
  }

  CoreHarness harness_;
  Client a_{harness_, 1}, b_{harness_, 2}, old_{harness_, 3};
};

TEST_F(CoreMapTest, WhatWasAddedIsGivenOutWhenAllSessionsHaveTakenIt) {
  a_.Register();
  b_.Register();
  EXPECT_EQ(Total(), kOld);
  GrowAndTake();
  ASSERT_EQ(a_.new_maps_.size(), 1u);
  const std::string& framed = a_.new_maps_[0].volume_descriptor();
  EXPECT_EQ(*DecodeDescriptor(std::as_bytes(std::span(framed))), harness_.volume_);
  ExpectClean();
  EXPECT_EQ(Taken(a_), 0);
  EXPECT_EQ(Total(), kOld) << "the other has not";
  EXPECT_THAT(Show().notes(), ElementsAre(HasSubstr("1 of 2 have")));
  EXPECT_EQ(Taken(b_), 0);
  EXPECT_EQ(Total(), kOld + kAdded);
  EXPECT_THAT(Show().notes(), IsEmpty());
  EXPECT_GT(EndOfNewFile(a_, "large", kOld + kAdded / 2), kOld);
  ExpectClean();
}

TEST_F(CoreMapTest, NobodyIsWaitedForWhereThereIsNobody) {
  GrowAndTake();
  a_.Register();
  EXPECT_EQ(Total(), kOld + kAdded);
}

TEST_F(CoreMapTest, NoFileGetsBlocksThatASessionDoesNotKnow) {
  a_.Register();
  b_.Register();
  GrowAndTake();
  EXPECT_EQ(Taken(a_), 0);
  EXPECT_EQ(EndOfNewFile(a_, "large", kOld + 1), 0u) << a_.last_.message();
  EXPECT_EQ(a_.last_.error(), ENOSPC);
}

TEST_F(CoreMapTest, ASessionThatLeavesIsNotWaitedFor) {
  a_.Register();
  b_.Register();
  GrowAndTake();
  EXPECT_EQ(Taken(a_), 0);
  v1::Request goodbye;
  goodbye.mutable_goodbye();
  EXPECT_EQ(b_.Do(goodbye), 0);
  harness_.Tick();
  EXPECT_EQ(Total(), kOld + kAdded);
}

TEST_F(CoreMapTest, ASessionWhoseLeaseRunsOutIsNotWaitedFor) {
  a_.Register();
  b_.Register();
  GrowAndTake();
  EXPECT_EQ(Taken(a_), 0);
  harness_.Pass(harness_.options_.session_lease_ms + 1000, {&a_});
  EXPECT_EQ(Total(), kOld + kAdded);
}

TEST_F(CoreMapTest, ANewMountHasTheNewestMap) {
  a_.Register();
  GrowAndTake();
  b_.Register();
  EXPECT_EQ(Taken(a_), 0);
  EXPECT_EQ(Total(), kOld + kAdded);
}

TEST_F(CoreMapTest, AHostThatRegistersAnewHasTheMapThatItMounted) {
  a_.Register();
  GrowAndTake();
  b_.mounted_volume_ = harness_.volume_.volume.ToBytes();
  b_.Register();
  EXPECT_EQ(Taken(a_), 0);
  EXPECT_EQ(Total(), kOld);
  EXPECT_EQ(Taken(b_), 0);
  EXPECT_EQ(Total(), kOld + kAdded);
}

TEST_F(CoreMapTest, ASessionThatResumesSaysWhichMapItHas) {
  a_.Register();
  b_.Register();
  GrowAndTake();
  EXPECT_EQ(Taken(a_), 0);
  b_.Disconnect();
  b_.map_generation_ = harness_.volume_.generation - 1;
  EXPECT_EQ(b_.Resume(), 0);
  EXPECT_EQ(Total(), kOld);
  b_.Disconnect();
  b_.map_generation_ = harness_.volume_.generation;
  EXPECT_EQ(b_.Resume(), 0);
  harness_.Tick();
  EXPECT_EQ(Total(), kOld + kAdded);
}

TEST_F(CoreMapTest, WhoSaysWhyNotIsAnAlarmAtOnceAndWhoSaysNothingLater) {
  a_.Register();
  b_.Register();
  GrowAndTake();
  EXPECT_THAT(Show().alarms(), IsEmpty());
  EXPECT_EQ(Taken(b_, harness_.volume_.generation, "LUN lun4 was not found"), 0);
  EXPECT_THAT(Show().alarms(),
              ElementsAre(AllOf(HasSubstr("host2"), HasSubstr("LUN lun4 was not found"),
                                HasSubstr("connect the LUNs to that host"))));
  harness_.Pass(11'000, {&a_, &b_});
  EXPECT_EQ(Show().alarms_size(), 2);
  EXPECT_EQ(Taken(a_), 0);
  EXPECT_EQ(Taken(b_), 0);
  EXPECT_THAT(Show().alarms(), IsEmpty());
}

TEST_F(CoreMapTest, AMapThatThereIsNotYetCannotBeTaken) {
  a_.Register();
  EXPECT_EQ(Taken(a_, harness_.volume_.generation + 1), EINVAL);
}

TEST_F(CoreMapTest, AnEarlierReleaseKeepsTheVolumeFromGrowing) {
  a_.Register();
  EXPECT_TRUE(harness_.core_->MayGrow().ok());
  old_.Register();
  EXPECT_THAT(harness_.core_->MayGrow().message(), HasSubstr("host3"));
  // One that came too late for that is waited for.
  GrowAndTake();
  EXPECT_EQ(old_.new_maps_.size(), 0u);
  EXPECT_EQ(Taken(a_), 0);
  EXPECT_EQ(Total(), kOld);
}

TEST_F(CoreMapTest, AnEarlierReleaseThatLostItsSessionIsRefusedOnceTheVolumeHasGrown) {
  GrowAndTake();
  old_.Connect();
  old_.mounted_volume_ = harness_.volume_.volume.ToBytes();
  EXPECT_EQ(old_.Hello(), EPROTONOSUPPORT);
  old_.mounted_volume_ = "";
  old_.Connect();
  EXPECT_EQ(old_.Hello(), 0) << "a new mount has the newest map";
}

TEST_F(CoreMapTest, ANewControllerAsksAgain) {
  a_.Register();
  b_.Register();
  GrowAndTake();
  EXPECT_EQ(Taken(a_), 0);
  harness_.Restart();
  ExpectClean();
  a_.map_generation_ = harness_.volume_.generation;
  EXPECT_EQ(a_.Resume(), 0);
  EXPECT_EQ(a_.Reclaim(), 0);
  harness_.Tick();
  b_.map_generation_ = harness_.volume_.generation - 1;
  EXPECT_EQ(b_.Resume(), 0);
  EXPECT_FALSE(b_.replies_.rbegin()->second.hello().volume_descriptor().empty());
  EXPECT_EQ(b_.Reclaim(), 0);
  EXPECT_EQ(Total(), kOld);
  EXPECT_EQ(Taken(b_), 0);
  EXPECT_EQ(Total(), kOld + kAdded);
  ExpectClean();
}

TEST_F(CoreMapTest, AControllerThatDiesBeforeItTakesTheMapIsFollowedByOneThatDoes) {
  a_.Register();
  Grow();
  harness_.Restart();
  ExpectClean();
  a_.map_generation_ = harness_.volume_.generation - 1;
  EXPECT_EQ(a_.Resume(), 0);
  EXPECT_EQ(a_.Reclaim(), 0);
  EXPECT_EQ(Total(), kOld);
  EXPECT_EQ(Taken(a_), 0);
  EXPECT_EQ(Total(), kOld + kAdded);
  harness_.Restart();
  EXPECT_EQ(a_.Resume(), 0);
  EXPECT_EQ(a_.Reclaim(), 0);
  EXPECT_EQ(Total(), kOld + kAdded) << "once";
  ExpectClean();
}

TEST_F(CoreMapTest, ASecondChangeWaitsForItsOwnAnswers) {
  a_.Register();
  GrowAndTake();
  const std::uint64_t first = harness_.volume_.generation;
  GrowAndTake();
  EXPECT_EQ(Taken(a_, first), 0);
  EXPECT_EQ(Total(), kOld);
  EXPECT_EQ(Taken(a_), 0);
  EXPECT_EQ(Total(), kOld + 2 * kAdded);
}

TEST_F(CoreMapTest, ANewPoolIsUsedLikeTheOthers) {
  a_.Register();
  ++harness_.volume_.generation;
  Pool pool = harness_.volume_.pools[0];
  pool.name = "archive";
  pool.flags = Pool::kData | Pool::kExclusive;
  pool.affinities = {"old"};
  pool.sets[0].luns[0].lun.bytes[0] = 77;
  pool.sets[0].luns[0].name = "lun77";
  harness_.volume_.pools.push_back(pool);
  Take();
  EXPECT_EQ(Taken(a_), 0);
  EXPECT_EQ(Total(), 2 * kOld);
  ExpectClean();
}

TEST_F(CoreMapTest, NamesAndAffinitiesAreInForceAtOnce) {
  a_.Register();
  ++harness_.volume_.generation;
  harness_.volume_.pools[0].name = "edit";
  harness_.volume_.pools[0].affinities = {"fast"};
  Take();
  EXPECT_EQ(Show().pools(0).name(), "edit");
  EXPECT_THAT(Show().notes(), IsEmpty());
  EXPECT_EQ(Show().map_generation(), harness_.volume_.generation);
}

// ---- closed areas -------------------------------------------------------------------------------

TEST_F(CoreMapTest, NothingIsAllocatedOnAClosedSet) {
  const auto Set = [&](std::size_t set) { return SetsOf(harness_.volume_, PoolId(0))[set]; };
  a_.Register();
  GrowAndTake();
  EXPECT_EQ(Taken(a_), 0);
  ASSERT_TRUE(harness_.core_->SetClosed({Set(0)}, true).ok());
  harness_.Run();
  EXPECT_TRUE(Show().pools(0).luns(0).closed());
  EXPECT_FALSE(Show().pools(0).luns(1).closed());
  const std::uint64_t inode = a_.Create("f", true);
  EXPECT_EQ(a_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE, true), true), 0);
  EXPECT_GE(a_.last_.layout().extents(0).pool_block(), kOld);
  EXPECT_EQ(EndOfNewFile(a_, "more than is open", kAdded + 1), 0u);
  // After a failover, too.
  harness_.Restart();
  a_.map_generation_ = harness_.volume_.generation;
  EXPECT_EQ(a_.Resume(), 0);
  EXPECT_EQ(a_.Reclaim(), 0);
  const std::uint64_t other = a_.Create("g", true);
  EXPECT_EQ(a_.Do(Client::LayoutOf(other, v1::TOKEN_EXCLUSIVE, true), true), 0);
  EXPECT_GE(a_.last_.layout().extents(0).pool_block(), kOld);
  EXPECT_EQ(EndOfNewFile(a_, "and again", kAdded + 1), 0u);
  EXPECT_TRUE(absl::IsFailedPrecondition(harness_.core_->SetClosed({Set(1)}, true).status()));
  ASSERT_TRUE(harness_.core_->SetClosed({Set(0)}, false).ok());
  harness_.Run();
  EXPECT_GT(EndOfNewFile(a_, "large", kOld), kOld / 2);
  ExpectClean();
}

}  // namespace
}  // namespace reel::mdc
