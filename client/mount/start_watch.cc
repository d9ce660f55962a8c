#include "client/mount/start_watch.h"

#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>

#include "client/fuse/exit_signals.h"

namespace reel::client {
namespace {

constexpr std::chrono::milliseconds kLook{100};
// For a session to say goodbye. (Where it cannot, the controller finds that out by its lease.)
constexpr std::uint32_t kGraceMs = 3'000;

}  // namespace

StartWatch::StartWatch(const Background& background, int exit_code)
    : background_(background), exit_code_(exit_code), thread_([this] { Main(); }) {}

StartWatch::~StartWatch() {
  over_ = true;
  thread_.Join();
}

void StartWatch::Main() {
  bool asked = false;
  for (std::uint32_t waited_ms = 0; !over_; SleepFor(kLook)) {
    if (!asked && background_.IsAbandoned()) {
      asked = true;
      kill(getpid(), SIGTERM);
    }
    if (!ExitSignals::EndIsPending()) continue;
    waited_ms += kLook.count();
    if (waited_ms >= kGraceMs) _exit(exit_code_);
  }
}

}  // namespace reel::client
