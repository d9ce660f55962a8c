// The simulated network between clients and controllers: streams of frames, each late by a
// different time, in order within a stream and in any order between streams.
//
// A stream can be cut: what was on its way is lost, in either direction or both, and each side
// learns of it at its own time. A host's or a controller's frames can be held back, as by a network
// that stands still: they arrive afterwards, unless the stream ends first. Threads: Connect, Send
// and Receive from fibers; the rest from timers too.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/session/mdc_stream.h"
#include "mdc/seat/peer_signs.h"
#include "tests/sim/moments.h"
#include "tests/sim/scheduler.h"

namespace reel::sim {

// A controller's side. Called by timers, but Where.
class StreamServer {
 public:
  virtual ~StreamServer() = default;
  virtual bool up() const = 0;       // a process listens
  virtual bool answers() const = 0;  // and runs
  virtual client::MdcPlace Where() const = 0;
  // Soon, in its process; never, where that ends or stands still. An older release says nothing.
  virtual void AskToPromise(std::shared_ptr<mdc::PeerAnswer> answer,
                            std::shared_ptr<bool> answered) = 0;
  virtual void OnOpened(std::uint64_t stream) = 0;
  virtual void OnFrame(std::uint64_t stream, v1::ClientFrame frame) = 0;
  virtual void OnEnded(std::uint64_t stream) = 0;
};

class Network {
 public:
  Network(Scheduler& scheduler, Moments& moments) : scheduler_(scheduler), moments_(moments) {}
  // All of them before the first connection.
  void AddServer(const std::string& address, StreamServer* server) { servers_[address] = server; }

  // Of a host; lives as long as the network.
  std::unique_ptr<client::MdcConnector> ConnectorOf(int host);
  // As a standby asks another controller, from a fiber; sometimes nothing passes between the two
  // for a while, whatever becomes of clients' streams.
  mdc::PeerAnswer Ask(const StreamServer& standby, const std::string& address, Micros wait);

  // ---- from the server
  void Send(std::uint64_t stream, v1::ServerFrame frame);
  // After what was sent.
  void End(std::uint64_t stream);

  // ---- faults
  void Cut(int host);
  void HoldBack(int host, Micros until);
  // One direction: what it sends on its streams, or what controllers do.
  void HoldRequests(int host, Micros until) { requests_held_[host] = until; }
  void HoldAnswers(int host, Micros until) { answers_held_[host] = until; }
  void HoldBack(const StreamServer& server, Micros until) { servers_held_[&server] = until; }
  // Its process died: all its streams end.
  void CutAll(const StreamServer& server);
  // No connection is made any more, as the host is dead.
  void Forget(int host);

 private:
  friend class SimStream;
  friend class SimConnector;
  struct Wire {
    std::uint64_t id = 0;
    int host = 0;
    StreamServer* server = nullptr;
    bool client_ended = false;  // as the client sees it
    bool server_ended = false;  // as the server sees it
    bool cut = false;           // nothing more arrives
    std::deque<v1::ServerFrame> inbox;
    Micros last_up = 0, last_down = 0;  // arrivals, for the order
  };
  using WireRef = std::shared_ptr<Wire>;
  // Until when nothing passes between the two; in the past: it passes.
  Micros HeldUntil(int host, const StreamServer& server) const;
  // Whether the server can be reached, after a wait.
  bool Reach(int host, const StreamServer& server, Micros timeout);
  Micros Arrival(const Wire& wire, Micros& last);
  void EndAtClient(const WireRef& wire);
  void EndAtServer(const WireRef& wire, Micros when);
  void CutWire(const WireRef& wire);

  void NoteSent(int host, const v1::ClientFrame& frame);
  void NoteSent(int host, const v1::ServerFrame& frame);

  Scheduler& scheduler_;
  Moments& moments_;
  std::map<std::string, StreamServer*> servers_;
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, WireRef> wires_;
  std::map<int, Micros> held_until_, requests_held_, answers_held_;
  std::map<const StreamServer*, Micros> servers_held_;
  Micros apart_until_ = 0;  // controllers cannot reach each other
};

}  // namespace reel::sim
