#include "mdc/fence/fencer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "volume/base/aligned_buffer.h"
#include "volume/format/reservation_key.h"
#include "volume/lun/lun_fault.h"
#include "volume/scsi/lun_times.h"
#include "volume/testing/faulty_lun.h"
#include "volume/testing/sample_volume.h"
#include "volume/testing/shared_lun.h"

namespace reel::mdc {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// LUN 0 holds the metadata, LUN 1 data; any number of controllers and sessions reach both.
class FencerTest : public testing::Test {
 protected:
  FencerTest() {
    descriptor_ = SampleVolume({{1, {{64, 1}}}, {1, {{64, 1}}}}, 4096);
    descriptor_.pools[0].flags = Pool::kMetadata;
    descriptor_.pools[1].flags = Pool::kData;
  }
  struct Controller {
    OpenVolume volume;
    std::unique_ptr<Fencer> fencer;
    std::uint64_t quarantine_ms = 0;
  };
  // `process`: on block devices, whose paths are the host's; else it has paths of its own.
  std::unique_ptr<Controller> Start(const std::string& host, const std::string& process = "") {
    auto made = std::make_unique<Controller>();
    made->volume.descriptor = descriptor_;
    for (SharedLun* lun : {&meta_, &data_}) {
      made->volume.luns.push_back(process.empty() ? lun->NewPath(host)
                                                  : lun->NewPathOfProcess(host, process));
    }
    made->fencer = std::make_unique<Fencer>(made->volume);
    return made;
  }
  std::unique_ptr<Controller> Seated(const std::string& host, std::uint64_t epoch) {
    auto made = Start(host);
    const absl::Status status = made->fencer->Take(Epoch(epoch), &made->quarantine_ms);
    EXPECT_TRUE(status.ok()) << status;
    return made;
  }
  std::uint64_t KeyOf(std::uint64_t number) const {
    return MakeSessionKey(descriptor_.volume, Epoch(1), number);
  }
  static FenceOutcome Fence(Controller& controller, std::uint64_t victim, bool drain = true) {
    return controller.fencer->Fence(
        {.id = FenceId(1), .victims = {victim}, .lun = {}, .drain = drain});
  }
  static absl::Status Watch(Controller& controller, std::vector<std::uint64_t>* seen = nullptr) {
    std::vector<std::uint64_t> keys;
    std::vector<std::string> problems;
    const absl::Status status = controller.fencer->Watch(keys, problems);
    if (seen != nullptr) *seen = keys;
    EXPECT_THAT(problems, IsEmpty());
    return status;
  }

