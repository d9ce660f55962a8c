// Whether batches that were applied are to be made durable now, or may wait for the next tick.
//
// Invariant: after a batch in haste, and after Ask, the next Take says yes, once. Threads: the core
// thread.
#pragma once

namespace reel::mdc {

// When a batch is to be durable: as soon as possible, or when somebody waits for it, but with the
// next tick.
enum class Haste { kNow, kWhenAsked };

class SyncWish {
 public:
  void Applied(Haste haste) { (haste == Haste::kNow ? now_ : when_asked_) = true; }
  // A sync is wanted, also where no batch was applied: something goes on behind it.
  void Ask() { now_ = true; }
  // Whatever was applied may wait no longer.
  void AskForAll() { now_ = now_ || when_asked_; }
  // A sync is to begin. `asked`: somebody waits for what may wait.
  bool Take(bool asked) {
    if (!now_ && !(when_asked_ && asked)) return false;
    now_ = when_asked_ = false;
    return true;
  }

 private:
  bool now_ = false;
  bool when_asked_ = false;  // there are batches that are not durable, and nobody was in haste
};

}  // namespace reel::mdc
