#include "mdc/seat/peer_signs.h"

#include "mdc/seat/seat_times.h"

namespace reel::mdc {

void PeerSigns::Note(const PeerAnswer& answer, std::uint64_t asked_ms) {
  if (!answer.said) {
    switch (answer.failure) {
      case PeerFailure::kBroken:
        sign_ = Sign::kGone;
        return;
      case PeerFailure::kSilent:
        if (sign_ != Sign::kGone) sign_ = Sign::kSilent;
        return;
      case PeerFailure::kRefused:
        sign_ = Sign::kWell;
        return;
    }
  }
  const PeerPromise& said = answer.said->promise;
  const bool serves = said.epoch != Epoch(0);
  if (promise_ && said.holder != promise_->holder && !serves) {
    sign_ = Sign::kGone;  // another process is there instead
    return;
  }
  // One that has given the seat up says so in the block, which is not a held one's then. What one
  // has promised holds to its end, also where it promises no more.
  if (serves && said.answer_ms != 0) {
    promise_ = said;
    promise_->until_ms = asked_ms + said.for_ms;
  } else if (!promise_ || said.holder != promise_->holder || said.epoch != promise_->epoch) {
    promise_.reset();
  }
  const bool stuck = promise_ && answer.said->beat_age_ms >= StuckStillMs(promise_->answer_ms);
  sign_ = stuck ? Sign::kStuck : Sign::kWell;
}

std::optional<PeerSuspicion> PeerSigns::Suspicion() const {
  if (!promise_) return std::nullopt;
  switch (sign_) {
    case Sign::kWell:
      break;
    case Sign::kGone:
      return PeerSuspicion{*promise_, GoneStillMs(promise_->beat_ms)};
    case Sign::kSilent:
      return PeerSuspicion{*promise_, SilentStillMs(promise_->answer_ms)};
    case Sign::kStuck:
      return PeerSuspicion{*promise_, StuckStillMs(promise_->answer_ms)};
  }
  return std::nullopt;
}

}  // namespace reel::mdc
