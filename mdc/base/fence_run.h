// One fence on its way: from the record that announces it to the moment when nothing of the victim
// can reach the LUNs any more. A plain state machine; who acts on it is core_fencing.cc.
//
//   kRecording ─durable─► kDue ─sent─► kFencing ─done─► kQuarantine ─time─► kOver
//                          ▲              │ outcome unknown    (none where the LUNs were reset, and
//                          └───backoff────┘                     where nobody reads any more)
// Without victims: kDue ─time─► kOver.
// Invariant: kOver is reached only by an outcome that says so. Thread rule: plain values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mdc/base/fence_outcome.h"
#include "mdc/base/fence_times.h"
#include "mdc/base/ids.h"
#include "volume/base/types.h"
#include "volume/base/uuid.h"

namespace reel::mdc {

// To take the victims' registrations away, and to wait for what they had sent.
struct FenceOrder {
  FenceId id;
  std::vector<std::uint64_t> victims{};
  std::optional<Uuid> lun{};  // nullopt: on all
  bool drain = true;          // also where no victim is registered
};

struct FenceRun {
  enum class Stage { kRecording, kDue, kFencing, kQuarantine, kOver };

  Stage stage = Stage::kRecording;
  Sequence recorded_at;  // kRecording: what has to be durable first
  // What is to be fenced; no key: time alone ends it.
  std::vector<std::uint64_t> victims;
  std::optional<Uuid> lun;     // nullopt: on all LUNs
  bool drain = true;           // even where none of the keys is registered any more
  FenceId id;                  // of the order under way
  std::uint64_t at_ms = 0;     // kDue: not before; kQuarantine: until
  std::uint64_t until_ms = 0;  // not over before: no fence keeps a client from reading
  std::uint32_t failures = 0;
  std::string problem;  // of the last try

  // What time and durability alone bring about.
  void Advance(Sequence durable, std::uint64_t now_ms) {
    if (stage == Stage::kRecording && recorded_at <= durable) stage = Stage::kDue;
    const bool fenced = stage == Stage::kQuarantine && now_ms >= at_ms;
    const bool needs_none = stage == Stage::kDue && victims.empty();
    if ((fenced || needs_none) && now_ms >= until_ms) stage = Stage::kOver;
  }
  bool IsDue(std::uint64_t now_ms) const {
    return stage == Stage::kDue && !victims.empty() && now_ms >= at_ms;
  }
  void Sent(FenceId order) {
    stage = Stage::kFencing;
    id = order;
  }
  // REQUIRES: kFencing.
  void Ended(const FenceOutcome& outcome, std::uint64_t now_ms) {
    if (outcome.done) {
      problem.clear();
      stage = Stage::kQuarantine;
      at_ms = now_ms + outcome.quarantine_ms;
    } else {
      problem = outcome.problem;
      stage = Stage::kDue;
      drain = true;  // its keys may be gone by now, and what was sent under them not
      at_ms = now_ms + FenceRetryMs(failures++);
    }
  }
};

}  // namespace reel::mdc
