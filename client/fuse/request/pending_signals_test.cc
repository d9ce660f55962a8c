#include "client/fuse/request/pending_signals.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace reel::client {
namespace {

TEST(PendingSignals, OnesThatAreNotBlockedCount) {
  const auto self = static_cast<pid_t>(syscall(SYS_gettid));
  sigset_t set, before;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &set, &before);
  pthread_kill(pthread_self(), SIGUSR1);
  EXPECT_FALSE(HasPendingSignal(self, SignalKind::kAny));  // blocked: it interrupts no wait
  EXPECT_FALSE(HasPendingSignal(self, SignalKind::kFatal));
  int number = 0;
  sigwait(&set, &number);
  EXPECT_EQ(number, SIGUSR1);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

TEST(PendingSignals, NobodyHasNone) {
  EXPECT_FALSE(HasPendingSignal(0x3fffffff, SignalKind::kAny));
  // A write-back has no caller: it is never taken for interrupted.
  const PendingSignals none(0, SignalKind::kFatal);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(none.Seen());
}

}  // namespace
}  // namespace reel::client
