#include "mdc/seat/peer_signs.h"

#include "mdc/seat/seat_times.h"

namespace reel::mdc {

void PeerSigns::Note(const PeerAnswer& answer) {
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
  // One that has given the seat up says so in the block, which is not a held one's then.
  promise_ = serves && said.answer_ms != 0 ? std::optional(said) : std::nullopt;
  const bool stuck = promise_ && answer.said->beat_age_ms >= StuckStillMs(said.answer_ms);
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
