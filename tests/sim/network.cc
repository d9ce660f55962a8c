#include "tests/sim/network.h"

#include <algorithm>
#include <utility>

namespace reel::sim {
namespace {

constexpr Micros kConnectTimeout = 1000 * kMs;
constexpr Micros kWhereTimeout = 500 * kMs;
constexpr Micros kLook = 10 * kMs;
// So many questions of standbys follow each other until controllers are cut off each other, …
constexpr std::uint64_t kApartOneIn = 300;
// … and for how long at most.
constexpr Micros kLongestApart = 600 * kMs;
// When a server learns at the latest that a stream was cut.
constexpr Micros kSilentEnd = 400 * kMs;

std::optional<Moment> MomentOf(const v1::Request& request) {
  switch (request.op_case()) {
    case v1::Request::kRenew:
      return Moment::kRenewal;
    case v1::Request::kLayoutCommit:
      return Moment::kCommit;
    case v1::Request::kLayoutReturn:
    case v1::Request::kAttrReturn:
    case v1::Request::kLockReturn:
      return Moment::kReturn;
    case v1::Request::kClose:
      return Moment::kClose;
    case v1::Request::kSetAttr:
      if ((request.set_attr().fields() & v1::SetAttr::SIZE) == 0) return std::nullopt;
      return Moment::kResize;
    case v1::Request::kCreate:
    case v1::Request::kLink:
    case v1::Request::kUnlink:
    case v1::Request::kRename:
      return Moment::kNameChange;
    case v1::Request::kReclaim:
      return Moment::kReclaim;
    default:
      return std::nullopt;
  }
}

}  // namespace

class SimStream final : public client::MdcStream {
 public:
  SimStream(Network& network, Network::WireRef wire) : network_(network), wire_(std::move(wire)) {}
  ~SimStream() override { Cancel(); }

  bool Send(const v1::ClientFrame& frame) override {
    if (wire_->client_ended) return false;
    network_.NoteSent(wire_->host, frame);
    wire_->last_up = std::max(wire_->last_up, network_.requests_held_[wire_->host]);
    network_.scheduler_.At(network_.Arrival(*wire_, wire_->last_up), [wire = wire_, frame] {
      if (wire->cut || wire->server_ended || !wire->server->up()) return;
      wire->server->OnFrame(wire->id, frame);
    });
    return true;
  }
  bool Receive(v1::ServerFrame* frame) override {
    while (wire_->inbox.empty() && !wire_->client_ended) network_.scheduler_.Park(wire_.get());
    if (wire_->inbox.empty()) return false;
    *frame = std::move(wire_->inbox.front());
    wire_->inbox.pop_front();
    return true;
  }
  void Cancel() override {
    if (wire_->client_ended) return;
    wire_->inbox.clear();
    network_.EndAtClient(wire_);
    network_.EndAtServer(wire_, network_.Arrival(*wire_, wire_->last_up));
  }
  absl::Status Finish() override { return absl::UnavailableError("the stream ended"); }

 private:
  Network& network_;
  const Network::WireRef wire_;
};

class SimConnector final : public client::MdcConnector {
 public:
  SimConnector(Network& network, int host) : network_(network), host_(host) {}

  absl::StatusOr<std::unique_ptr<client::MdcStream>> Connect(const std::string& address) override {
    StreamServer& server = *network_.servers_.at(address);
    if (!network_.Reach(host_, server, kConnectTimeout)) {
      return absl::UnavailableError("nobody answers");
    }
    auto wire = std::make_shared<Network::Wire>();
    wire->id = ++network_.last_id_;
    wire->host = host_;
    wire->server = &server;
    network_.wires_[wire->id] = wire;
    server.OnOpened(wire->id);
    return std::make_unique<SimStream>(network_, wire);
  }

  absl::StatusOr<client::MdcPlace> Where(const std::string& address, const std::string&) override {
    StreamServer& server = *network_.servers_.at(address);
    if (!network_.Reach(host_, server, kWhereTimeout)) {
      return absl::UnavailableError("nobody answers");
    }
    const client::MdcPlace place = server.Where();
    network_.scheduler_.Sleep(network_.scheduler_.random().Between(30, 300));
    return place;
  }

