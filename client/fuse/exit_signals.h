// What a daemon is asked to do by signals: to end, also from within, and to open its log anew. One
// thread waits for it.
//
// Threads: Block before any other thread starts, so that all inherit the mask; Raise from any
// thread.
#pragma once

namespace reel::client {

class ExitSignals {
 public:
  // Keeps SIGTERM, SIGINT, SIGHUP and our own wish to end for Wait.
  static void Block();
  enum class SignalAction { kEnd, kEndFromWithin, kHangUp };
  // Waits for SIGTERM or SIGINT, for Raise, or for SIGHUP.
  static SignalAction Wait();
  static void Raise();
};

}  // namespace reel::client