  VolumeDescriptor descriptor_;
  FaultyLun meta_bytes_, data_bytes_;
  SharedLun meta_{meta_bytes_}, data_{data_bytes_};
};

TEST_F(FencerTest, TakesFreshLunsAndGivesThemUpAgain) {
  auto mdc = Seated("mdc", 1);
  EXPECT_TRUE(mdc->fencer->all());
  for (SharedLun* lun : {&meta_, &data_}) {
    EXPECT_THAT(lun->Keys(), ElementsAre(lun->Holder()));
    EXPECT_EQ(lun->resets(), 0) << "there was nobody to wait for";
  }
  EXPECT_TRUE(Watch(*mdc).ok());
  mdc->fencer->Leave();
  EXPECT_THAT(meta_.Keys(), IsEmpty());
  EXPECT_EQ(data_.Holder(), 0U);
}

TEST_F(FencerTest, WhatIsRegisteredOnEachPathOfADeviceIsGivenUp) {
  auto mdc = Seated("mdc", 1);
  const auto second_path = data_.NewPath("mdc, by its second path");
  ASSERT_TRUE(second_path->reservations()->Register(data_.Holder()).done());
  mdc->fencer->Leave();
  EXPECT_THAT(data_.Keys(), IsEmpty());
}

TEST_F(FencerTest, AReservationStaysWhereASessionIsRegistered) {
  auto mdc = Seated("mdc", 1);
  const auto host = data_.NewPath("host");
  ASSERT_TRUE(host->reservations()->Register(KeyOf(7)).done());
  mdc->fencer->Leave();
  EXPECT_NE(data_.Holder(), 0U);
  EXPECT_THAT(meta_.Keys(), IsEmpty());
}

TEST_F(FencerTest, OnlyDataThatATargetMayWriteLateAreWaitedFor) {
  struct Row {
    bool meta_late, data_late;
    std::uint64_t quarantine_ms;
  };
  for (const Row& row :
       {Row{false, false, 0}, Row{true, false, 0}, Row{false, true, QuarantineMs()}}) {
    OpenVolume volume;
    volume.descriptor = descriptor_;
    for (const bool late : {row.meta_late, row.data_late}) {
      volume.luns.push_back(std::make_unique<FaultyLun>(FaultyLun::Options{.executes_late = late}));
    }
    EXPECT_EQ(Fencer(volume).keyless_quarantine_ms(), row.quarantine_ms);
  }
  EXPECT_EQ(Start("mdc")->fencer->keyless_quarantine_ms(), 0U) << "they have reservations";
}

TEST_F(FencerTest, OfSeveralThatTakeTheSeatLunOneGetsIt) {
  auto old = Seated("old", 1);
  const std::uint64_t seen = meta_.Holder();
  auto first = Start("first"), second = Start("second");
  const auto won = first->fencer->TakeSeatLun(Epoch(2), seen, &first->quarantine_ms);
  ASSERT_TRUE(won.ok()) << won.status();
  EXPECT_EQ(meta_.Holder(), *won);
  EXPECT_EQ(meta_.resets(), 1) << "what the old one had sent is over";
  const auto lost = second->fencer->TakeSeatLun(Epoch(2), seen, &second->quarantine_ms);
  EXPECT_TRUE(absl::IsAborted(lost.status())) << lost.status();
  EXPECT_THAT(meta_.Keys(), ElementsAre(*won)) << "nothing of the loser's stays";
  EXPECT_FALSE(Watch(*old).ok());
}

TEST_F(FencerTest, TheSeatLunIsTakenOnlyFromTheWatchedController) {
  auto mdc = Start("mdc");
  ASSERT_TRUE(mdc->fencer->TakeSeatLun(Epoch(1), 0, &mdc->quarantine_ms).ok()) << "it was free";
  auto late = Start("late");
  EXPECT_TRUE(
      absl::IsAborted(late->fencer->TakeSeatLun(Epoch(2), 0, &late->quarantine_ms).status()));
  EXPECT_TRUE(absl::IsAborted(
      late->fencer->TakeSeatLun(Epoch(2), meta_.Holder() + 1, &late->quarantine_ms).status()));
  EXPECT_TRUE(late->fencer->TakeSeatLun(Epoch(2), meta_.Holder(), &late->quarantine_ms).ok());
}

TEST_F(FencerTest, ASwapOfUnknownOutcomeIsAskedFor) {
  for (const bool carried_out : {false, true}) {
    auto old = Seated(carried_out ? "old2" : "old1", carried_out ? 3 : 1);
    const std::uint64_t seen = meta_.Holder();
    auto next = Start(carried_out ? "next2" : "next1");
    meta_.LoseNextChange(carried_out);  // its registration
    const auto won =
        next->fencer->TakeSeatLun(Epoch(carried_out ? 4 : 2), seen, &next->quarantine_ms);
    ASSERT_TRUE(won.ok()) << won.status();
    EXPECT_EQ(meta_.Holder(), *won);
  }
}

TEST_F(FencerTest, TakesTheSeatFromADeadControllerAndKeepsSessions) {
  auto dead = Seated("dead", 1);
  auto host = data_.NewPath("host");
  ASSERT_TRUE(host->reservations()->Register(KeyOf(5)).done());
  dead.reset();
  auto next = Seated("next", 2);
  EXPECT_THAT(meta_.Keys(), ElementsAre(meta_.Holder()));
  EXPECT_THAT(data_.Keys(), SizeIs(2));
  EXPECT_TRUE(PartsOfKey(descriptor_.volume, data_.Holder())->epoch == Epoch(2));
  EXPECT_EQ(meta_.resets(), 1);
  ASSERT_TRUE(next->fencer->Sweep({{KeyOf(5), SessionId(1)}}, &next->quarantine_ms).ok());
  EXPECT_THAT(data_.Keys(), SizeIs(2));
  ASSERT_TRUE(next->fencer->Sweep({}, &next->quarantine_ms).ok());
  EXPECT_THAT(data_.Keys(), ElementsAre(data_.Holder()));
}

// On block devices, and on the same host: it takes over its predecessor's registration, but not
// before the kernel has sent, and the target executed, the last of that one's writes.
TEST_F(FencerTest, OnBlockDevicesARestartComesAfterItsPredecessorsWrites) {
  auto killed = Start("host", "killed");
  ASSERT_TRUE(killed->fencer->Take(Epoch(1), &killed->quarantine_ms).ok());
  meta_.HoldInHost("host");
  std::thread writer([&] {
    const AlignedBuffer block = AlignedBuffer::Zeroed(4096);
    EXPECT_EQ(FaultOf(killed->volume.luns[0]->Write(0, block.span())), LunFault::kAborted);
  });
  while (meta_.held_writes() == 0) std::this_thread::yield();
  for (SharedLun* lun : {&meta_, &data_}) lun->EndProcess("host", "killed");
  auto next = Start("host", "next");
  EXPECT_TRUE(absl::IsAborted(next->fencer->Take(Epoch(2), &next->quarantine_ms)));
  meta_.HoldWrites();  // the kernel sends it, the target takes its time
  meta_.SendFromHost("host");
  EXPECT_EQ(meta_.held_writes(), 1U);
  const absl::Status taken = next->fencer->Take(Epoch(2), &next->quarantine_ms);
  EXPECT_TRUE(taken.ok()) << taken;
  EXPECT_EQ(meta_.held_writes(), 0U) << "it is over before anything is read";
  meta_.ReleaseWrites();
  writer.join();
}

// Of a predecessor that stood still, and registered when it was over: it goes first, so that no
// RESERVE is tried by a path that may lack the holder's key.
TEST_F(FencerTest, OnBlockDevicesAKeyThatWasLeftIsReplaced) {
  auto late = Start("host", "late");
  auto active = Seated("other", 2);
  const std::uint64_t left = MakeControllerKey(descriptor_.volume, Epoch(1), 7);
  for (const auto& lun : late->volume.luns) {
    ASSERT_TRUE(lun->reservations()->Register(left).done());
  }
  for (SharedLun* lun : {&meta_, &data_}) lun->EndProcess("host", "late");
  auto next = Start("host", "next");
  const absl::Status taken = next->fencer->Take(Epoch(3), &next->quarantine_ms);
  EXPECT_TRUE(taken.ok()) << taken;
  for (SharedLun* lun : {&meta_, &data_}) {
    EXPECT_THAT(lun->Keys(), ElementsAre(lun->Holder()));
    EXPECT_EQ(lun->keyless_reserves(), 0);
  }
  EXPECT_TRUE(Watch(*next).ok());
  EXPECT_FALSE(Watch(*active).ok());
}

TEST_F(FencerTest, ADataLunWhoseDeviceWasReplacedIsFoundAgain) {
  auto mdc = Seated("mdc", 1);
  data_.RemoveDevice("mdc");
  std::vector<std::uint64_t> seen;
  std::vector<std::string> problems;
  EXPECT_TRUE(mdc->fencer->Watch(seen, problems).ok()) << "it serves on";
  EXPECT_THAT(problems, SizeIs(1));
  EXPECT_TRUE(Watch(*mdc).ok()) << "and has it again at its next look";
}

TEST_F(FencerTest, AReplacedControllerLearnsIt) {
  auto first = Seated("first", 1);
  auto second = Seated("second", 2);
  EXPECT_TRUE(IsFenced(first->volume.luns[0]->Write(0, AlignedBuffer::Zeroed(4096).span())));
  EXPECT_FALSE(Watch(*first).ok());
  EXPECT_TRUE(Watch(*second).ok());
  // And does not take it back.
  std::uint64_t quarantine_ms = 0;
  auto again = Start("again");
  EXPECT_THAT(std::string(again->fencer->Take(Epoch(1), &quarantine_ms).message()),
              HasSubstr("later epoch"));
  EXPECT_TRUE(Watch(*second).ok());
}

TEST_F(FencerTest, OtherVolumesKeysStay) {
  auto stranger = data_.NewPath("stranger");
  ASSERT_TRUE(stranger->reservations()->Register(0xabcdef).done());
  ASSERT_TRUE(stranger->reservations()->Reserve(0xabcdef).done());
  auto mdc = Start("mdc");
  const absl::Status status = mdc->fencer->Take(Epoch(1), &mdc->quarantine_ms);
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("0x0000000000abcdef"));
  EXPECT_EQ(data_.Holder(), 0xabcdefU);
}