 private:
  Network& network_;
  const int host_;
};

std::unique_ptr<client::MdcConnector> Network::ConnectorOf(int host) {
  return std::make_unique<SimConnector>(*this, host);
}

mdc::PeerAnswer Network::Ask(const StreamServer& standby, const std::string& address, Micros wait) {
  const StreamServer& server = *servers_.at(address);
  Random& random = scheduler_.random();
  if (random.OneIn(kApartOneIn)) apart_until_ = scheduler_.now() + random.Below(kLongestApart);
  const auto held = [&](const StreamServer& one) {
    const auto found = servers_held_.find(&one);
    return found != servers_held_.end() && found->second > scheduler_.now();
  };
  const Micros until = scheduler_.now() + wait;
  scheduler_.Sleep(random.Between(50, 1000));
  if (apart_until_ > scheduler_.now() && random.OneIn(2)) {
    return {.failure = mdc::PeerFailure::kBroken};
  }
  if (!server.up()) return {.failure = mdc::PeerFailure::kBroken};
  if (server.answers() && !held(server) && !held(standby) && apart_until_ <= scheduler_.now()) {
    const auto answer = std::make_shared<mdc::PeerAnswer>();
    const auto answered = std::make_shared<bool>(false);
    servers_.at(address)->AskToPromise(answer, answered);
    while (!*answered && scheduler_.now() < until) scheduler_.Sleep(kMs);
    if (*answered) return *answer;
  }
  if (scheduler_.now() < until) scheduler_.Sleep(until - scheduler_.now());
  return {.failure = mdc::PeerFailure::kSilent};
}

Micros Network::HeldUntil(int host, const StreamServer& server) const {
  const auto a = held_until_.find(host);
  const auto b = servers_held_.find(&server);
  return std::max(a == held_until_.end() ? 0 : a->second, b == servers_held_.end() ? 0 : b->second);
}

// A port that nobody listens on refuses at once; a process that stands still says nothing.
bool Network::Reach(int host, const StreamServer& server, Micros timeout) {
  const Micros until = scheduler_.now() + timeout;
  const Micros held = HeldUntil(host, server);
  if (held > scheduler_.now()) scheduler_.Sleep(std::min(held, until) - scheduler_.now());
  scheduler_.Sleep(scheduler_.random().Between(100, 2000));
  if (!server.up()) return false;
  while (server.up() && !server.answers() && scheduler_.now() < until) scheduler_.Sleep(kLook);
  return server.up() && server.answers() && HeldUntil(host, server) <= scheduler_.now();
}

void Network::NoteSent(int host, const v1::ClientFrame& frame) {
  for (const v1::Request& request : frame.requests()) {
    if (const auto moment = MomentOf(request)) moments_.Note(*moment, host);
  }
}

void Network::NoteSent(int host, const v1::ServerFrame& frame) {
  for (const v1::Callback& callback : frame.callbacks()) {
    if (callback.has_recall_token() || callback.has_recall_attr() || callback.has_recall_locks()) {
      moments_.Note(Moment::kRecall, host);
    }
  }
  for (const v1::Reply& reply : frame.replies()) {
    if (reply.has_entry() || reply.has_early()) moments_.Note(Moment::kAnswer, host);
  }
}

// When a frame that is sent now arrives: after the one before it.
Micros Network::Arrival(const Wire& wire, Micros& last) {
  Random& random = scheduler_.random();
  const Micros delay = random.Between(30, random.OneIn(12) ? 8000 : 300);
  last = std::max({scheduler_.now() + delay, last + 1, HeldUntil(wire.host, *wire.server)});
  return last;
}

void Network::Send(std::uint64_t stream, v1::ServerFrame frame) {
  const auto found = wires_.find(stream);
  if (found == wires_.end() || found->second->server_ended) return;
  const WireRef wire = found->second;
  NoteSent(wire->host, frame);
  wire->last_down = std::max(wire->last_down, answers_held_[wire->host]);
  scheduler_.At(Arrival(*wire, wire->last_down), [this, wire, frame = std::move(frame)]() mutable {
    if (wire->cut || wire->client_ended) return;
    wire->inbox.push_back(std::move(frame));
    scheduler_.WakeAll(wire.get());
  });
}

void Network::End(std::uint64_t stream) {
  const auto found = wires_.find(stream);
  if (found == wires_.end()) return;
  const WireRef wire = found->second;
  scheduler_.At(Arrival(*wire, wire->last_down), [this, wire] { EndAtClient(wire); });
  EndAtServer(wire, scheduler_.now());
}

void Network::EndAtClient(const WireRef& wire) {
  wire->client_ended = true;
  scheduler_.WakeAll(wire.get());
}

void Network::EndAtServer(const WireRef& wire, Micros when) {
  scheduler_.At(when, [this, wire] {
    wires_.erase(wire->id);
    if (std::exchange(wire->server_ended, true) || !wire->server->up()) return;
    wire->server->OnEnded(wire->id);
  });
}

// Sometimes what is on its way still arrives.
void Network::CutWire(const WireRef& wire) {
  Random& random = scheduler_.random();
  wire->cut = random.OneIn(2);
  scheduler_.At(scheduler_.now() + random.Below(5 * kMs), [this, wire] {
    wire->cut = true;
    EndAtClient(wire);
  });
  EndAtServer(wire, scheduler_.now() + random.Below(random.OneIn(2) ? 5 * kMs : kSilentEnd));
}

void Network::Cut(int host) {
  for (const auto& [id, wire] : std::map(wires_)) {
    if (wire->host == host) CutWire(wire);
  }
}

void Network::HoldBack(int host, Micros until) {
  held_until_[host] = until;
}

void Network::CutAll(const StreamServer& server) {
  for (const auto& [id, wire] : std::map(wires_)) {
    if (wire->server != &server) continue;
    wires_.erase(id);
    wire->cut = wire->server_ended = true;
    scheduler_.After(scheduler_.random().Below(20 * kMs),
                     [this, wire = wire] { EndAtClient(wire); });
  }
}

void Network::Forget(int host) {
  for (const auto& [id, wire] : std::map(wires_)) {
    if (wire->host != host) continue;
    wire->cut = scheduler_.random().OneIn(2);
    EndAtServer(wire, scheduler_.now() + scheduler_.random().Below(kSilentEnd));
  }
}

}  // namespace reel::sim
