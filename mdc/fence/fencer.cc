#include "mdc/fence/fencer.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/base/fence_times.h"
#include "spdlog/spdlog.h"
#include "volume/base/env.h"
#include "volume/base/thread.h"
#include "volume/format/reservation_key.h"
#include "volume/lun/lun_fault.h"
#include "volume/scsi/lun_times.h"

namespace reel::mdc {
namespace {

using Result = ReservationResult::Outcome;

// From a LUN in any state to ours; more means that somebody else changes it all the time.
constexpr int kMaxSteps = 64;
constexpr int kMaxTries = 4;

bool IsPathLost(const absl::Status& status) {
  const LunFault fault = FaultOf(status);
  return fault == LunFault::kClosed || fault == LunFault::kUnknown;
}

}  // namespace

bool Fencer::View::Has(std::uint64_t key) const {
  return key != 0 && std::find(keys.begin(), keys.end(), key) != keys.end();
}

Fencer::Fencer(OpenVolume& volume) : volume_(&volume) {
  Describe();
}

// A LUN keeps its state from map to map, wherever it stands.
void Fencer::Describe() {
  std::map<const Lun*, LunState> known;
  for (const LunState& state : states_) {
    if (!state.first) known.emplace(state.lun, state);
  }
  states_.clear();
  ids_.clear();
  used_ = 0;
  std::map<const Lun*, std::size_t> firsts;
  for (const Pool& pool : volume_->descriptor.pools) {
    for (const StripeSet& set : pool.sets) {
      for (const LunEntry& entry : set.luns) {
        const std::size_t index = states_.size();
        if (index == volume_->luns.size()) return;
        Lun* const lun = volume_->luns[index].get();
        const auto [first, is_new] = firsts.emplace(lun, index);
        const auto before = known.find(lun);
        LunState& state = states_.emplace_back();
        if (is_new && before != known.end()) state = before->second;
        ids_.push_back(entry.lun);
        state.lun = lun;
        state.metadata = (pool.flags & Pool::kMetadata) != 0;
        state.data = (pool.flags & Pool::kData) != 0;
        if (!is_new) {
          state.first = first->second;
        } else if (before == known.end()) {
          state.reservations = lun->reservations();
          const bool usable = state.reservations != nullptr &&
                              !absl::IsUnimplemented(state.reservations->ReadKeys().status());
          if (!usable) state.reservations = nullptr;
        }
        if (states_[first->second].reservations != nullptr) ++used_;
      }
    }
  }
}

absl::Status Fencer::TakeMap(OpenVolume& volume, std::uint64_t* quarantine_ms) {
  const bool had_any = any();
  OpenVolume* const before = std::exchange(volume_, &volume);
  const std::vector<LunState> old = states_;
  const auto is_old = [&](const LunState& state) {
    return std::ranges::any_of(old, [&](const LunState& one) { return one.lun == state.lun; });
  };
  Describe();
  absl::Status status;
  if (!had_any && any()) {
    status = absl::FailedPreconditionError(
        "the volume's LUNs have no reservations, and its sessions no keys; a LUN with reservations "
        "would not let them write. Make a volume of its own of such LUNs");
  }
  for (std::size_t lun = 0; lun < states_.size() && status.ok(); ++lun) {
    if (states_[lun].reservations == nullptr || is_old(states_[lun])) continue;
    status = Hold(lun, /*reopen=*/true, quarantine_ms);
  }
  const std::vector<LunState> taken = states_;
  if (!status.ok()) {
    volume_ = before;
    Describe();
  }
  // What has gone, or was taken for nothing.
  for (const std::vector<LunState>* list : {&old, &taken}) {
    for (LunState state : *list) {
      const bool stays =
          std::ranges::any_of(states_, [&](const LunState& one) { return one.lun == state.lun; });
      if (stays || state.reservations == nullptr || state.key == 0) continue;
      (void)state.reservations->Clear(state.key);
    }
  }
  return status;
}

std::uint64_t Fencer::keyless_quarantine_ms() const {
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const LunState& state = states_[i];
    const bool keyless = state.data && state.reservations == nullptr && !state.first;
    if (keyless && volume_->luns[i]->executes_late()) {
      return QuarantineMs();
    }
  }
  return 0;
}

// ---- what a LUN says --------------------------------------------------------------------------

absl::StatusOr<Fencer::View> Fencer::Look(std::size_t lun) {
  Reservations& reservations = *states_[lun].reservations;
  auto registrations = reservations.ReadKeys();
  if (!registrations.ok()) return registrations.status();
  const auto holder = reservations.ReadHolder();
  if (!holder.ok()) return holder.status();
  if (holder->has_value() && !(*holder)->write_exclusive_registrants_only) {
    return absl::FailedPreconditionError(
        absl::StrCat(volume_->luns[lun]->name(), ": key ", KeyText((*holder)->key),
                     " holds a reservation that is not ReelFS's; if nothing else uses the LUN, "
                     "clear it with reel-label unreserve"));
  }
  return View{.keys = std::move(registrations->keys),
              .holder = holder->has_value() ? (*holder)->key : 0};
}

