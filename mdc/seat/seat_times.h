// How long what has to do with the seat takes: one formula each. The argument and the worked
// timeline are in docs/failover.md.
//
// `seat_ms` is the term of an active controller: from the sending of a beat that the LUN carried
// out. All hosts count it by CLOCK_BOOTTIME; nobody's clock has to agree with another's about more
// than the length of such a term, within the margin.
#pragma once

#include <algorithm>
#include <cstdint>

namespace reel::mdc {

inline constexpr std::uint32_t kDefaultSeatMs = 1'500;
inline constexpr std::uint32_t kMinSeatMs = 1'000;
inline constexpr std::uint32_t kMaxSeatMs = 60'000;

// So often an active controller beats: five beats may be lost before its term is over.
constexpr std::uint64_t BeatIntervalMs(std::uint64_t seat_ms) {
  return std::max<std::uint64_t>(seat_ms / 6, 1);
}
// A beat that failed is tried again after that.
constexpr std::uint64_t BeatRetryMs(std::uint64_t seat_ms) {
  return std::max<std::uint64_t>(seat_ms / 30, 1);
}
// So often a standby looks.
constexpr std::uint64_t SeatLookMs(std::uint64_t seat_ms) {
  return std::clamp<std::uint64_t>(seat_ms / 15, 1, 100);
}
// Pays for clocks that run at different speeds and are read in whole milliseconds, and for the time
// between an active controller's look at its clock and the execution of what that allowed.
constexpr std::uint64_t SeatMarginMs(std::uint64_t seat_ms) {
  return std::max<std::uint64_t>(seat_ms / 10, 20);
}
// A standby that has seen nothing change for that long may claim the seat.
constexpr std::uint64_t ClaimAfterMs(std::uint64_t seat_ms) {
  return seat_ms + SeatMarginMs(seat_ms);
}
// The term of a controller that has the reservation, and does not serve yet: beats may have to wait
// until the LUNs that it fences meanwhile have answered a reset. On a SAN where that takes longer
// than a term, two controllers would take the seat from each other in turns. The price: when it
// dies before it serves, the next one waits that long.
constexpr std::uint64_t TakingMs(std::uint64_t seat_ms) {
  return std::max<std::uint64_t>(seat_ms, std::min<std::uint64_t>(8 * seat_ms, 15'000));
}
// A beat that takes longer is said: one that takes a term is the end of the controller ...
constexpr std::uint64_t SlowBeatMs(std::uint64_t seat_ms) {
  return seat_ms / 2;
}
// ... with what term that is no more than a third of, in half seconds.
constexpr std::uint64_t TermForBeatMs(std::uint64_t beat_ms) {
  return std::min<std::uint64_t>((3 * beat_ms + 499) / 500 * 500, kMaxSeatMs);
}
// ... and an alarm, for that long.
constexpr std::uint64_t SlowBeatShownMs() {
  return 60'000;
}

// An active controller beats only while its core has moved within that time, ...
constexpr std::uint64_t ProgressLimitMs(std::uint64_t seat_ms) {
  return seat_ms;
}
// ... and one that still recovers, for at most that long.
constexpr std::uint64_t RecoveryLimitMs() {
  return 120'000;
}
// Clients that renew twice in that time or oftener and have all been silent for so long are cut off
// from an active controller, or it from them. However long its term is: nobody works meanwhile.
constexpr std::uint64_t UnheardLimitMs(std::uint64_t seat_ms) {
  return std::clamp<std::uint64_t>(seat_ms, 1'200, 8'000);
}
// A claim without reservations counts only if all of it, from the last look to the end of its
// write, took no longer than that. The same on all hosts, whatever their terms are.
constexpr std::uint64_t ClaimWriteMs() {
  return 250;
}
// And then it waits that long, for writes of others that had looked before it wrote.
constexpr std::uint64_t ClaimWaitMs(std::uint64_t claim_write_ms) {
  return claim_write_ms + std::max<std::uint64_t>(claim_write_ms / 10, 5);
}

// ---- where all LUNs have reservations, and a standby watches ----

// A controller that is watched beats that often, ...
constexpr std::uint64_t WatchedBeatMs(std::uint64_t seat_ms) {
  return std::max<std::uint64_t>(seat_ms / 20, 1);
}
// ... and answers nobody when the last beat that was carried out was sent so long ago.
constexpr std::uint64_t AnswerMs(std::uint64_t seat_ms) {
  return seat_ms / 5;
}
// It promises that for so long from each answer to a standby on, ...
constexpr std::uint64_t PromiseMs(std::uint64_t seat_ms) {
  return 2 * seat_ms;
}
// ... while its beats take no longer than this. Where they do, the promise runs out: on a LUN that
// is slow for all it would be silent most of the time, and has its term to rest on.
constexpr std::uint64_t PromptBeatMs(std::uint64_t answer_ms) {
  return answer_ms / 3;
}
// Who has fenced it serves nobody before that has passed since the last beat may have been sent.
constexpr std::uint64_t AnswersOverMs(std::uint64_t answer_ms) {
  return answer_ms + std::max<std::uint64_t>(answer_ms / 10, 20);
}
// The standby asks it that often, ...
constexpr std::uint64_t PeerAskMs(std::uint64_t seat_ms) {
  return std::clamp<std::uint64_t>(seat_ms / 30, 1, 50);
}
// ... looks at the block that often, ...
constexpr std::uint64_t WatchedLookMs(std::uint64_t seat_ms) {
  return std::clamp<std::uint64_t>(seat_ms / 30, 1, 50);
}
// ... and that often where there is a sign that it is gone.
constexpr std::uint64_t SuspectLookMs(std::uint64_t seat_ms) {
  return std::clamp<std::uint64_t>(seat_ms / 60, 1, 25);
}
// An answer that does not come in that time is a sign.
constexpr std::uint64_t PeerSilentMs(std::uint64_t seat_ms) {
  return std::min<std::uint64_t>(seat_ms / 6, 1'000);
}
// The block has to have stood still for so long: where the process has gone (its connection broke,
// or another process answers), ...
constexpr std::uint64_t GoneStillMs(std::uint64_t beat_ms) {
  return 3 * beat_ms;
}
// ... where nothing comes, ...
constexpr std::uint64_t SilentStillMs(std::uint64_t answer_ms) {
  return answer_ms;
}
// ... and where it answers the standby, but its beats do not end: it lost the SAN, or its core
// stands still. It answers no client by then.
constexpr std::uint64_t StuckStillMs(std::uint64_t answer_ms) {
  return answer_ms + answer_ms / 2;
}
// A standby whose own look takes longer than that knows only that the LUN is slow.
constexpr std::uint64_t PromptLookMs(std::uint64_t answer_ms) {
  return answer_ms / 4;
}

}  // namespace reel::mdc
