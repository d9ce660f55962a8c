#include "client/fuse/exit_signals.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <initializer_list>

namespace reel::client {
namespace {

constexpr int kFromWithin = SIGUSR1;

sigset_t Signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int number : {SIGTERM, SIGINT, SIGHUP, kFromWithin}) sigaddset(&set, number);
  return set;
}

ExitSignals::SignalAction MeaningOf(int number) {
  if (number == kFromWithin) return ExitSignals::SignalAction::kEndFromWithin;
  return number == SIGHUP ? ExitSignals::SignalAction::kHangUp : ExitSignals::SignalAction::kEnd;
}

}  // namespace

void ExitSignals::Block() {
  const sigset_t set = Signals();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

ExitSignals::SignalAction ExitSignals::Wait() {
  const sigset_t set = Signals();
  int number = 0;
  while (sigwait(&set, &number) != 0) {
  }
  return MeaningOf(number);
}

std::optional<ExitSignals::SignalAction> ExitSignals::WaitFor(std::uint32_t limit_ms) {
  const sigset_t set = Signals();
  const timespec limit{.tv_sec = limit_ms / 1'000,
                       .tv_nsec = static_cast<long>(limit_ms % 1'000) * 1'000'000};
  const int number = sigtimedwait(&set, nullptr, &limit);
  if (number < 0) return std::nullopt;
  return MeaningOf(number);
}

bool ExitSignals::EndIsPending() {
  sigset_t pending;
  sigemptyset(&pending);
  sigpending(&pending);
  return sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1;
}

void ExitSignals::Raise() {
  kill(getpid(), kFromWithin);
}

}  // namespace reel::client
