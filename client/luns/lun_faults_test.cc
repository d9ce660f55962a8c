// Paths with writes in doubt, LUNs that cannot just now, and paths that stay lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "client/testing/lun_paths_fixture.h"
#include "volume/lun/borrowed_lun.h"
#include "volume/lun/lun_fault.h"
#include "volume/scsi/lun_times.h"
#include "volume/testing/counting_clock.h"

namespace reel::client {
namespace {

using testing::ElementsAre;

// The target executes the lost write at the last moment of its time: what was written later, by the
// same host or by another one after an unmount, is there.
TEST_F(LunPathsTest, WithoutKeysAWriteOfUnknownOutcomeIsWaitedOut) {
  for (const bool unmounts : {false, true}) {
    CountingClock clock;
    session_.first_key_ = 0;
    (void)mdc_->reservations()->Clear(1);
    MakePaths({}, clock);
    ASSERT_TRUE(paths_->Begin().ok());
    const std::uint64_t began_ms = clock.now_ms;
    target_.HoldWrites();
    std::atomic<bool> over = false;
    std::thread writer([&] {
      if (unmounts) {
        const TestInterrupt raised(/*raised=*/true);
        (void)Write(0, 'a', &raised);
        paths_->Stop();
        EXPECT_TRUE(paths_->End()) << "nothing is on its way any more";
        WriteAsAnother(0, 'b');
      } else {
        EXPECT_TRUE(Write(0, 'a').ok());
        EXPECT_TRUE(Write(0, 'b').ok());
      }
      over = true;
    });
    AwaitHeldWrite();
    target_.HoldNoMore();
    target_.Cut("host");
    bool late = false;
    while (!over || !late) {
      clock.now_ms += 10;
      std::this_thread::yield();
      if (late || clock.now_ms - began_ms < QuarantineMs() - 10) continue;
      target_.ReleaseWrites();
      late = true;
    }
    writer.join();
    EXPECT_GE(clock.now_ms - began_ms, QuarantineMs());
    EXPECT_EQ(ReadAsAnother(0), 'b');
  }
}

// A block device: its path is the kernel's, and one for all processes of the host. A write that a
// killed one has left there is sent when others have its block, and the host a new session.
TEST_F(LunPathsTest, RequestsOfAKilledProcessNeverUseTheNextKey) {
  volume_.luns[0] = target_.NewPathOfProcess("ws", "killed");
  MakePaths({});
  ASSERT_TRUE(paths_->Begin().ok());
  target_.HoldInHost("ws");
  std::thread killed([&] { (void)Write(0, 'u', nullptr, /*session=*/1); });
  AwaitHeldWrite();
  target_.EndProcess("ws", "killed");
  session_.lease_ = false;
  session_.Fence();
  EXPECT_THAT(target_.Keys(), ElementsAre(1));
  WriteAsAnother(0, 'v');

  FakeSession next_session{*mdc_->reservations()};
  next_session.first_key_ = 200;
  OpenVolume next_volume;
  next_volume.descriptor = volume_.descriptor;
  next_volume.luns.push_back(target_.NewPathOfProcess("ws", "next"));
  LunPaths next(next_volume, next_session, SystemClock(), {});
  std::atomic<bool> begun = false;
  std::thread mount([&] {
    EXPECT_TRUE(next.Begin().ok());
    begun = true;
  });
  while (target_.claims_refused() < 3 && !begun) std::this_thread::yield();
  EXPECT_FALSE(begun) << "registered while a command of the other one can still be sent";
  target_.SendFromHost("ws");
  killed.join();
  mount.join();
  EXPECT_EQ(ReadAsAnother(0), 'v');
  EXPECT_THAT(target_.Keys(), ElementsAre(1, 200));
  EXPECT_EQ(next_session.asked_, 0) << "a new key is a reset for everybody";
}

// ---- a LUN that cannot now, a device whose driver gives up
// ---------------------------------------

// A storage array whose controllers change places: its answers cost time, and nothing else.
TEST_F(LunPathsTest, ABusyLunsRequestIsRepeated) {
  ASSERT_TRUE(paths_->Begin().ok());
  for (const LunFault fault : {LunFault::kBusy, LunFault::kAborted}) {
    bytes_.FailNext(4, fault);
    EXPECT_TRUE(Write(0, 'n').ok());
    bytes_.FailNext(4, fault);
    EXPECT_EQ(Read(0), 'n');
    LunMarks marks;
    AlignedBuffer data = AlignedBuffer::Zeroed(kBlock);
    ASSERT_TRUE(io_->Write({&extent_, 1}, 0, data.span(), marks, {.session = 1}).ok());
    bytes_.FailNext(4, fault);
    EXPECT_TRUE(io_->Flush(marks, nullptr).ok());
    EXPECT_EQ(bytes_.unflushed_writes(), 0U);
  }
  EXPECT_EQ(session_.asked_, 0) << "its path and its key are what they were";
}

TEST_F(LunPathsTest, ALunThatCannotForTooLongHasFailed) {
  CountingClock clock;
  MakePaths({}, clock);
  ASSERT_TRUE(paths_->Begin().ok());
  const std::uint64_t began_ms = clock.now_ms;
  bytes_.FailNext(std::uint64_t{1} << 40, LunFault::kBusy);
  std::atomic<bool> over = false;
  std::thread writer([&] {
    EXPECT_EQ(ErrnoOf(Write(0, 'o')), EIO);
    over = true;
  });
  while (!over) {
    clock.now_ms += 10;
    std::this_thread::yield();
  }
  writer.join();
  EXPECT_GE(clock.now_ms - began_ms, LunBusyLimitMs());
  bytes_.ClearFaults();
  EXPECT_TRUE(Write(0, 'p').ok()) << "the next one may find it mended";
}

TEST_F(LunPathsTest, AWaitForABusyLunEnds) {
  MakePaths({.soft_timeout_ms = 20});
  ASSERT_TRUE(paths_->Begin().ok());
  bytes_.FailNext(std::uint64_t{1} << 40, LunFault::kBusy);
  EXPECT_EQ(ErrnoOf(Write(0, 'q')), ETIMEDOUT);
  const TestInterrupt raised(/*raised=*/true);
  EXPECT_EQ(ErrnoOf(Write(0, 'q', &raised)), EINTR);
  session_.lease_ = false;
  EXPECT_TRUE(IsPermitOver(Write(0, 'q')));
}

// What the kernel gave up may still be with the target: the old key goes, and what it had sent with
// it, before the write is done again.
TEST_F(LunPathsTest, AWriteInDoubtIsDoneAgainUnderANewKey) {
  ASSERT_TRUE(paths_->Begin().ok());
  bytes_.FailNext(1, LunFault::kInDoubt);
  EXPECT_TRUE(Write(0, 'r').ok());
  EXPECT_EQ(session_.asked_, 1);
  EXPECT_THAT(target_.Keys(), ElementsAre(1, 101));
  bytes_.FailNext(1, LunFault::kInDoubt);
  EXPECT_EQ(Read(0), 'r');
  EXPECT_EQ(session_.asked_, 1) << "a read changes nothing: no key, no reset for its sake";
}

TEST_F(LunPathsTest, ADeviceThatAlwaysGivesARequestUpHasFailed) {
  CountingClock clock;
  MakePaths({}, clock);
  ASSERT_TRUE(paths_->Begin().ok());
  bytes_.FailNext(std::uint64_t{1} << 40, LunFault::kInDoubt);
  std::atomic<bool> over = false;
  std::thread writer([&] {
    EXPECT_EQ(ErrnoOf(Write(0, 's')), EIO);
    over = true;
  });
  while (!over) {
    clock.now_ms += 10;
    std::this_thread::yield();
  }
  writer.join();
  EXPECT_EQ(bytes_.counters().errors, kMaxDoubts);
  bytes_.ClearFaults();
  EXPECT_TRUE(Write(1, 't').ok());
}

// ---- paths that stay lost -----------------------------------------------------------------------

TEST_F(LunPathsTest, AnUnsentRequestLetsARecallPass) {
  ASSERT_TRUE(paths_->Begin().ok());
  RecallWatch recalls(SystemClock());
  target_.SetUnreachable(true);
  target_.Cut("host");
  AlignedBuffer data(kBlock);
  LunMarks marks;
  const IoPermit permit{.session = session_.id_, .yields_to = &recalls, .inode = 7};
  std::thread user([&] {
    EXPECT_TRUE(IsPermitOver(io_->Write({&extent_, 1}, 0, data.span(), marks, permit)));
    EXPECT_TRUE(IsPermitOver(io_->Read({&extent_, 1}, 0, kBlock, data.span(), permit)));
  });
  while (!paths_->LongestLost()) std::this_thread::yield();
  recalls.Begin(7);
  user.join();
  target_.SetUnreachable(false);
}

// Who gives way begins anew: an interrupted one did so for ever, without a pause.
TEST_F(LunPathsTest, AnInterruptEndsAWaitAlsoWhereARecallWould) {
  ASSERT_TRUE(paths_->Begin().ok());
  RecallWatch recalls(SystemClock());
  recalls.Begin(7);
  target_.SetUnreachable(true);
  target_.Cut("host");
  const TestInterrupt raised(/*raised=*/true);
  const IoPermit permit{
      .session = session_.id_, .interrupt = &raised, .yields_to = &recalls, .inode = 7};
  AlignedBuffer data(kBlock);
  const absl::Status status = io_->Read({&extent_, 1}, 0, kBlock, data.span(), permit);
  EXPECT_FALSE(IsPermitOver(status)) << status;
  EXPECT_EQ(ErrnoOf(status), EINTR);
  target_.SetUnreachable(false);
}

// A host that has lost one path has mostly lost all of them: whoever sent something on the next one
// would find that out after a command's time, and hold up others meanwhile.
class TwoLunsTest : public LunPathsTest {
 protected:
  TwoLunsTest() {
    session_.first_key_ = 0;
    two_.descriptor = SampleVolume({{1, {{64, 2}}}}, kBlock);
    for (FaultyLun& lun : luns_) two_.luns.push_back(std::make_unique<BorrowedLun>(lun));
    paths_ = std::make_unique<LunPaths>(two_, session_, SystemClock(),
                                        LunPaths::Options{.soft_timeout_ms = 100});
    EXPECT_TRUE(paths_->Begin().ok());
  }
  ~TwoLunsTest() override { paths_.reset(); }
  // A request that finds the first LUN's path lost.
  void Lose() {
    const std::uint32_t first = 0;
    luns_[0].SetPathLost(true);
    ASSERT_TRUE(paths_->Enter({&first, 1}, {}).ok());
    Rounds rounds;
    (void)paths_->Leave({&first, 1}, /*writes=*/false, rounds, [](std::uint32_t) {
      return LunFaultStatus(LunFault::kClosed, "the path is lost");
    });
  }
  absl::Status EnterSecond() {
    const std::uint32_t second = 1;
    Rounds rounds;
    const absl::Status status = paths_->Enter({&second, 1}, {});
    if (!status.ok()) return status;
    (void)paths_->Leave({&second, 1}, false, rounds,
                        [](std::uint32_t) { return absl::OkStatus(); });
    return status;
  }
  // However long its probe takes here.
  void AwaitSecond() {
    while (!EnterSecond().ok()) std::this_thread::yield();
  }

