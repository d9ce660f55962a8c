// A volume on image files whose map changes while it is served, and controllers that die meanwhile.
#include "mdc/map/map_keeper.h"

#include <future>

#include "gmock/gmock.h"
#include "mdc/check/checker.h"
#include "mdc/serve/candidate.h"
#include "mdc/testing/test_volume.h"

namespace reel::mdc {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::uint64_t kNewBytes = 65 * kMiB;

class MapKeeperTest : public testing::Test {
 protected:
  MapKeeperTest() { Start(); }
  VolumeServerOptions Options() const {
    VolumeServerOptions options;
    options.volume = "reel";
    options.luns = Paths();
    options.on_failure = [](const absl::Status& status) { ADD_FAILURE() << status; };
    return options;
  }
  void Start() {
    auto server = TakeAndServe(Options(), SeatOptions(), SystemClock());
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  void Restart() {
    ASSERT_TRUE(server_->Stop().ok());
    server_.reset();
    Start();
  }
  std::vector<std::string> Paths() const {
    std::vector<std::string> paths = volume_.paths();
    paths.push_back(new_.path());
    return paths;
  }
  absl::StatusOr<v1::ChangeMapReply> Change(const v1::ChangeMapRequest& request) {
    std::promise<absl::StatusOr<v1::ChangeMapReply>> promise;
    server_->map().Change(request, [&](const auto& reply) { promise.set_value(reply); });
    return promise.get_future().get();
  }
  v1::ChangeMapRequest AddOf(const std::string& pool = "data") const {
    v1::ChangeMapRequest request;
    request.mutable_add_luns()->set_pool(pool);
    request.mutable_add_luns()->add_luns(new_.path());
    return request;
  }
  absl::StatusOr<v1::ChangeMapReply> Add() { return Change(AddOf()); }
  template <typename T>
  T OnCore(const std::function<T(Core&)>& ask) {
    std::promise<T> promise;
    server_->RunOnCore([&](Core& core) { promise.set_value(ask(core)); });
    return promise.get_future().get();
  }
  v1::ShowReply Show() {
    return OnCore<v1::ShowReply>([&](Core& core) {
      v1::ShowReply show;
      core.Describe(show);
      server_->Complete(show);
      return show;
    });
  }
  // What fsck.reelfs would say of a volume that is not served.
  void ExpectClean() {
    ASSERT_TRUE(server_->Stop().ok());
    server_.reset();
    {
      auto volume = OpenVolumeByName("reel", Paths(), LunAccess::kReadOnly);
      ASSERT_TRUE(volume.ok()) << volume.status();
      EXPECT_THAT(volume->warnings, IsEmpty());
      StoreOptions options;
      options.read_only = true;
      auto store = Store::Open(*volume, options);
      ASSERT_TRUE(store.ok()) << store.status();
      CheckSink sink;
      sink.on_problem = [](const Problem& problem) {
        ADD_FAILURE() << problem.code << ": " << problem.where << ": " << problem.what;
      };
      CheckVolume({(*store)->db(), volume->descriptor, (*store)->regions()}, sink);
    }
    Start();
  }
  void Remove(const std::string& lun) {
    v1::StartJobRequest request;
    request.set_kind(v1::JOB_RESTRIPE);
    request.set_remove(true);
    request.set_lun(lun);
    ASSERT_TRUE(OnCore<bool>([&](Core& core) { return core.StartJob(request).ok(); }));
    AwaitJob();
  }
  // The first one, which goes well.
  void AwaitJob() {
    const auto job = [&] {
      return OnCore<v1::JobRecord>([](Core& core) {
        v1::JobsReply jobs;
        core.Describe(jobs);
        return jobs.jobs(0).record();
      });
    };
    while (job().state() == v1::JOB_RUNNING) std::this_thread::yield();
    ASSERT_EQ(job().state(), v1::JOB_DONE) << job().problem();
  }
  std::unique_ptr<Lun> Open(const std::string& path) {
    return OpenLun(path, LunAccess::kReadWrite).value();
  }

  TestVolumeOnImages volume_{TestVolumeOnImages::Pools::kApartWhole};
  TemporaryImage new_{kNewBytes};
  std::unique_ptr<VolumeServer> server_;
};

TEST_F(MapKeeperTest, ALunIsAddedAndEveryLunHoldsTheNewMap) {
  const std::uint64_t before = Show().pools(1).total_bytes();
  const auto added = Add();
  ASSERT_TRUE(added.ok()) << added.status();
  EXPECT_EQ(added->map_generation(), 2u);
  EXPECT_EQ(added->added_bytes(), 64 * kMiB);
  const v1::ShowReply show = Show();
  EXPECT_EQ(show.pools(1).total_bytes(), before + 64 * kMiB);
  EXPECT_EQ(show.pools(1).free_bytes(), before + 64 * kMiB) << "no client has to know";
  ASSERT_EQ(show.pools(1).luns_size(), 2);
  EXPECT_EQ(show.pools(1).luns(1).path(), new_.path());
  EXPECT_THAT(show.alarms(), IsEmpty());
  for (const std::string& path : Paths()) {
    const auto lun = Open(path);
    EXPECT_EQ(ReadDescriptor(*lun)->descriptor, server_->descriptor()) << path;
  }
  ExpectClean();
  EXPECT_EQ(Show().pools(1).free_bytes(), before + 64 * kMiB);
  EXPECT_THAT(Add().status().message(), HasSubstr("is in pool data already"));
}

TEST_F(MapKeeperTest, WhatHoldsSomethingIsRefusedUnlessForced) {
  AlignedBuffer block = AlignedBuffer::Zeroed(4096);
  std::memcpy(block.data() + 4096 - 10, "SWAPSPACE2", 10);
  std::memcpy(block.data() + 1024, "\x01\x00\x00\x00\xff\x00\x00\x00", 8);
  ASSERT_TRUE(Open(new_.path())->Write(0, block.span()).ok());
  EXPECT_THAT(Add().status().message(), HasSubstr("holds swap"));
  EXPECT_EQ(server_->descriptor().generation, 1u);
  v1::ChangeMapRequest forced = AddOf();
  forced.add_force(new_.path());
  const auto added = Change(forced);
  EXPECT_TRUE(added.ok()) << added.status();
}

TEST_F(MapKeeperTest, LunsThatCannotBeAddedAreRefused) {
  v1::ChangeMapRequest request = AddOf("nowhere");
  EXPECT_TRUE(absl::IsNotFound(Change(request).status()));
  request = AddOf();
  request.mutable_add_luns()->add_luns(new_.path());
  EXPECT_THAT(Change(request).status().message(), HasSubstr("given twice"));
  request.mutable_add_luns()->set_luns(0, "/no/such/lun");
  EXPECT_THAT(Change(request).status().message(),
              HasSubstr("none of those that the controller looks at"));
  ASSERT_TRUE(
      WriteLabel(
          *Open(new_.path()),
          {.lun = Uuid::Random(), .name = "other", .volume = Uuid::Random(), .generation = 1})
          .ok());
  EXPECT_THAT(Add().status().message(), HasSubstr("of another volume"));
  EXPECT_EQ(server_->descriptor().generation, 1u);
  ExpectClean();
}

TEST_F(MapKeeperTest, AControllerThatDiesBeforeTheSeatIsWrittenLeavesTheOldMap) {
  ASSERT_TRUE(server_->Stop().ok());
  server_.reset();
  ASSERT_TRUE(WriteLabel(*Open(new_.path()), {.lun = Uuid::Random(),
                                              .name = "lun.img",
                                              .volume = volume_.descriptor().volume,
                                              .pool = 1,
                                              .stripe_set = 1,
                                              .generation = 2,
                                              .size_bytes = kNewBytes})
                  .ok());
  Start();
  EXPECT_EQ(server_->descriptor().generation, 1u);
  ExpectClean();
  const auto added = Add();
  EXPECT_TRUE(added.ok()) << added.status();
  ExpectClean();
}

TEST_F(MapKeeperTest, AControllerThatDiesBeforeTheCopiesAreWrittenLeavesTheNewMap) {
  ASSERT_TRUE(Add().ok());
  const VolumeDescriptor grown = server_->descriptor();
  ASSERT_TRUE(server_->Stop().ok());
  server_.reset();
  // As it was but for the seat LUN.
  for (const std::string& path : {volume_.paths()[1], new_.path()}) {
    const auto lun = Open(path);
    const AlignedBuffer zeros = AlignedBuffer::Zeroed(kDescriptorSlotBytes);
    for (const std::uint64_t slot : kDescriptorSlotOffsets) {
      ASSERT_TRUE(lun->Write(slot, zeros.span()).ok());
    }
    if (path == new_.path()) continue;
    ASSERT_TRUE(WriteDescriptor(*lun, volume_.descriptor()).ok());
  }
  Start();
  EXPECT_EQ(server_->descriptor(), grown);
  // (Behind what a start has to do.)
  std::promise<absl::StatusOr<v1::CloseSpaceReply>> promise;
  v1::CloseSpaceRequest nothing;
  nothing.set_pool("data");
  server_->map().CloseSpace(nothing, [&](const auto& reply) { promise.set_value(reply); });
  ASSERT_TRUE(promise.get_future().get().ok());
  for (const std::string& path : Paths()) {
    const auto lun = Open(path);
    EXPECT_EQ(ReadDescriptor(*lun)->descriptor, grown) << path;
  }
  ExpectClean();
}

TEST_F(MapKeeperTest, AMetadataPoolThatGrowsIsTheStores) {
  const std::uint64_t before = Show().store_bytes();
  const auto added = Change(AddOf("meta"));
  ASSERT_TRUE(added.ok()) << added.status();
  while (Show().store_bytes() == before) std::this_thread::yield();
  EXPECT_GE(Show().store_bytes(), before + added->added_bytes());
  ExpectClean();
  EXPECT_GE(Show().store_bytes(), before + added->added_bytes());
}

TEST_F(MapKeeperTest, ALunThatGrewIsUsedToItsEnd) {
  ASSERT_TRUE(Add().ok());
  v1::ChangeMapRequest grow;
  grow.mutable_grow()->set_pool("data");
  EXPECT_TRUE(absl::IsFailedPrecondition(Change(grow).status()));
  ASSERT_EQ(truncate(new_.path().c_str(), 2 * kNewBytes), 0);
  const auto grown = Change(grow);
  ASSERT_TRUE(grown.ok()) << grown.status();
  EXPECT_EQ(grown->added_bytes(), kNewBytes);
  EXPECT_EQ(Show().pools(1).luns_size(), 3);
  ExpectClean();
  EXPECT_THAT(Show().notes(), IsEmpty()) << "its label says so";
}

TEST_F(MapKeeperTest, ALunThatIsRemovedIsFreeForOthers) {
  ASSERT_TRUE(Add().ok());
  ASSERT_NO_FATAL_FAILURE(Remove("lun.img"));
  EXPECT_EQ(Show().pools(1).luns_size(), 1);
  EXPECT_THAT(Show().alarms(), IsEmpty());
  const auto label = ReadLabel(*Open(new_.path()));
  ASSERT_TRUE(label.ok()) << label.status();
  EXPECT_TRUE(label->label.volume.is_nil());
  ExpectClean();
  const auto again = Add();
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(Show().pools(1).free_bytes(), Show().pools(1).total_bytes());
  ExpectClean();
}

// It had opened the LUN, which is another's, or pulled, when it takes over.
TEST_F(MapKeeperTest, AStandbyOfBeforeMissesNoLunThatWasRemoved) {
  ASSERT_TRUE(Add().ok());
  VolumeRole role("reel");
  const auto standby = Candidate::Open(Options(), SeatOptions(), role, SystemClock());
  ASSERT_TRUE(standby.ok()) << standby.status();
  ASSERT_NO_FATAL_FAILURE(Remove("lun.img"));
  ASSERT_TRUE(server_->Stop().ok());
  server_.reset();
  auto server = (*standby)->Begin();
  ASSERT_TRUE(server.ok()) << server.status();
  ASSERT_NE(*server, nullptr);
  server_ = *std::move(server);
  ExpectClean();
}

TEST_F(MapKeeperTest, ALunTakesThePlaceOfAnother) {
  const VolumeDescriptor before = server_->descriptor();
  v1::StartJobRequest request;
  request.set_kind(v1::JOB_RESTRIPE);
  request.set_remove(true);
  request.set_lun(before.pools[1].sets[0].luns[0].name);
  request.set_with(new_.path());
  const auto replace = [&] {
    std::promise<absl::StatusOr<Core::ChangedJob>> promise;
    server_->map().Replace(request, [&](const auto& job) { promise.set_value(job); });
    return promise.get_future().get();
  };
  EXPECT_THAT(replace().status().message(), HasSubstr("is used up to"));
  ASSERT_EQ(truncate(new_.path().c_str(), kGiB), 0);
  const auto job = replace();
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_NO_FATAL_FAILURE(AwaitJob());
  EXPECT_EQ(server_->descriptor().pools[1].sets.back().luns[0].name, "lun.img");
  EXPECT_EQ(server_->descriptor().pools[1].capacity_blocks(), before.pools[1].capacity_blocks());
  EXPECT_THAT(Show().alarms(), IsEmpty());
  EXPECT_EQ(Show().pools(1).free_bytes(), Show().pools(1).total_bytes());
  ExpectClean();
  EXPECT_TRUE(ReadLabel(*Open(volume_.paths()[1]))->label.volume.is_nil());
  EXPECT_FALSE(replace().ok()) << "it has gone";
}

TEST_F(MapKeeperTest, APoolIsRemovedAndAddedAgain) {
  v1::ChangeMapRequest add;
  add.mutable_add_pool()->set_pool("more");
  add.mutable_add_pool()->set_data(true);
  add.mutable_add_pool()->add_luns(new_.path());
  ASSERT_TRUE(Change(add).ok());
  v1::StartJobRequest request;
  request.set_kind(v1::JOB_RESTRIPE);
  request.set_remove(true);
  request.set_pool("more");
  ASSERT_TRUE(OnCore<bool>([&](Core& core) { return core.StartJob(request).ok(); }));
  ASSERT_NO_FATAL_FAILURE(AwaitJob());
  EXPECT_EQ(Show().pools_size(), 2);
  EXPECT_THAT(Show().alarms(), IsEmpty());
  ExpectClean();
  const auto again = Change(add);
  ASSERT_TRUE(again.ok()) << again.status();
  ASSERT_EQ(Show().pools_size(), 3);
  EXPECT_EQ(Show().pools(2).free_bytes(), 64 * kMiB);
  EXPECT_EQ(server_->descriptor().pools.size(), 3u) << "in its place";
  ExpectClean();
}

TEST_F(MapKeeperTest, PoolsAreRenamedAndChanged) {
  v1::ChangeMapRequest request;
  request.mutable_rename()->set_pool("data");
  request.mutable_rename()->set_name("edit");
  ASSERT_TRUE(Change(request).ok());
  request.mutable_set_pool()->set_pool("edit");
  request.mutable_set_pool()->set_sets_affinities(true);
  request.mutable_set_pool()->add_affinities("fast");
  ASSERT_TRUE(Change(request).ok());
  Restart();
  EXPECT_EQ(Show().pools(1).name(), "edit");
  EXPECT_THAT(Show().pools(1).affinities(), ElementsAre("fast"));
  ExpectClean();
}

TEST_F(MapKeeperTest, ALunThatIsDownStaysSo) {
  ASSERT_TRUE(Add().ok());
  const auto close = [&](const std::string& lun, bool closed) {
    std::promise<absl::StatusOr<v1::CloseSpaceReply>> promise;
    v1::CloseSpaceRequest request;
    request.set_lun(lun);
    request.set_closed(closed);
    server_->map().CloseSpace(request, [&](const auto& reply) { promise.set_value(reply); });
    return promise.get_future().get();
  };
  const auto down = close("lun.img", true);
  ASSERT_TRUE(down.ok()) << down.status();
  EXPECT_THAT(down->luns(), ElementsAre("lun.img"));
  EXPECT_TRUE(absl::IsNotFound(close("nobody", true).status()));
  EXPECT_TRUE(absl::IsFailedPrecondition(close("lun1", true).status())) << "it is the last one";
  Restart();
  EXPECT_TRUE(Show().pools(1).luns(1).closed());
  EXPECT_FALSE(Show().pools(1).luns(0).closed());
  ASSERT_TRUE(close("lun.img", false).ok());
  ExpectClean();
}

}  // namespace
}  // namespace reel::mdc