absl::StatusOr<Fencer::View> Fencer::LookAnew(std::size_t lun, bool reopen) {
  auto view = Look(lun);
  if (view.ok() || !reopen || !IsPathLost(view.status())) return view;
  if (absl::Status s = volume_->luns[lun]->Reopen(); !s.ok()) return s;
  states_[lun].key = 0;  // the old path's
  return Look(lun);
}

bool Fencer::IsHeld(const LunState& state, const View& view) const {
  return view.Has(state.key) && view.holder == state.key;
}

absl::Status Fencer::CheckOwners(std::size_t lun, const View& view) const {
  const std::string& name = volume_->luns[lun]->name();
  for (const std::uint64_t key : view.keys) {
    const auto parts = PartsOfKey(volume_->descriptor.volume, key);
    if (!parts) {
      return absl::FailedPreconditionError(
          absl::StrCat(name, ": key ", KeyText(key), " of something else than this volume is ",
                       view.holder == key ? "the reservation's holder" : "registered",
                       " there; if nothing else uses the LUN, clear it with reel-label unreserve"));
    }
    if (parts->controller && parts->epoch > epoch_) {
      return absl::FailedPreconditionError(absl::StrCat(name, ": a controller of a later epoch (",
                                                        parts->epoch.value(), " after ",
                                                        epoch_.value(), ") has taken the volume"));
    }
  }
  return absl::OkStatus();
}

// ---- taking -----------------------------------------------------------------------------------

ReservationResult Fencer::RegisterAnew(LunState& state, const View& view) {
  do {
    state.key = MakeControllerKey(volume_->descriptor.volume, epoch_,
                                  static_cast<std::uint16_t>(RandomU64()));
  } while (view.Has(state.key));
  ReservationResult result = state.reservations->Register(state.key);
  // Where it was done after all, the next one is told of a conflict, and Adopt takes it away: of
  // several paths to a device only some may have it.
  if (!result.done()) state.key = 0;
  return result;
}

// The path has a key: of a try whose outcome was unknown, or, where the kernel keeps the path, of
// this host's last controller, which is dead. The holder's is kept, so that no moment passes
// without a reservation; another one is replaced. That comes first: who asks to take away a key
// that the path does not have is told of a conflict, at once. A RESERVE by a path of a multipath
// device that has none ends with LIO as CHECK CONDITION, which the kernel does not tell from a unit
// attention, so that it is sent again and again, by each path.
ReservationResult Fencer::Adopt(LunState& state, const View& view) const {
  state.key = 0;
  ReservationResult result{.outcome = Result::kNotDone,
                           .status = absl::UnavailableError("the path has a key of nobody")};
  const auto is_controllers = [&](std::uint64_t key) {
    const auto parts = PartsOfKey(volume_->descriptor.volume, key);
    return parts && parts->controller;
  };
  std::set<std::uint64_t> others(view.keys.begin(), view.keys.end());  // one a path, by multipath
  others.erase(view.holder);
  for (const std::uint64_t key : others) {
    if (!is_controllers(key)) continue;
    result = state.reservations->Unregister(key);
    if (result.done()) return result;
  }
  if (!view.Has(view.holder) || !is_controllers(view.holder)) return result;
  result = state.reservations->Reserve(view.holder);
  if (!result.done()) return result;
  // Paths that were lost when it was registered may be back.
  ReservationResult whole = state.reservations->Register(view.holder);
  if (!whole.done() && whole.outcome != Result::kConflict) return whole;
  state.key = view.holder;
  return result;
}

absl::Status Fencer::Step(LunState& state, const View& view, bool* complete, bool* preempted) {
  ReservationResult result{.outcome = Result::kDone, .status = absl::OkStatus()};
  if (expected_ && view.holder != *expected_ && view.holder != state.key) {
    return absl::AbortedError("another controller is taking the seat");
  }
  if (!view.Has(state.key)) {
    result = RegisterAnew(state, view);
    if (result.outcome == Result::kConflict) {
      result = Adopt(state, view);
      *preempted = true;  // what was sent under that key may still be executing
    }
  } else if (view.holder == 0) {
    result = state.reservations->Reserve(state.key);
  } else if (view.holder != state.key) {
    result = state.reservations->Preempt(state.key, view.holder);
    *preempted = *preempted || result.outcome != Result::kConflict;
  } else {
    const auto other = std::find_if(view.keys.begin(), view.keys.end(), [&](std::uint64_t key) {
      const auto parts = PartsOfKey(volume_->descriptor.volume, key);
      return parts && parts->controller && key != state.key;
    });
    *complete = other == view.keys.end();
    if (!*complete) {
      result = state.reservations->Preempt(state.key, *other);
      *preempted = *preempted || result.outcome != Result::kConflict;
    }
  }
  // A conflict means that the view is old: the next one shows who was faster.
  return result.outcome == Result::kConflict ? absl::OkStatus() : result.status;
}

