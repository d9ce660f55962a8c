// Paths that are lost, fenced and mended, with I/O on its way over them.
#include "client/lun_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <thread>

#include "client/lun_io.h"
#include "proto/status.h"
#include "volume/aligned_buffer.h"
#include "volume/lun_fault.h"
#include "volume/lun_times.h"
#include "volume/stripe_map.h"
#include "volume/testing/counting_clock.h"
#include "volume/testing/faulty_lun.h"
#include "volume/testing/sample_volume.h"
#include "volume/testing/shared_lun.h"

namespace reel::client {
namespace {

using testing::ElementsAre;
using testing::Not;

constexpr std::uint32_t kBlock = 4096;

// What of a session matters here; as the controller, it fences before it grants a key.
class FakeSession final : public Session {
 public:
  explicit FakeSession(Reservations& controller) : controller_(controller) {}

  absl::StatusOr<v1::Reply> Call(v1::Request request, const CallOptions&) override {
    EXPECT_TRUE(request.has_new_key());
    if (refuse_) return ErrnoStatus(ESTALE, "evicted");
    Fence();
    key_on_lun_ = ++last_key_;
    v1::Reply reply;
    reply.mutable_key()->set_key(key_on_lun_);
    ++asked_;
    return reply;
  }
  void Post(v1::Request) override {}
  bool LeaseHolds() const override { return lease_; }
  std::uint64_t session_id() const override { return id_; }
  std::uint64_t key() const override { return first_key_; }
  const VolumeDescriptor& descriptor() const override { return descriptor_; }
  void Shutdown() override {}

  void Fence() {
    if (key_on_lun_ != 0) (void)controller_.Preempt(1, key_on_lun_);
    EXPECT_TRUE(controller_.ResetLun().done());
  }
  // The next session; what the events say of it is the test's.
  void BeginNext() {
    first_key_ = key_on_lun_ = ++last_key_;
    ++id_;
  }

  std::atomic<bool> lease_{true};
  std::atomic<bool> refuse_{false};
  std::atomic<int> asked_{0};
  std::atomic<std::uint64_t> id_{1};
  std::atomic<std::uint64_t> first_key_{100};

 private:
  Reservations& controller_;
  std::uint64_t key_on_lun_ = 100;
  std::uint64_t last_key_ = 100;
  VolumeDescriptor descriptor_;
};

class Raised final : public Interrupt {
 public:
  bool interrupted() const override { return true; }
};

class LunPathsTest : public testing::Test {
 protected:
  LunPathsTest() {
    EXPECT_TRUE(mdc_->reservations()->Register(1).done());
    EXPECT_TRUE(mdc_->reservations()->Reserve(1).done());
    volume_.descriptor = SampleVolume({{1, {{64, 1}}}}, kBlock);
    volume_.luns.push_back(target_.NewPath("host"));
    MakePaths({});
  }
  void MakePaths(const LunPaths::Options& options, const Clock& clock = SystemClock()) {
    io_.reset();
    paths_ = std::make_unique<LunPaths>(volume_, session_, clock, options);
    io_ = std::make_unique<LunIo>(volume_, *paths_);
  }
  absl::Status Write(std::uint64_t block, char byte, const Interrupt* interrupt = nullptr,
                     std::uint64_t session = 0) {
    AlignedBuffer data(kBlock);
    std::memset(data.data(), byte, kBlock);
    LunMarks marks;
    return io_->Write(
        {&extent_, 1}, block * kBlock, data.span(), marks,
        {.session = session != 0 ? session : session_.session_id(), .interrupt = interrupt});
  }
  char Read(std::uint64_t block) {
    const AlignedBuffer data(kBlock);
    const absl::Status status =
        io_->Read({&extent_, 1}, block * kBlock, kBlock, data.span(), {.session = session_.id_});
    EXPECT_TRUE(status.ok()) << status;
    return static_cast<char>(*data.data());
  }
  // Where on the LUN it lies.
  std::uint64_t At(std::uint64_t block) const {
    std::vector<LunPiece> pieces;
    const StripeMap stripes(volume_.descriptor);
    EXPECT_TRUE(stripes.Map(PoolId(0), PoolBlock(0), block * kBlock, kBlock, pieces).ok());
    return pieces.at(0).offset_bytes;
  }
  // Past this host's paths.
  void WriteAsAnother(std::uint64_t block, char byte) {
    AlignedBuffer data(kBlock);
    std::memset(data.data(), byte, kBlock);
    EXPECT_TRUE(bytes_.Write(At(block), data.span()).ok());
  }
  char ReadAsAnother(std::uint64_t block) {
    const AlignedBuffer data(kBlock);
    EXPECT_TRUE(bytes_.Read(At(block), data.span()).ok());
    return static_cast<char>(*data.data());
  }
  void AwaitHeldWrite() {
    while (target_.held_writes() == 0) std::this_thread::yield();
  }

