// The dumps of the metadata that are valid (docs/backup.md), and the way back of the blocks that
// have waited for those that no longer are.
//
// Invariants:
//   1. At most two are valid: the one that is kept, and a newer one that has begun.
//   2. A block that was freed while dump n was the newest is named by no later one. So it waits
//      until the oldest valid dump is later than n, or until there is none.
//   3. What waits is looked through from the first key on whenever a dump ends to be valid, and at
//      the start of an epoch; in steps, of which `next` says where they go on.
// Threads: the core thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "mdc/space/allocator.h"
#include "proto/records.pb.h"

namespace reel::mdc {

class DumpPins {
 public:
  using Dump = v1::VolumeRecord::Dump;
  // For so long, after the dumps could not be voided, that is not tried again.
  static constexpr std::uint64_t kRetryMs = 5'000;

  // What the volume record says is valid from now on. `any_waits`: there are blocks that wait.
  void Load(const v1::VolumeRecord& volume, bool any_waits);
  const std::optional<Dump>& kept() const { return kept_; }
  const std::optional<Dump>& begun() const { return begun_; }
  // The newest one; none: nothing has to wait.
  std::optional<DumpPin> pin() const;
  // What was freed while that dump was the newest need not wait any more.
  bool MayFree(std::uint64_t dump) const;

  // ---- the way back -----------------------------------------------------------------------------

  // Where the next step looks; nullopt: all was looked through.
  const std::optional<std::string>& next() const { return next_; }
  // A step has come so far, and has freed blocks in the commit of this number; 0: none.
  void Looked(std::optional<std::string> next, Sequence freed);
  // Whether blocks have come back since the last call.
  bool TakeCameBack(Sequence durable);

  // ---- space that somebody needs ----------------------------------------------------------------

  // Whether what waits comes back: else all dumps have to be voided first, which is asked for.
  bool AskForSpace(std::uint64_t now_ms);
  // Somebody waits for that: they are told by TakeCameBack, or when it has failed.
  bool gives_space() const { return asked_ || next_.has_value() || freed_ != Sequence(); }
  // The dumps are to be voided; once for each time that it was asked for.
  bool TakeAsked();
  void VoidFailed(std::uint64_t now_ms);

 private:
  std::optional<Dump> kept_, begun_;
  std::optional<std::string> next_;
  Sequence freed_;  // the last commit that gave blocks back; 0: all are
  bool asked_ = false;
  bool told_ = false;  // … and TakeAsked has said so
  std::uint64_t not_before_ms_ = 0;
};

}  // namespace reel::mdc