absl::Status Fencer::Drain(LunState& state, std::uint64_t* quarantine_ms) const {
  const ReservationResult reset = state.reservations->ResetLun();
  if (absl::IsUnimplemented(reset.status)) {
    *quarantine_ms = std::max(*quarantine_ms, QuarantineMs());
    return absl::OkStatus();
  }
  return reset.status;
}

absl::Status Fencer::Hold(std::size_t lun, bool reopen, std::uint64_t* quarantine_ms) {
  LunState& state = states_[lun];
  absl::Status problem;
  bool preempted = false;
  int tries = 0;
  for (int step = 0; step < kMaxSteps && tries < kMaxTries; ++step) {
    const auto view = LookAnew(lun, reopen);
    problem = view.status();
    if (problem.ok()) problem = CheckOwners(lun, *view);
    if (absl::IsFailedPrecondition(problem)) return problem;
    bool complete = false;
    if (problem.ok()) problem = Step(state, *view, &complete, &preempted);
    if (complete && preempted) {
      problem = Drain(state, quarantine_ms);
      preempted = !problem.ok();
    }
    if (complete && problem.ok()) return problem;
    if (absl::IsAborted(problem) && FaultOf(problem) == LunFault::kNone) return problem;
    if (!problem.ok()) ++tries;
  }
  if (!problem.ok()) return problem;
  return absl::AbortedError(
      absl::StrCat(volume_->luns[lun]->name(), ": somebody else keeps changing its reservations"));
}

std::size_t Fencer::SeatIndex() const {
  std::size_t index = 0;
  while (volume_->luns[index].get() != &volume_->seat_lun()) ++index;
  return index;
}

bool Fencer::seat_key_rules() const {
  return states_[SeatIndex()].reservations != nullptr;
}

absl::StatusOr<std::uint64_t> Fencer::TakeSeatLun(Epoch epoch, std::uint64_t expected,
                                                  std::uint64_t* quarantine_ms) {
  epoch_ = epoch;
  const std::size_t lun = SeatIndex();
  LunState& state = states_[lun];
  expected_ = expected;
  const absl::Status held = Hold(lun, /*reopen=*/true, quarantine_ms);
  expected_.reset();
  if (held.ok()) return state.key;
  if (absl::IsAborted(held) && state.key != 0) {
    (void)state.reservations->Unregister(std::exchange(state.key, 0));
  }
  return absl::Status(held.code(),
                      absl::StrCat("the reservation cannot be taken: ", held.message()));
}

// ---- fencing ----------------------------------------------------------------------------------

FenceOutcome Fencer::FenceOn(std::size_t lun, const std::vector<std::uint64_t>& victims,
                             bool drain) {
  LunState& state = states_[lun];
  FenceOutcome outcome;
  absl::Status problem;
  for (int tries = 0; tries < kMaxTries; ++tries) {
    auto view = LookAnew(lun, !state.metadata);
    problem = view.status();
    if (problem.ok() && !IsHeld(state, *view)) {
      problem = state.metadata ? absl::UnavailableError(absl::StrCat(volume_->luns[lun]->name(),
                                                                     ": its reservation is lost"))
                               : Hold(lun, /*reopen=*/true, &outcome.quarantine_ms);
      if (problem.ok()) view = Look(lun);
      if (problem.ok()) problem = view.status();
    }
    if (!problem.ok()) continue;
    bool found = false;
    for (const std::uint64_t victim : victims) {
      if (!view->Has(victim)) continue;
      found = drain = true;
      const ReservationResult result = state.reservations->Preempt(state.key, victim);
      // Of a conflict and of what is unknown the next look tells.
      problem = result.status;
    }
    if (found) continue;
    // None of them is registered: what is to come is refused. What came before has to be over.
    if (drain) problem = Drain(state, &outcome.quarantine_ms);
    if (!problem.ok()) continue;
    outcome.done = true;
    return outcome;
  }
  outcome.problem = problem.ok() ? absl::StrCat(volume_->luns[lun]->name(), ": keys come back")
                                 : std::string(problem.message());
  return outcome;
}