TEST_F(FencerTest, AnUnknownOutcomeIsAskedFor) {
  for (const bool carried_out : {false, true}) {
    auto old = Seated("old", 1);
    auto mdc = Start("mdc");
    meta_.LoseNextChange(carried_out);
    data_.LoseNextChange(carried_out);
    const absl::Status status = mdc->fencer->Take(Epoch(2), &mdc->quarantine_ms);
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_TRUE(Watch(*mdc).ok());
    EXPECT_THAT(meta_.Keys(), ElementsAre(meta_.Holder()));
    mdc->fencer->Leave();
  }
}

TEST_F(FencerTest, AFencedSessionCannotWriteAndNothingOfItLands) {
  auto mdc = Seated("mdc", 1);
  auto host = data_.NewPath("host");
  ASSERT_TRUE(host->reservations()->Register(KeyOf(7)).done());
  data_.HoldWrites();
  std::thread writer([&] {
    EXPECT_EQ(FaultOf(host->Write(0, AlignedBuffer::Zeroed(4096).span())), LunFault::kAborted);
  });
  while (data_.held_writes() == 0) std::this_thread::yield();
  const FenceOutcome outcome = Fence(*mdc, KeyOf(7));
  EXPECT_TRUE(outcome.done) << outcome.problem;
  EXPECT_EQ(outcome.quarantine_ms, 0U);
  EXPECT_EQ(data_.held_writes(), 0U);
  data_.ReleaseWrites();
  writer.join();
  EXPECT_TRUE(IsFenced(host->Write(0, AlignedBuffer::Zeroed(4096).span())));
}

