#include "mdc/seat/seat.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "volume/base/coding.h"

namespace reel::mdc {
namespace {

using State = ArbitrationBlock::State;

// Where the reservation keeps others out, a first beat of unknown outcome is written again so
// often.
constexpr int kMaxEntries = 5;

bool IsOf(const Uuid& volume, const SeatLook& look) {
  return look.block.ok() && look.block->volume == volume;
}

}  // namespace

// ---- watching ---------------------------------------------------------------------------------

std::uint64_t SeatWatch::TermMs(const SeatLook& look) const {
  const std::uint64_t said_ms = look.block.ok() ? look.block->seat_ms : options_.seat_ms;
  return std::clamp<std::uint64_t>(said_ms, options_.seat_ms, kMaxSeatMs);
}

// Who is not meant takes an offer only when nobody else has, for a term.
bool SeatWatch::IsOfferedToThis(const SeatLook& look) const {
  if (!look.block->successor.is_nil()) return look.block->successor == options_.holder;
  return look.block->address != options_.address || look.block->host != options_.host;
}

SeatWatch::Verdict SeatWatch::Consider(const SeatLook& look) {
  const bool same = unchanged_since_ms_ && look.bytes == bytes_ && look.reserved_by == reserved_by_;
  if (!same) {
    changes_ += unchanged_since_ms_ ? 1 : 0;
    // (A claim that failed is a block of one beat.)
    if (IsOf(options_.volume, look) && look.block->state == State::kHeld &&
        look.block->holder != options_.holder && look.block->beat > 1) {
      stands_back_ = false;
    }
    bytes_ = look.bytes;
    reserved_by_ = look.reserved_by;
    unchanged_since_ms_ = look.ended_ms;
  }
  // A program that knows more than this one is, or was, at work there.
  if (absl::IsUnimplemented(look.block.status())) return Verdict::kHeld;
  // Another volume's, on a LUN of this one: of a controller that does not know yet that its volume
  // is gone, or what was left of it on its way. It is nobody's when that is over.
  const bool none = absl::IsNotFound(look.block.status());
  const bool given_up = IsOf(options_.volume, look) && look.block->state != State::kHeld;
  // Somebody may have got the reservation, and not yet written it down.
  const Epoch written_down = IsOf(options_.volume, look) ? look.block->epoch : Epoch(0);
  const bool being_taken = look.reserved_by != 0 && look.last_reserved > written_down;
  // (What the block says may be such a term already.)
  const std::uint64_t term_ms =
      std::max(TermMs(look), being_taken ? TakingMs(options_.seat_ms) : std::uint64_t{0});
  const std::uint64_t claim_after_ms = ClaimAfterMs(term_ms) * (stands_back_ ? 2 : 1);
  const bool expired = look.began_ms >= *unchanged_since_ms_ + claim_after_ms;
  const bool for_others =
      given_up && look.block->state == State::kOffered && !IsOfferedToThis(look);
  if ((none || given_up) && !being_taken && !for_others) return Verdict::kFree;
  return expired ? Verdict::kExpired : Verdict::kHeld;
}

// Where another one takes the seat, or has just got it and fences, nothing is said of that one.
std::optional<std::uint64_t> SeatWatch::StandsStill(const SeatLook& look,
                                                    const PeerSuspicion& holder) const {
  const PeerPromise& promise = holder.promise;
  const bool is_its = IsOf(options_.volume, look) && look.block->state == State::kHeld &&
                      look.block->holder == promise.holder && look.block->epoch == promise.epoch;
  if (!is_its || look.reserved_by == 0 || look.last_reserved > promise.epoch) return std::nullopt;
  if (stands_back_ || !unchanged_since_ms_ || look.bytes != bytes_) return std::nullopt;
  if (look.ended_ms - look.began_ms > PromptLookMs(promise.answer_ms)) return std::nullopt;
  if (look.began_ms < *unchanged_since_ms_ + holder.still_ms) return std::nullopt;
  return unchanged_since_ms_;
}

// ---- taking -----------------------------------------------------------------------------------

void Seat::Begin(Epoch epoch, bool claimed, std::uint64_t term_ms) {
  const bool stopped = block_.stopped, maintenance = block_.maintenance;
  block_ = {.state = State::kHeld,
            .volume = options_.volume,
            .epoch = epoch,
            .beat = 1,
            .holder = options_.holder,
            .machine = options_.machine,
            .claimed = claimed,
            .seat_ms = static_cast<std::uint32_t>(term_ms),
            .host = options_.host,
            .address = options_.address};
  block_.stopped = stopped;
  block_.maintenance = maintenance;
  if (options_.protocol.newest < 2) return;  // which said nothing of versions
  block_.protocol_oldest = static_cast<std::uint16_t>(options_.protocol.oldest);
  block_.protocol_newest = static_cast<std::uint16_t>(options_.protocol.newest);
  block_.program = options_.program;
}

void Seat::Inherit(const SeatLook& look, bool stays_stopped) {
  const bool known = IsOf(options_.volume, look);
  block_.maintenance = known && look.block->maintenance;
  block_.stopped = known && look.block->stopped && stays_stopped;
}

absl::Status Seat::Claim(const SeatLook& look, Epoch epoch, bool claimed) {
  const std::uint64_t began_ms = clock_.NowMs();
  const auto found = port_.Read();
  if (!found.ok()) return found.status();
  if (*found != look.bytes) return absl::AbortedError("another controller is taking the seat");
  Begin(epoch, claimed, options_.seat_ms);
  const std::uint64_t until_ms = clock_.NowMs() + block_.seat_ms;
  const ArbitrationResult written = port_.Write(block_);
  if (!written.done()) return absl::UnavailableError(written.status.message());
  if (clock_.NowMs() - began_ms > options_.claim_write_ms) {
    return absl::AbortedError("the seat LUN answers too slowly for a claim");
  }
  port_.Wait(ClaimWaitMs(options_.claim_write_ms));
  const auto left = port_.Read();
  if (!left.ok()) return left.status();
  if (*left != EncodeArbitration(block_)) {
    return absl::AbortedError("another controller has taken the seat");
  }
  if (clock_.NowMs() >= until_ms) {
    return absl::AbortedError("the term was over before the claim was done");
  }
  beaten_ms_.store(until_ms - block_.seat_ms, std::memory_order_release);
  until_ms_.store(until_ms, std::memory_order_release);
  return absl::OkStatus();
}

absl::Status Seat::Enter(Epoch epoch, bool claimed) {
  Begin(epoch, claimed, TakingMs(options_.seat_ms));
  ArbitrationResult result;
  for (int i = 0; i < kMaxEntries; ++i) {
    result = MayWrite(/*entering=*/true);
    if (result.outcome == ArbitrationOutcome::kLost) break;
    if (!result.done()) continue;
    const std::uint64_t until_ms = clock_.NowMs() + block_.seat_ms;
    result = port_.Write(block_);
    if (result.outcome == ArbitrationOutcome::kLost) break;
    ++block_.beat;
    if (!result.done() || clock_.NowMs() >= until_ms) continue;
    beaten_ms_.store(until_ms - block_.seat_ms, std::memory_order_release);
    until_ms_.store(until_ms, std::memory_order_release);
    return absl::OkStatus();
  }
  return result.outcome == ArbitrationOutcome::kLost
             ? absl::AbortedError(result.status.message())
             : absl::UnavailableError(result.status.message());
}

// ---- holding ----------------------------------------------------------------------------------

ArbitrationResult Seat::Lose(std::string why) {
  until_ms_.store(0, std::memory_order_release);
  return {ArbitrationOutcome::kLost, absl::AbortedError(std::move(why))};
}

ArbitrationResult Seat::MayWrite(bool entering) {
  const auto bytes = port_.Read();
  if (absl::IsFailedPrecondition(bytes.status())) {
    return Lose(std::string(bytes.status().message()));
  }
  if (!bytes.ok()) return {ArbitrationOutcome::kNotDone, bytes.status()};
  const auto found = DecodeArbitration(AsBytes(*bytes));
  if (absl::IsUnimplemented(found.status())) return Lose(std::string(found.status().message()));
  // Damaged, or as it was before the volume's first controller: nobody else's.
  if (!found.ok()) return {ArbitrationOutcome::kDone, {}};
  if (found->volume != options_.volume) {
    // Left from the volume that was here before; or its controller is at work here, too.
    if (entering) return {ArbitrationOutcome::kDone, {}};
    return Lose(absl::StrCat("the controller at ", found->address, " (", found->host,
                             ") writes to the seat LUN for volume ", found->volume.ToString()));
  }
  const bool own = found->epoch == block_.epoch && found->holder == options_.holder;
  // What an earlier holder had sent may land late. It is over, and its word worth nothing.
  if (own || found->epoch < block_.epoch) return {ArbitrationOutcome::kDone, {}};
  return Lose(absl::StrCat("the controller at ", found->address, " (", found->host,
                           ") has taken it, in epoch ", found->epoch.value()));
}

ArbitrationResult Seat::Renew() {
  const std::string over = absl::StrCat("its term of ", block_.seat_ms, " ms is over");
  if (!Holds(clock_.NowMs())) return Lose(over);
  if (ArbitrationResult may = MayWrite(); !may.done()) return may;
  const std::uint64_t began_ms = clock_.NowMs();
  if (!Holds(began_ms)) return Lose(over);
  // A shorter term than the last beat gave begins before anybody can have read of it.
  const std::uint64_t ends_ms = began_ms + block_.seat_ms;
  if (ends_ms < until_ms()) until_ms_.store(ends_ms, std::memory_order_release);
  ++block_.beat;
  ArbitrationResult result = port_.Write(block_);
  if (result.outcome == ArbitrationOutcome::kLost)
    return Lose(std::string(result.status.message()));
  const std::uint64_t ended_ms = clock_.NowMs();
  // Too late, a standby may have looked before it was there.
  if (!Holds(ended_ms)) return Lose(over);
  if (result.done()) {
    beat_took_ms_.store(ended_ms - began_ms, std::memory_order_relaxed);
    beaten_ms_.store(began_ms, std::memory_order_release);
    until_ms_.store(ends_ms, std::memory_order_release);
  }
  return result;
}

PeerSaid Seat::Promise() {
  const std::uint64_t answer_ms = AnswerMs(options_.seat_ms), for_ms = PromiseMs(options_.seat_ms);
  const bool promises = beat_took_ms_.load(std::memory_order_relaxed) <= PromptBeatMs(answer_ms);
  const std::uint64_t last_ms = beaten_ms();  // before the clock
  const std::uint64_t now_ms = clock_.NowMs();
  // Never back, whoever of two was held up.
  std::uint64_t until_ms = promised_until_ms_.load(std::memory_order_seq_cst);
  while (promises && until_ms < now_ms + for_ms &&
         !promised_until_ms_.compare_exchange_weak(until_ms, now_ms + for_ms)) {
  }
  return {.promise = {.holder = options_.holder,
                      .epoch = epoch(),
                      .answer_ms = promises ? answer_ms : 0,
                      .beat_ms = WatchedBeatMs(options_.seat_ms),
                      .for_ms = for_ms},
          .beat_age_ms = now_ms - std::min(now_ms, last_ms)};
}

ArbitrationResult Seat::GiveUp(const SeatFarewell& farewell) {
  const std::uint64_t until_ms = until_ms_.exchange(0, std::memory_order_acq_rel);
  if (ArbitrationResult may = MayWrite(); !may.done()) return may;
  // Who finds a seat free does not wait: this word must not come after another one's claim.
  if (clock_.NowMs() >= until_ms) return Lose("its term is over");
  ++block_.beat;
  block_.state = farewell.state;
  block_.stopped = block_.stopped || farewell.stopped;
  block_.successor = farewell.successor;
  return port_.Write(block_);
}

}  // namespace reel::mdc
