// Finding the controller that serves a volume, where there may be several: at mount, and when the
// one that did is silent.
#include <cerrno>
#include <chrono>

#include "absl/strings/str_cat.h"
#include "client/session/session_impl.h"
#include "proto/status.h"
#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

// A mount waits that long for a standby to become active, and no longer.
constexpr std::uint64_t kFirstSearchMs = 10'000;

}  // namespace

absl::Status SessionImpl::FirstRegistration(std::vector<std::string>& refusals) {
  const std::uint64_t until_ms = clock_.NowMs() + kFirstSearchMs;
  absl::Status last;
  bool standby = false;  // there is one: also when it is left out of a round
  for (std::uint32_t rounds = 0;; ++rounds) {
    refusals.clear();
    for (;;) {
      std::string address, active;
      {
        MutexLock lock(mutex_);
        address = search_.Next();
      }
      if (address.empty()) break;
      const std::uint64_t began_ms = clock_.NowMs();
      last = TryRegister(address, &active);
      if (last.ok()) return last;
      standby = standby || ErrnoOf(last) == EREMOTE;
      refusals.push_back(absl::StrCat(address, ": ", last.message()));
      MutexLock lock(mutex_);
      search_.Failed(address, clock_.NowMs() - began_ms, active);
    }
    if (!standby || clock_.NowMs() >= until_ms) return last;
    MutexLock lock(mutex_);
    if (phase_.ending()) return last;
    backoff_.WaitFor(mutex_,
                     std::chrono::milliseconds(SearchBackoffMs(options_.mdcs.size(), rounds)));
  }
}

// A controller whose host lost power, or that stands still, ends no stream. Who says that it serves
// the volume in a later epoch is right: only one does.
void SessionImpl::ScoutMain() {
  for (;;) {
    std::string serving;
    std::uint64_t epoch = 0;
    {
      MutexLock lock(mutex_);
      const std::uint64_t wait_ms = queue_.AnySent() ? ScoutMs() : SilenceMs() / 2;
      if (!phase_.ending()) scout_wake_.WaitFor(mutex_, std::chrono::milliseconds(wait_ms));
      if (phase_.ending()) return;
      const std::uint64_t heard_ms = contact_.heard_ms();
      if (!link_.live() || !queue_.AnySent() || clock_.NowMs() < heard_ms + SilenceMs()) continue;
      serving = link_.address();
      epoch = link_.epoch();
    }
    for (const std::string& address : options_.mdcs) {
      if (address == serving) continue;
      const absl::StatusOr<MdcPlace> place = connector_.Where(address, options_.volume);
      if (!place.ok() || !place->here || place->epoch <= epoch) continue;
      if (!place->volume.empty() && place->volume != descriptor_.volume.ToBytes()) continue;
      MutexLock lock(mutex_);
      if (!link_.live() || link_.epoch() != epoch || link_.stream() == nullptr) break;
      spdlog::warn("volume {}: {} serves it now, in epoch {}", options_.volume, address,
                   place->epoch);
      search_.Prefer(address);
      link_.stream()->Cancel();
      break;
    }
  }
}

}  // namespace reel::client