  FaultyLun bytes_;
  SharedLun target_{bytes_};
  std::unique_ptr<Lun> mdc_ = target_.NewPath("mdc");
  FakeSession session_{*mdc_->reservations()};
  OpenVolume volume_;
  const Extent extent_{.file_block = FileBlock(0),
                       .length_blocks = 32,
                       .state = ExtentState::kWritten,
                       .pool = PoolId(0),
                       .pool_block = PoolBlock(0)};
  std::unique_ptr<LunPaths> paths_;
  std::unique_ptr<LunIo> io_;
};

TEST_F(LunPathsTest, RegistersAndTakesTheRegistrationAway) {
  ASSERT_TRUE(paths_->Begin().ok());
  EXPECT_THAT(target_.Keys(), ElementsAre(1, 100));
  EXPECT_TRUE(Write(0, 'a').ok());
  EXPECT_EQ(Read(0), 'a');
  paths_->Stop();
  EXPECT_TRUE(paths_->End());
  EXPECT_THAT(target_.Keys(), ElementsAre(1));
}

TEST_F(LunPathsTest, AWriteOnALostPathIsDoneAgainAndTheOldOneNeverLands) {
  ASSERT_TRUE(paths_->Begin().ok());
  ASSERT_TRUE(Write(0, 'a').ok());
  target_.HoldWrites();
  std::thread writer([&] { EXPECT_TRUE(Write(0, 'b').ok()); });
  AwaitHeldWrite();
  target_.SetUnreachable(true);
  target_.Cut("host");
  EXPECT_THAT(target_.Keys(), ElementsAre(1, 100)) << "as targets do";
  EXPECT_EQ(target_.held_writes(), 1U) << "what the old path brought";
  target_.SetUnreachable(false);
  while (session_.asked_ == 0) std::this_thread::yield();
  AwaitHeldWrite();
  EXPECT_EQ(target_.held_writes(), 1U) << "the new one alone";
  target_.ReleaseWrites();
  writer.join();
  EXPECT_EQ(Read(0), 'b');
  EXPECT_THAT(target_.Keys(), ElementsAre(1, 101));
}

TEST_F(LunPathsTest, ATargetThatForgotTheKeyGetsANewOne) {
  ASSERT_TRUE(paths_->Begin().ok());
  session_.Fence();
  EXPECT_TRUE(Write(0, 'c').ok());
  EXPECT_EQ(session_.asked_, 1);
  EXPECT_EQ(Read(0), 'c');
}

TEST_F(LunPathsTest, WhatAResetEndedIsDoneAgainUnderTheSameKey) {
  ASSERT_TRUE(paths_->Begin().ok());
  target_.HoldWrites();
  std::thread writer([&] { EXPECT_TRUE(Write(0, 'd').ok()); });
  AwaitHeldWrite();
  EXPECT_TRUE(mdc_->reservations()->ResetLun().done());
  AwaitHeldWrite();
  target_.ReleaseWrites();
  writer.join();
  EXPECT_EQ(session_.asked_, 0);
}

TEST_F(LunPathsTest, ALostFlushIsDoneAgain) {
  ASSERT_TRUE(paths_->Begin().ok());
  LunMarks marks;
  AlignedBuffer data = AlignedBuffer::Zeroed(kBlock);
  ASSERT_TRUE(io_->Write({&extent_, 1}, 0, data.span(), marks, {.session = 1}).ok());
  target_.Cut("host");
  EXPECT_TRUE(io_->Flush(marks, nullptr).ok());
  EXPECT_EQ(bytes_.unflushed_writes(), 0U);
}

TEST_F(LunPathsTest, AnInterruptedFlushLosesNothing) {
  ASSERT_TRUE(paths_->Begin().ok());
  LunMarks marks;
  AlignedBuffer data = AlignedBuffer::Zeroed(kBlock);
  ASSERT_TRUE(io_->Write({&extent_, 1}, 0, data.span(), marks, {.session = 1}).ok());
  target_.SetUnreachable(true);
  target_.Cut("host");
  const Raised raised;
  EXPECT_EQ(ErrnoOf(io_->Flush(marks, &raised)), EINTR);
  target_.SetUnreachable(false);
  EXPECT_TRUE(io_->Flush(marks, nullptr).ok());
}

TEST_F(LunPathsTest, NothingGoesOutUnderASessionThatIsOver) {
  ASSERT_TRUE(paths_->Begin().ok());
  session_.lease_ = false;
  EXPECT_TRUE(IsPermitOver(Write(0, 'e')));
  session_.lease_ = true;
  session_.Fence();
  session_.BeginNext();
  paths_->OnRegistered(session_.session_id(), session_.key());
  EXPECT_TRUE(IsPermitOver(Write(0, 'e', nullptr, /*session=*/1)));
  EXPECT_TRUE(Write(0, 'f').ok());
  EXPECT_EQ(session_.asked_, 0) << "the session's own key, on each path once";
  EXPECT_EQ(Read(0), 'f');
}

// The point of it all: judged under the old session, sent under the new key.
TEST_F(LunPathsTest, ANewKeyWaitsForWhatTheOldSessionSent) {
  MakePaths({.soft_timeout_ms = 200});
  ASSERT_TRUE(paths_->Begin().ok());
  target_.HoldWrites();
  std::thread writer([&] { (void)Write(0, 'g'); });
  AwaitHeldWrite();
  session_.BeginNext();
  paths_->OnRegistered(session_.session_id(), session_.key());
  EXPECT_EQ(ErrnoOf(Write(1, 'h')), ETIMEDOUT);  // all that time nobody mends it
  EXPECT_THAT(target_.Keys(), ElementsAre(1, 100));
  target_.ReleaseWrites();
  writer.join();
  EXPECT_TRUE(Write(1, 'h').ok());
  EXPECT_THAT(target_.Keys(), ElementsAre(1, 101));
}

TEST_F(LunPathsTest, AnEvictedHostWaitsForItsNextSession) {
  ASSERT_TRUE(paths_->Begin().ok());
  session_.refuse_ = true;
  session_.Fence();
  std::thread writer([&] { EXPECT_TRUE(IsPermitOver(Write(0, 'i', nullptr, /*session=*/1))); });
  session_.lease_ = false;
  writer.join();
  session_.refuse_ = false;
  session_.BeginNext();
  session_.lease_ = true;
  paths_->OnRegistered(session_.session_id(), session_.key());
  EXPECT_TRUE(Write(0, 'j').ok());
}

TEST_F(LunPathsTest, AnUnknownRegistrationIsMadeAgainWithAnotherKey) {
  for (const bool carried_out : {false, true}) {
    target_.LoseNextChange(carried_out);
    ASSERT_TRUE(paths_->Begin().ok());
    EXPECT_TRUE(Write(0, 'k').ok());
    paths_->Stop();
    EXPECT_TRUE(paths_->End());
    session_.BeginNext();
    MakePaths({});
  }
}

TEST_F(LunPathsTest, WaitsEnd) {
  MakePaths({.soft_timeout_ms = 20});
  ASSERT_TRUE(paths_->Begin().ok());
  target_.SetUnreachable(true);
  target_.Cut("host");
  EXPECT_EQ(ErrnoOf(Write(0, 'l')), ETIMEDOUT);
  const Raised raised;
  EXPECT_EQ(ErrnoOf(Write(0, 'l', &raised)), EINTR);
  paths_->GiveUpAt(1);
  EXPECT_THAT(ErrnoOf(Write(0, 'l')), testing::AnyOf(EIO, ETIMEDOUT));
  paths_->Stop();
  EXPECT_EQ(ErrnoOf(Write(0, 'l')), ESHUTDOWN);
  EXPECT_FALSE(paths_->End()) << "what the lost path brought may still land";
}

TEST_F(LunPathsTest, WithoutKeysALostPathIsOpenedAnew) {
  session_.first_key_ = 0;
  EXPECT_TRUE(mdc_->reservations()->Clear(1).done());
  ASSERT_TRUE(paths_->Begin().ok());
  target_.Cut("host");
  EXPECT_TRUE(Write(0, 'm').ok());
  EXPECT_EQ(session_.asked_, 0);
}

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
        const Raised raised;
        (void)Write(0, 'a', &raised);
        paths_->Stop();
        (void)paths_->End();
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
TEST_F(LunPathsTest, WhatAKilledProcessLeftWithTheKernelNeverGoesOutUnderTheNextOnesKey) {
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
TEST_F(LunPathsTest, WhatALunCannotDoJustNowIsDoneAgain) {
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
  const Raised raised;
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

TEST_F(LunPathsTest, WhatSentNothingLetsARecallPass) {
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
  const Raised raised;
  EXPECT_EQ(ErrnoOf(Write(0, 'y', &raised)), EINTR);  // has waited, and looked
  EXPECT_FALSE(done);
  target_.SetUnreachable(false);
  target_.ReleaseWrites();
  writer.join();
}

TEST_F(LunPathsTest, APathThatIsLostIsKnownUntilItIsMended) {
  ASSERT_TRUE(paths_->Begin().ok());
  EXPECT_FALSE(paths_->LongestLost().has_value());
  target_.SetUnreachable(true);
  target_.Cut("host");
  const Raised raised;
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
