// Paths that are lost, fenced and mended, with I/O on its way over them.
#include "client/luns/lun_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "client/testing/lun_paths_fixture.h"
#include "volume/lun/lun_fault.h"
#include "volume/scsi/lun_times.h"
#include "volume/testing/counting_clock.h"

namespace reel::client {
namespace {

using testing::ElementsAre;

TEST_F(LunPathsTest, RegistersAndTakesTheRegistrationAway) {
  ASSERT_TRUE(paths_->Begin().ok());
  EXPECT_THAT(target_.Keys(), ElementsAre(1, 100));
  EXPECT_TRUE(Write(0, 'a').ok());
  EXPECT_EQ(Read(0), 'a');
  paths_->Stop();
  EXPECT_TRUE(paths_->End());
  EXPECT_THAT(target_.Keys(), ElementsAre(1));
}

TEST_F(LunPathsTest, WhatWentOverAPathIsReported) {
  ASSERT_TRUE(paths_->Begin().ok());
  EXPECT_TRUE(Write(0, 'a').ok());
  EXPECT_TRUE(Write(0, 'b').ok());
  EXPECT_EQ(Read(0), 'b');
  const v1::LunReport report = paths_->Report().at(0);
  EXPECT_EQ(report.writes(), 2U);
  EXPECT_EQ(report.reads(), 1U);
  EXPECT_EQ(report.written_bytes(), 2 * report.read_bytes());
  EXPECT_EQ(report.problem(), "");
  EXPECT_NE(report.path(), "");
  target_.SetUnreachable(true);
  target_.Cut("host");
  std::thread writer([&] { EXPECT_TRUE(Write(0, 'c').ok()); });
  while (paths_->Report().at(0).problem().empty()) std::this_thread::yield();
  target_.SetUnreachable(false);
  writer.join();
  EXPECT_EQ(paths_->Report().at(0).writes(), 3U) << "each once, however often it was tried";
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

TEST_F(LunPathsTest, RequestsEndedByAResetAreRepeatedUnderTheSameKey) {
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
  const TestInterrupt raised(/*raised=*/true);
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

// As of a host that was started anew, until its last session is fenced: each key that it asks for
// costs everybody a reset.
TEST_F(LunPathsTest, AHostThatIsRegisteredYetKeepsTheKeyThatItWasGranted) {
  ASSERT_TRUE(volume_.luns[0]->reservations()->Register(77).done());
  std::thread begin([&] { EXPECT_TRUE(paths_->Begin().ok()); });
  while (target_.registrations_refused() < 3) std::this_thread::yield();
  EXPECT_EQ(session_.asked_, 0);
  EXPECT_TRUE(mdc_->reservations()->Preempt(1, 77).done());
  begin.join();
  EXPECT_EQ(session_.asked_, 0);
  EXPECT_THAT(target_.Keys(), ElementsAre(1, 100));
}

// It may be its own, of a registration whose outcome was unknown.
TEST_F(LunPathsTest, AHostThatStaysRegisteredAsksForAnotherKeyAfterAll) {
  ASSERT_TRUE(volume_.luns[0]->reservations()->Register(77).done());
  std::thread begin([&] { EXPECT_TRUE(paths_->Begin().ok()); });
  while (session_.asked_ == 0) std::this_thread::yield();
  EXPECT_GE(target_.registrations_refused(), 5);
  EXPECT_TRUE(mdc_->reservations()->Preempt(1, 77).done());
  begin.join();
}

TEST_F(LunPathsTest, WaitsEndWithTheSession) {
  MakePaths({.soft_timeout_ms = 20});
  ASSERT_TRUE(paths_->Begin().ok());
  target_.SetUnreachable(true);
  target_.Cut("host");
  EXPECT_EQ(ErrnoOf(Write(0, 'l')), ETIMEDOUT);
  const TestInterrupt raised(/*raised=*/true);
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

}  // namespace
}  // namespace reel::client
