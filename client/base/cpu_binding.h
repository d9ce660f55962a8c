// Which CPU a thread runs on: bound to one, or wherever the process may run.
//
// A thread starts with the binding of the one that started it, so whoever starts threads while it
// is bound lets them Forget that first. Threads: each method is about the calling thread.
#pragma once

namespace reel::client {

class CpuBinding {
 public:
  // Notes where the process may run. Called before any thread is bound; later calls do nothing.
  static void Learn();
  // Does nothing where the process may not run on that CPU, or the CPU is off.
  static void BindTo(int cpu);
  static void Release();
  // The same for a thread that has just started.
  static void Forget();
};

}  // namespace reel::client
