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
  if (number == kFromWithin) return SignalAction::kEndFromWithin;
  return number == SIGHUP ? SignalAction::kHangUp : SignalAction::kEnd;
}

void ExitSignals::Raise() {
  kill(getpid(), kFromWithin);
}

}  // namespace reel::client
