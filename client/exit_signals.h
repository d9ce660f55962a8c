// The end of a daemon: one thread waits until somebody asks for it, by a signal or from within.
//
// Threads: Block before any other thread starts, so that all inherit the mask; Raise from any
// thread.
#pragma once

namespace reel::client {

class ExitSignals {
 public:
  // Keeps SIGTERM, SIGINT, SIGHUP and our own wish to end for Wait.
  static void Block();
  // Waits; true when an outside signal asked for the end, false when Raise did.
  static bool Wait();
  static void Raise();
};

}  // namespace reel::client