  FaultyLun luns_[2];
  OpenVolume two_;
};

TEST_F(TwoLunsTest, OtherPathsAreProbedWhenOneIsLost) {
  luns_[1].FailNext(1, LunFault::kClosed);
  luns_[1].SetPathLost(true);
  Lose();
  EXPECT_EQ(ErrnoOf(EnterSecond()), ETIMEDOUT) << "nobody has sent anything there";
  luns_[1].SetPathLost(false);
  AwaitSecond();
  EXPECT_TRUE(paths_->AnyLost()) << "the first one";
}

TEST_F(TwoLunsTest, AWorkingPathGoesOn) {
  Lose();
  AwaitSecond();
  EXPECT_EQ(luns_[1].counters().reads, 1U);
  luns_[0].SetPathLost(false);
  while (paths_->AnyLost()) std::this_thread::yield();
}

TEST_F(TwoLunsTest, ALunThatHasBeenRemovedIsMissedByNobody) {
  LunIo io(two_, *paths_);
  const Extent both{FileBlock(0), 2, ExtentState::kWritten, PoolId(0), PoolBlock(0)};
  AlignedBuffer data(2 * kBlock);
  LunMarks marks;
  ASSERT_TRUE(io.Write({&both, 1}, 0, data.span(), marks, {}).ok());
  luns_[0].SetPathLost(true);
  Lose();
  OpenVolume one;
  one.descriptor = SampleVolume({{1, {{64, 1}}}}, kBlock);
  one.luns.push_back(two_.luns[1]);
  EXPECT_EQ(paths_->TakeLuns(one), std::vector<std::uint32_t>{1});
  EXPECT_TRUE(paths_->IsGone(0));
  EXPECT_FALSE(paths_->AnyLost());
  EXPECT_FALSE(paths_->LongestLost());
  ASSERT_EQ(paths_->Report().size(), 1U);
  EXPECT_TRUE(io.Flush(marks, nullptr).ok()) << "what lay there is durable elsewhere";
  const std::uint32_t gone = 0;
  EXPECT_EQ(ErrnoOf(paths_->Enter({&gone, 1}, {})), EIO) << "it does not wait for ever";
  AwaitSecond();
  paths_->Stop();
  EXPECT_TRUE(paths_->End());
}

// Others see the part that has landed, write over it, and would find it there again.
TEST_F(TwoLunsTest, AWriteThatHasLandedInPartKeepsItsToken) {
  LunIo io(two_, *paths_);
  RecallWatch recalls(SystemClock());
  recalls.Begin(7);
  luns_[0].SetPathLost(true);
  luns_[0].FailNext(1, LunFault::kClosed);
  const Extent both{FileBlock(0), 2, ExtentState::kWritten, PoolId(0), PoolBlock(0)};
  AlignedBuffer data(2 * kBlock);
  LunMarks marks;
  const absl::Status status =
      io.Write({&both, 1}, 0, data.span(), marks, {.yields_to = &recalls, .inode = 7});
  EXPECT_EQ(luns_[1].counters().writes, 1U);
  EXPECT_FALSE(IsPermitOver(status)) << status;
  EXPECT_EQ(ErrnoOf(status), ETIMEDOUT) << "it has waited for the path";
}

TEST_F(LunPathsTest, AWriteOfUnknownOutcomeKeepsItsToken) {
  ASSERT_TRUE(paths_->Begin().ok());
  RecallWatch recalls(SystemClock());
  recalls.Begin(7);
  target_.HoldWrites();
  AlignedBuffer data(kBlock);
  LunMarks marks;
  const IoPermit permit{.session = session_.id_, .yields_to = &recalls, .inode = 7};
  std::atomic<bool> done{false};
  std::thread writer([&] {
    EXPECT_TRUE(io_->Write({&extent_, 1}, 0, data.span(), marks, permit).ok());
    done = true;
  });
  AwaitHeldWrite();
  target_.SetUnreachable(true);
  target_.Cut("host");
  while (!paths_->LongestLost()) std::this_thread::yield();
  const TestInterrupt raised(/*raised=*/true);
  EXPECT_EQ(ErrnoOf(Write(0, 'y', &raised)), EINTR);  // has waited, and looked
  EXPECT_FALSE(done);
  target_.SetUnreachable(false);
  target_.ReleaseWrites();
  writer.join();
}

TEST_F(LunPathsTest, OfALunThatHasBeenRemovedTheRegistrationGoes) {
  ASSERT_TRUE(paths_->Begin().ok());
  EXPECT_THAT(target_.Keys(), testing::ElementsAre(1, 100));
  OpenVolume none;
  none.descriptor = volume_.descriptor;
  EXPECT_TRUE(paths_->TakeLuns(none).empty());
  while (target_.Keys().size() != 1) std::this_thread::yield();
  // A later session does not bring it back.
  session_.BeginNext();
  paths_->OnRegistered(session_.id_, session_.first_key_);
  paths_->Stop();
  EXPECT_TRUE(paths_->End());
  EXPECT_THAT(target_.Keys(), testing::ElementsAre(1));
}

TEST_F(LunPathsTest, AMountDoesNotWaitForALunThatIsRemovedMeanwhile) {
  target_.SetUnreachable(true);
  target_.Cut("host");
  std::thread begin([&] { EXPECT_TRUE(paths_->Begin().ok()); });
  while (!paths_->LongestLost()) std::this_thread::yield();
  OpenVolume none;
  none.descriptor = volume_.descriptor;
  EXPECT_TRUE(paths_->TakeLuns(none).empty());
  begin.join();
}

// Given up with the lease, it would be done again under a later token, over what others wrote.
TEST_F(LunPathsTest, AWriteThatMayHaveLandedOutlastsAGapOfTheLease) {
  ASSERT_TRUE(paths_->Begin().ok());
  target_.HoldWrites();
  std::atomic<bool> done{false};
  std::thread writer([&] {
    EXPECT_TRUE(Write(0, 'x').ok());
    done = true;
  });
  AwaitHeldWrite();
  session_.lease_ = false;
  target_.SetUnreachable(true);
  target_.Cut("host");
  while (!paths_->LongestLost()) std::this_thread::yield();
  EXPECT_TRUE(IsPermitOver(Write(0, 'y'))) << "nothing of it has landed";
  EXPECT_FALSE(done);
  target_.SetUnreachable(false);
  target_.ReleaseWrites();
  session_.lease_ = true;
  writer.join();
  EXPECT_EQ(Read(0), 'x');
}

TEST_F(LunPathsTest, AWriteThatMayHaveLandedEndsWithItsSession) {
  ASSERT_TRUE(paths_->Begin().ok());
  target_.HoldWrites();
  std::thread writer([&] { EXPECT_TRUE(IsPermitOver(Write(0, 'x'))); });
  AwaitHeldWrite();
  session_.lease_ = false;
  target_.SetUnreachable(true);
  target_.Cut("host");
  while (!paths_->LongestLost()) std::this_thread::yield();
  session_.BeginNext();
  writer.join();
  target_.ReleaseWrites();
}

TEST_F(LunPathsTest, APathThatIsLostIsKnownUntilItIsMended) {
  ASSERT_TRUE(paths_->Begin().ok());
  EXPECT_FALSE(paths_->LongestLost().has_value());
  target_.SetUnreachable(true);
  target_.Cut("host");
  const TestInterrupt raised(/*raised=*/true);
  EXPECT_EQ(ErrnoOf(Write(0, 'a', &raised)), EINTR);
  ASSERT_TRUE(paths_->LongestLost().has_value());
  EXPECT_EQ(paths_->LongestLost()->lun, volume_.descriptor.pools[0].sets[0].luns[0].lun);
  EXPECT_FALSE(paths_->BeganWithout());
  session_.BeginNext();
  paths_->OnRegistered(session_.id_, session_.first_key_);
  EXPECT_TRUE(paths_->BeganWithout());
  target_.SetUnreachable(false);
  EXPECT_TRUE(Write(0, 'b').ok());
  EXPECT_FALSE(paths_->LongestLost().has_value());
  EXPECT_FALSE(paths_->BeganWithout());
}

}  // namespace
}  // namespace reel::client