TEST_F(FencerTest, APoliteFenceResetsOnlyLunsWithTheKey) {
  auto mdc = Seated("mdc", 1);
  auto host = data_.NewPath("host");
  ASSERT_TRUE(host->reservations()->Register(KeyOf(7)).done());
  EXPECT_TRUE(Fence(*mdc, KeyOf(7), /*drain=*/false).done);
  EXPECT_EQ(meta_.resets(), 0);
  EXPECT_EQ(data_.resets(), 1);
}

TEST_F(FencerTest, WithoutAResetThereIsAQuarantine) {
  auto mdc = Seated("mdc", 1);
  data_.SetHasReset(false);
  const FenceOutcome outcome = Fence(*mdc, KeyOf(7));
  EXPECT_TRUE(outcome.done);
  EXPECT_GE(outcome.quarantine_ms, 30'000U);
}

TEST_F(FencerTest, AFenceThatIsUnknownIsNotDone) {
  auto mdc = Seated("mdc", 1);
  auto host = data_.NewPath("host");
  ASSERT_TRUE(host->reservations()->Register(KeyOf(7)).done());
  data_.SetUnreachable(true);
  data_.Cut("mdc");
  EXPECT_FALSE(Fence(*mdc, KeyOf(7)).done);
  data_.SetUnreachable(false);
  data_.LoseNextChange(false);  // the registration of the path that was cut
  EXPECT_TRUE(Fence(*mdc, KeyOf(7)).done);
  EXPECT_THAT(data_.Keys(), ElementsAre(data_.Holder()));
}

TEST_F(FencerTest, APreemptionOfUnknownOutcomeIsChecked) {
  auto mdc = Seated("mdc", 1);
  auto host = data_.NewPath("host");
  for (const bool carried_out : {false, true}) {
    ASSERT_TRUE(host->reservations()->Register(KeyOf(7)).done());
    data_.LoseNextChange(carried_out);
    const FenceOutcome outcome = Fence(*mdc, KeyOf(7));
    EXPECT_TRUE(outcome.done) << outcome.problem;
    EXPECT_THAT(data_.Keys(), ElementsAre(data_.Holder()));
  }
}

TEST_F(FencerTest, ALostDataLunIsMendedUnderANewKey) {
  auto mdc = Seated("mdc", 1);
  const std::uint64_t before = data_.Holder();
  data_.Cut("mdc");
  EXPECT_TRUE(Watch(*mdc).ok());
  EXPECT_NE(data_.Holder(), before);
  EXPECT_THAT(data_.Keys(), ElementsAre(data_.Holder()));
  data_.Restart();
  EXPECT_EQ(data_.Holder(), 0U);
  EXPECT_TRUE(Fence(*mdc, KeyOf(3)).done) << "the reservation is taken before it is relied on";
  EXPECT_NE(data_.Holder(), 0U);
}

TEST_F(FencerTest, ALostMetadataLunEndsTheSeat) {
  auto mdc = Seated("mdc", 1);
  meta_.Cut("mdc");
  EXPECT_FALSE(Fence(*mdc, KeyOf(3)).done);
  EXPECT_FALSE(Watch(*mdc).ok());
  EXPECT_EQ(FaultOf(mdc->volume.luns[0]->Write(0, AlignedBuffer::Zeroed(4096).span())),
            LunFault::kClosed);
}

TEST_F(FencerTest, SessionKeysAreSeen) {
  auto mdc = Seated("mdc", 1);
  auto host = data_.NewPath("host");
  ASSERT_TRUE(host->reservations()->Register(KeyOf(7)).done());
  std::vector<std::uint64_t> seen;
  EXPECT_TRUE(Watch(*mdc, &seen).ok());
  EXPECT_THAT(seen, ElementsAre(KeyOf(7)));
}

// ---- a map that changes -------------------------------------------------------------------------

class FencerMapTest : public FencerTest {
 protected:
  // The controller's volume with one more LUN for data.
  std::unique_ptr<OpenVolume> Grown(Controller& controller) {
    auto grown = std::make_unique<OpenVolume>();
    grown->descriptor = SampleVolume({{1, {{64, 1}}}, {1, {{64, 1}, {64, 1}}}}, 4096);
    grown->descriptor.pools[0].flags = Pool::kMetadata;
    grown->descriptor.pools[1].flags = Pool::kData;
    grown->luns = controller.volume.luns;
    grown->luns.push_back(new_.NewPath("mdc1"));
    return grown;
  }
  std::vector<std::uint64_t> KeysOnNew() {
    return new_.NewPath("onlooker")->reservations()->ReadKeys()->keys;
  }
  FaultyLun new_bytes_;
  SharedLun new_{new_bytes_};
};

TEST_F(FencerMapTest, ALunThatComesIsHeldAndSessionsAreFencedThereToo) {
  const auto mdc = Seated("mdc1", 1);
  const auto grown = Grown(*mdc);
  const auto before = mdc->fencer->List();
  std::uint64_t quarantine_ms = 0;
  ASSERT_TRUE(mdc->fencer->TakeMap(*grown, &quarantine_ms).ok());
  EXPECT_EQ(quarantine_ms, 0u);
  EXPECT_THAT(KeysOnNew(), SizeIs(1));
  const auto after = mdc->fencer->List();
  ASSERT_THAT(after, SizeIs(3));
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(after[i].holder, before[i].holder) << "as it was held";
  }
  EXPECT_NE(after[2].holder, 0u);
  EXPECT_TRUE(Watch(*mdc).ok());
  const auto session = new_.NewPath("ws1");
  ASSERT_TRUE(session->reservations()->Register(KeyOf(7)).done());
  EXPECT_TRUE(Fence(*mdc, KeyOf(7)).done);
  EXPECT_THAT(KeysOnNew(), SizeIs(1));
}