FenceOutcome Fencer::Fence(const CoreOutputs::Fence& order) {
  FenceOutcome all{.done = true};
  std::size_t next = 0;
  for (const Pool& pool : volume_->descriptor.pools) {
    for (const StripeSet& set : pool.sets) {
      for (const LunEntry& entry : set.luns) {
        const std::size_t lun = next++;
        if (states_[lun].reservations == nullptr || (order.lun && *order.lun != entry.lun))
          continue;
        const FenceOutcome one = FenceOn(lun, order.victims, order.drain);
        all.quarantine_ms = std::max(all.quarantine_ms, one.quarantine_ms);
        if (one.done) continue;
        // The others all the same: where it can be cut off it is.
        all.done = false;
        all.problem = one.problem;
      }
    }
  }
  return all;
}

absl::Status Fencer::AwaitSent(std::uint64_t* quarantine_ms) {
  const FenceOutcome drained = Fence({.id = FenceId(0), .drain = true});
  if (!drained.done) return absl::UnavailableError(drained.problem);
  *quarantine_ms = std::max(*quarantine_ms, drained.quarantine_ms);
  return absl::OkStatus();
}

// ---- watching ---------------------------------------------------------------------------------

absl::Status Fencer::Watch(std::vector<std::uint64_t>& seen, std::vector<std::string>& problems) {
  lost_.clear();
  for (std::size_t lun = 0; lun < states_.size(); ++lun) {
    LunState& state = states_[lun];
    if (state.reservations == nullptr) continue;
    auto view = Look(lun);
    if (!view.ok() || !IsHeld(state, *view)) {
      const absl::Status status = !view.ok() ? view.status() : CheckOwners(lun, *view);
      if (!view.ok() && !IsPathLost(status) && !absl::IsFailedPrecondition(status)) {
        problems.emplace_back(status.message());  // it says nothing, which may pass
        lost_.push_back(ids_[lun]);
        // Nothing but questions is sent to it from here. The next look tells whether that helped.
        if (!state.metadata && FaultOf(status) == LunFault::kInDoubt) {
          (void)volume_->luns[lun]->Reopen();
        }
        continue;
      }
      if (state.metadata || absl::IsFailedPrecondition(status)) {
        return absl::Status(
            absl::StatusCode::kUnavailable,
            absl::StrCat(volume_->luns[lun]->name(), ": this controller holds its reservation no ",
                         "longer", status.ok() ? "" : ": ", status.message()));
      }
      std::uint64_t quarantine_ms = 0;
      if (absl::Status s = Hold(lun, /*reopen=*/true, &quarantine_ms); !s.ok()) {
        problems.push_back(std::string(s.message()));
        lost_.push_back(ids_[lun]);
        continue;
      }
      spdlog::warn("volume {}: {}: the reservation was lost, and is taken again",
                   volume_->descriptor.name, volume_->luns[lun]->name());
      view = Look(lun);
      if (!view.ok()) continue;
    }
    for (const std::uint64_t key : view->keys) {
      const auto parts = PartsOfKey(volume_->descriptor.volume, key);
      if (!parts) {
        problems.push_back(absl::StrCat(volume_->luns[lun]->name(), ": key ", KeyText(key),
                                        " of something else is registered, which can write there"));
      } else if (!parts->controller) {
        seen.push_back(key);
      }
    }
  }
  return absl::OkStatus();
}

void Fencer::Leave() {
  for (std::size_t lun = 0; lun < states_.size(); ++lun) {
    LunState& state = states_[lun];
    if (state.reservations == nullptr) continue;
    const auto view = Look(lun);
    if (!view.ok() || !IsHeld(state, *view)) continue;
    // (On a multipath device it stands there once a path.)
    const auto is_own = [&](std::uint64_t key) { return key == state.key; };
    if (!std::ranges::all_of(view->keys, is_own)) continue;
    if (const ReservationResult cleared = state.reservations->Clear(state.key); !cleared.done()) {
      spdlog::warn("volume {}: the reservation stays: {}", volume_->descriptor.name,
                   std::string(cleared.status.message()));
    }
    state.key = 0;
  }
}

void WaitOut(const std::string& volume, std::uint64_t quarantine_ms) {
  if (quarantine_ms == 0) return;
  spdlog::warn("volume {}: its LUNs cannot be reset: waiting {} ms for what may still be executing",
               volume, quarantine_ms);
  SleepFor(std::chrono::milliseconds(quarantine_ms));
}

std::vector<Fencer::LunKeys> Fencer::List() {
  std::vector<LunKeys> luns(states_.size());
  for (std::size_t lun = 0; lun < states_.size(); ++lun) {
    LunKeys& out = luns[lun];
    if (const auto first = states_[lun].first) {
      out = luns[*first];
      continue;
    }
    if (states_[lun].reservations == nullptr) {
      out.status = absl::UnimplementedError("has no reservations that can be used");
      continue;
    }
    auto view = Look(lun);
    out.status = view.status();
    if (!view.ok()) continue;
    out.registrations.keys = std::move(view->keys);
    out.holder = view->holder;
  }
  return luns;
}

}  // namespace reel::mdc
