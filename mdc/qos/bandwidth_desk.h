// Guaranteed bandwidth as the core has it in memory: the book of what is reserved, a dealer for
// each LUN set that somebody has reserved on, and the deals that sessions were told.
//
// Nothing is dealt while nothing is reserved. Then sessions are told nothing, and say nothing.
// Invariant: a session is told a deal whole, with all sets and all shares that are its own; one
// whose stream is new is told again. Threads: the core thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "mdc/qos/bandwidth_book.h"
#include "mdc/qos/set_dealer.h"
#include "proto/admin.pb.h"
#include "proto/session.pb.h"
#include "volume/bandwidth/lun_sets.h"

namespace reel::mdc {

class BandwidthDesk {
 public:
  static constexpr std::uint64_t kRoundMs = 200;
  // A deal is repeated so often where nothing changes, …
  static constexpr std::uint64_t kRepeatMs = 2'000;
  // … and kept for so long without another one: longer than any failover. It stops nobody.
  static constexpr std::uint64_t kValidMs = 60'000;
  static constexpr int kMostShares = 4096;  // in one Traffic

  // A session that has a stream and knows deals.
  struct Peer {
    SessionId session;
    std::string client;  // by which name it may have a reservation
  };
  using Deals = std::vector<std::pair<SessionId, v1::Deal>>;

  BandwidthBook& book() { return book_; }
  const BandwidthBook& book() const { return book_; }

  // Deals, where that is due: what sessions are to be told.
  Deals Round(const VolumeDescriptor& descriptor, const std::vector<Peer>& peers,
              std::uint64_t now_ms);
  // False: it says more than it may.
  bool OnTraffic(SessionId session, const v1::Traffic& traffic, std::uint64_t now_ms);
  // The streams that the session says are closed, and that this epoch has told it of.
  std::vector<std::uint64_t> Closed(SessionId session, const v1::Traffic& traffic) const;
  // Its stream is new, or it is gone.
  void Forget(SessionId session) { told_.erase(session); }

  // The mover has sent so much to the set. It had better wait for so long before it sends more.
  std::uint64_t NoteMoved(const LunSetId& set, std::uint64_t bytes, std::uint64_t now_ms);

  // `hosts`: by session.
  void Describe(const VolumeDescriptor& descriptor, const std::map<SessionId, std::string>& hosts,
                v1::BandwidthReply& reply) const;

 private:
  struct SetState {
    SetDealer dealer;
    double capacity = 0;
    std::uint64_t request_bytes = 0;
    double moved = 0;  // by the mover, since the last round
    std::uint64_t moved_ms = 0;
  };
  struct Told {
    v1::Deal deal;
    std::uint64_t at_ms = 0;
  };
  void ChooseSets(const VolumeDescriptor& descriptor);
  void DealSet(const LunSetId& id, SetState& set, const std::vector<Peer>& peers,
               std::uint64_t now_ms);
  v1::Deal DealFor(SessionId session) const;
  // The reservation that the session's own requests have; 0: none.
  std::uint64_t ClaimOf(const Peer& peer, const LunSetId& set) const;

  BandwidthBook book_;
  std::map<LunSetId, SetState> sets_;
  std::map<SessionId, Told> told_;
  std::uint64_t dealt_ms_ = 0;
};

}  // namespace reel::mdc