TEST_F(FencerMapTest, ALunOfSomethingElseIsRefusedAndAllIsAsItWas) {
  const auto mdc = Seated("mdc1", 1);
  const auto grown = Grown(*mdc);
  const auto other = new_.NewPath("other");
  ASSERT_TRUE(other->reservations()->Register(4711).done());
  std::uint64_t quarantine_ms = 0;
  EXPECT_TRUE(absl::IsFailedPrecondition(mdc->fencer->TakeMap(*grown, &quarantine_ms)));
  EXPECT_THAT(KeysOnNew(), ElementsAre(4711));
  EXPECT_THAT(mdc->fencer->List(), SizeIs(2));
  EXPECT_TRUE(Watch(*mdc).ok());
}

TEST_F(FencerMapTest, ALunThatWasTakenForNothingIsLetGo) {
  const auto mdc = Seated("mdc1", 1);
  const auto grown = Grown(*mdc);
  std::uint64_t quarantine_ms = 0;
  ASSERT_TRUE(mdc->fencer->TakeMap(*grown, &quarantine_ms).ok());
  ASSERT_TRUE(mdc->fencer->TakeMap(mdc->volume, &quarantine_ms).ok());
  EXPECT_THAT(KeysOnNew(), IsEmpty());
  EXPECT_TRUE(Watch(*mdc).ok());
}

TEST_F(FencerMapTest, ALunThatGrewIsOneLunAtTwoPlaces) {
  const auto mdc = Seated("mdc1", 1);
  const auto grown = Grown(*mdc);
  grown->luns[2] = grown->luns[1];
  std::uint64_t quarantine_ms = 0;
  ASSERT_TRUE(mdc->fencer->TakeMap(*grown, &quarantine_ms).ok());
  EXPECT_TRUE(mdc->fencer->all());
  const auto list = mdc->fencer->List();
  EXPECT_EQ(list[2].holder, list[1].holder);
  EXPECT_TRUE(Watch(*mdc).ok());
}

}  // namespace
}  // namespace reel::mdc
