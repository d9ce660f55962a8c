#include "mdc/qos/bandwidth_desk.h"

#include <algorithm>
#include <cmath>

namespace reel::mdc {
namespace {

// Rates that differ by less are the same to a client.
constexpr double kSameRate = 0.03;
constexpr std::uint64_t kMostRequestBytes = 1 << 20;
constexpr std::uint64_t kMoverIdleMs = 3'000;  // then it takes no part

// What a request costs at least: as many bytes as the LUNs would have done meanwhile.
std::uint64_t RequestBytesOf(const v1::CapacityRecord& capacity) {
  if (capacity.rate_requests() == 0) return 0;
  return std::min(kMostRequestBytes, capacity.rate_bytes() / capacity.rate_requests());
}

bool IsSame(std::uint64_t a, std::uint64_t b) {
  const auto x = static_cast<double>(a);
  const auto y = static_cast<double>(b);
  return std::abs(x - y) <= kSameRate * std::max(x, y);
}

bool IsSame(const v1::Deal& a, const v1::Deal& b) {
  if (a.sets_size() != b.sets_size() || a.reserved_size() != b.reserved_size()) return false;
  for (int i = 0; i < a.reserved_size(); ++i) {
    if (a.reserved(i).reservation() != b.reserved(i).reservation()) return false;
  }
  for (int i = 0; i < a.sets_size(); ++i) {
    const v1::Deal::Set& x = a.sets(i);
    const v1::Deal::Set& y = b.sets(i);
    if (x.pool() != y.pool() || x.stripe_set() != y.stripe_set()) return false;
    if (x.request_bytes() != y.request_bytes() || x.shares_size() != y.shares_size()) return false;
    for (int j = 0; j < x.shares_size(); ++j) {
      if (x.shares(j).reservation() != y.shares(j).reservation()) return false;
      if (!IsSame(x.shares(j).rate_bytes(), y.shares(j).rate_bytes())) return false;
    }
  }
  return true;
}

constexpr FlowKey kMoverFlow{SessionId(0), 0};

}  // namespace

std::uint64_t BandwidthDesk::ClaimOf(const Peer& peer, const LunSetId& set) const {
  for (const auto& [id, record] : book_.reservations()) {
    if (record.kind() == v1::RESERVATION_CLIENT && record.name() == peer.client &&
        BandwidthBook::IsOn(record, set)) {
      return id;
    }
  }
  return 0;
}

void BandwidthDesk::ChooseSets(const VolumeDescriptor& descriptor) {
  std::map<LunSetId, SetState> chosen;
  for (const LunSetId& set : DataLunSets(descriptor)) {
    const auto capacity = book_.capacities().find(set);
    if (capacity == book_.capacities().end() || book_.ReservedOn(set) == 0) continue;
    const auto known = sets_.find(set);
    SetState& state = chosen[set];
    if (known != sets_.end()) state = std::move(known->second);
    state.capacity = static_cast<double>(capacity->second.rate_bytes());
    state.request_bytes = RequestBytesOf(capacity->second);
  }
  sets_ = std::move(chosen);
}

void BandwidthDesk::DealSet(const LunSetId& id, SetState& set, const std::vector<Peer>& peers,
                            std::uint64_t now_ms) {
  SetDealer::Claims claims;
  std::vector<SetDealer::Member> members;
  for (const Peer& peer : peers) {
    members.push_back({.key = {peer.session, 0}, .claim = ClaimOf(peer, id)});
  }
  for (const auto& [number, record] : book_.reservations()) {
    if (!BandwidthBook::IsOn(record, id)) continue;
    claims[number] = static_cast<double>(record.rate_bytes());
    if (record.kind() == v1::RESERVATION_CLIENT) continue;
    for (const Peer& peer : peers) {
      if (record.session() != 0 && record.session() != peer.session.value()) continue;
      members.push_back({.key = {peer.session, number}, .claim = number});
    }
  }
  if (set.moved_ms != 0 && now_ms - set.moved_ms < kMoverIdleMs) {
    const auto over_ms = static_cast<std::uint32_t>(std::max<std::uint64_t>(now_ms - dealt_ms_, 1));
    set.dealer.OnReport(kMoverFlow,
                        {.cost_bytes = set.moved, .over_ms = over_ms, .held_ms = over_ms}, now_ms);
    members.push_back({.key = kMoverFlow, .weight = SetDealer::kMoverWeight});
  }
  set.moved = 0;
  set.dealer.Deal(set.capacity, claims, members, now_ms);
}

v1::Deal BandwidthDesk::DealFor(SessionId session) const {
  v1::Deal deal;
  deal.set_report_ms(kRoundMs);
  deal.set_valid_ms(kValidMs);
  for (const auto& [id, set] : sets_) {
    v1::Deal::Set& out = *deal.add_sets();
    out.set_pool(id.pool);
    out.set_stripe_set(id.stripe_set);
    out.set_request_bytes(set.request_bytes);
    const auto& grants = set.dealer.grants();
    for (auto grant = grants.lower_bound({session, 0});
         grant != grants.end() && grant->first.session == session; ++grant) {
      v1::Deal::Share& share = *out.add_shares();
      share.set_reservation(grant->first.reservation);
      share.set_rate_bytes(
          std::max<std::uint64_t>(1, static_cast<std::uint64_t>(grant->second.rate)));
      share.set_burst_bytes(static_cast<std::uint64_t>(grant->second.burst));
    }
  }
  for (const auto& [number, record] : book_.reservations()) {
    if (record.kind() == v1::RESERVATION_CLIENT) continue;
    if (record.session() != 0 && record.session() != session.value()) continue;
    v1::Deal::Reserved& reserved = *deal.add_reserved();
    reserved.set_reservation(number);
    reserved.set_inode(record.inode());
    reserved.set_tree(record.tree());
    reserved.set_stream(record.kind() == v1::RESERVATION_STREAM);
  }
  return deal;
}

BandwidthDesk::Deals BandwidthDesk::Round(const VolumeDescriptor& descriptor,
                                          const std::vector<Peer>& peers, std::uint64_t now_ms) {
  Deals deals;
  if (book_.reservations().empty()) {
    if (sets_.empty() && told_.empty()) return deals;
    sets_.clear();
    for (const Peer& peer : peers) {
      if (told_.contains(peer.session)) deals.emplace_back(peer.session, v1::Deal());
    }
    told_.clear();
    return deals;
  }
  if (now_ms - dealt_ms_ < kRoundMs) return deals;
  ChooseSets(descriptor);
  for (auto& [id, set] : sets_) DealSet(id, set, peers, now_ms);
  dealt_ms_ = now_ms;
  for (const Peer& peer : peers) {
    v1::Deal deal = DealFor(peer.session);
    Told& told = told_[peer.session];
    if (told.at_ms != 0 && now_ms - told.at_ms < kRepeatMs && IsSame(told.deal, deal)) continue;
    told = {deal, now_ms};
    deals.emplace_back(peer.session, std::move(deal));
  }
  return deals;
}

bool BandwidthDesk::OnTraffic(SessionId session, const v1::Traffic& traffic, std::uint64_t now_ms) {
  if (traffic.shares_size() > kMostShares || traffic.closed_size() > kMostShares) return false;
  for (const v1::Traffic::Share& share : traffic.shares()) {
    const auto set = sets_.find({share.pool(), share.stripe_set()});
    if (set == sets_.end()) continue;
    set->second.dealer.OnReport({session, share.reservation()},
                                {.cost_bytes = static_cast<double>(share.cost_bytes()),
                                 .over_ms = traffic.over_ms(),
                                 .held_ms = share.held_ms(),
                                 .busy_ms = share.busy_ms()},
                                now_ms);
  }
  return true;
}

std::vector<std::uint64_t> BandwidthDesk::Closed(SessionId session,
                                                 const v1::Traffic& traffic) const {
  std::vector<std::uint64_t> closed;
  const auto told = told_.find(session);
  if (told == told_.end()) return closed;
  const std::vector<std::uint64_t> streams = book_.StreamsOf(session);
  for (const std::uint64_t id : traffic.closed()) {
    const auto& reserved = told->second.deal.reserved();
    const bool known = std::any_of(reserved.begin(), reserved.end(),
                                   [&](const auto& one) { return one.reservation() == id; });
    const bool own = std::find(streams.begin(), streams.end(), id) != streams.end();
    if (known && own) closed.push_back(id);
  }
  return closed;
}

std::uint64_t BandwidthDesk::NoteMoved(const LunSetId& id, std::uint64_t bytes,
                                       std::uint64_t now_ms) {
  const auto found = sets_.find(id);
  if (found == sets_.end()) return 0;
  SetState& set = found->second;
  set.moved += static_cast<double>(bytes);
  set.moved_ms = now_ms;
  const auto grant = set.dealer.grants().find(kMoverFlow);
  if (grant == set.dealer.grants().end()) return 0;
  return static_cast<std::uint64_t>(static_cast<double>(bytes) * 1000 / grant->second.rate);
}

void BandwidthDesk::Describe(const VolumeDescriptor& descriptor,
                             const std::map<SessionId, std::string>& hosts,
                             v1::BandwidthReply& reply) const {
  const auto host_of = [&](SessionId session) {
    const auto host = hosts.find(session);
    return host == hosts.end() ? std::string() : host->second;
  };
  std::map<std::uint64_t, double> used;  // by reservation
  for (const LunSetId& id : DataLunSets(descriptor)) {
    const Pool& pool = descriptor.pools[id.pool];
    v1::BandwidthReply::Set& out = *reply.add_sets();
    out.set_pool(pool.name);
    out.set_stripe_set(id.stripe_set);
    for (const LunEntry& lun : pool.sets[id.stripe_set].luns) out.add_luns(lun.name);
    const auto capacity = book_.capacities().find(id);
    if (capacity != book_.capacities().end()) {
      out.set_rate_bytes(capacity->second.rate_bytes());
      out.set_rate_requests(capacity->second.rate_requests());
      out.set_reservable_bytes(BandwidthBook::ReservableOf(capacity->second.rate_bytes()));
    }
    out.set_reserved_bytes(book_.ReservedOn(id));
    out.set_others_percent(100);
    const auto set = sets_.find(id);
    if (set == sets_.end()) continue;
    out.set_dealt(true);
    out.set_used_bytes(static_cast<std::uint64_t>(set->second.dealer.used()));
    out.set_others_percent(static_cast<std::uint32_t>(100 * set->second.dealer.pressure()));
    for (const auto& [key, grant] : set->second.dealer.grants()) {
      v1::BandwidthReply::Share& share = *reply.add_shares();
      share.set_session(key.session.value());
      share.set_host(host_of(key.session));
      share.set_pool(pool.name);
      share.set_stripe_set(id.stripe_set);
      std::uint64_t claim = key.reservation;
      if (claim == 0 && key.session != SessionId(0)) {
        claim = ClaimOf({key.session, share.host()}, id);
      }
      used[claim] += grant.used;
      share.set_reservation(claim);
      share.set_rate_bytes(static_cast<std::uint64_t>(grant.rate));
      share.set_used_bytes(static_cast<std::uint64_t>(grant.used));
      share.set_held(grant.held);
    }
  }
  for (const auto& [id, record] : book_.reservations()) {
    v1::BandwidthReply::Reservation& out = *reply.add_reservations();
    out.set_reservation(id);
    *out.mutable_record() = record;
    for (const std::uint32_t pool : record.pools()) {
      if (pool < descriptor.pools.size()) out.add_pools(descriptor.pools[pool].name);
    }
    out.set_used_bytes(static_cast<std::uint64_t>(used[id]));
    if (record.session() != 0) out.set_host(host_of(SessionId(record.session())));
  }
}

}  // namespace reel::mdc
