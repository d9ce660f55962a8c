// The heap of a history: what its code allocates lies at the same addresses in every run.
//
// Hash tables of pointers are ordered by addresses, and so what happens next may hang on one: what
// the arguments, an environment or a log take up must not move anything. From BeginHistory on,
// operator new takes memory from a region of its own, at a fixed place. Threads: one.
#pragma once

namespace reel::sim {

// Once in a process. Returns false where there is no room at that place.
bool BeginHistoryHeap();

// While one lives, memory comes from elsewhere: for a log, which not every run writes.
class OtherHeap {
 public:
  OtherHeap();
  ~OtherHeap();
  OtherHeap(const OtherHeap&) = delete;
  OtherHeap& operator=(const OtherHeap&) = delete;

 private:
  const bool before_;
};

}  // namespace reel::sim
