// In which order a client tries a volume's controllers, when it does not know which is active.
//
// In turn, beginning with the one that served last; but one that a standby names goes first, and
// one that did not answer in time is left out of some rounds, so that a host that is gone does not
// hold up the way to the others; when all would be, none is. Threads: externally synchronised.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace reel::client {

// A try that took longer than this found nobody there.
constexpr std::uint64_t SlowTryMs() {
  return 300;
}
// Rounds of tries follow each other after 100 ms, then twice that each time, at most 1 s. Where
// there are several controllers, another one is about to serve: for a second or so, rounds follow
// each other at once, then every 200 ms.
constexpr std::uint64_t SearchBackoffMs(std::size_t controllers, std::uint32_t rounds) {
  constexpr std::uint32_t kQuickRounds = 40;
  if (controllers > 1) return rounds < kQuickRounds ? 25 : 200;
  return std::min<std::uint64_t>(std::uint64_t{100} << std::min(rounds, 10U), 1'000);
}

class MdcSearch {
 public:
  explicit MdcSearch(std::vector<std::string> addresses) {
    for (std::string& address : addresses) places_.push_back({std::move(address), 0});
  }

  std::size_t size() const { return places_.size(); }

  // The next to try; empty: all have been, and the caller waits before the next round.
  std::string Next() {
    if (!named_.empty()) return std::exchange(named_, {});
    const auto is_out = [](const Place& place) { return place.rounds_out > 0; };
    if (tried_ == 0 && std::all_of(places_.begin(), places_.end(), is_out)) {
      for (Place& place : places_) place.rounds_out = 0;
    }
    while (tried_ < places_.size()) {
      Place& place = places_[(first_ + tried_++) % places_.size()];
      if (place.rounds_out == 0) return place.address;
      --place.rounds_out;
    }
    tried_ = 0;
    last_named_.clear();
    return {};
  }
  // It failed, after so long; `active` is whom it named.
  void Failed(const std::string& address, std::uint64_t took_ms, const std::string& active) {
    for (Place& place : places_) {
      if (place.address == address && took_ms > SlowTryMs() && places_.size() > 1) {
        place.rounds_out = kRoundsOut;
      }
    }
    // Once a round: two that name each other are not believed for ever.
    if (!active.empty() && active != address && active != last_named_) named_ = active;
    if (!active.empty()) last_named_ = active;
  }
  // It serves, or is said to by somebody who knows: the first from now on.
  void Prefer(const std::string& address) {
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (places_[i].address != address) continue;
      first_ = i;
      places_[i].rounds_out = 0;
    }
    tried_ = 0;
    named_.clear();
    last_named_.clear();
  }

 private:
  // Some half second of quick rounds: as long as a try there costs.
  static constexpr int kRoundsOut = 24;
  struct Place {
    std::string address;
    int rounds_out;
  };
  std::vector<Place> places_;
  std::size_t first_ = 0;
  std::size_t tried_ = 0;  // in this round
  std::string named_, last_named_;
};

}  // namespace reel::client
