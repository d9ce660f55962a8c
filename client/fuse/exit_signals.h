// What a daemon is asked to do by signals: to end, also from within, and to open its log anew. One
// thread waits for it.
//
// Threads: Block before any other thread starts, so that all inherit the mask; Raise from any
// thread.
#pragma once

#include <cstdint>
#include <optional>

namespace reel::client {

class ExitSignals {
 public:
  // Keeps SIGTERM, SIGINT, SIGHUP and our own wish to end for Wait.
  static void Block();
  enum class SignalAction { kEnd, kEndFromWithin, kHangUp };
  // Waits for SIGTERM or SIGINT, for Raise, or for SIGHUP.
  static SignalAction Wait();
  // The same, for so long; nothing: none came.
  static std::optional<SignalAction> WaitFor(std::uint32_t limit_ms);
  // Whether SIGTERM or SIGINT has come that nobody has taken yet.
  static bool EndIsPending();
  static void Raise();
};

}  // namespace reel::client
