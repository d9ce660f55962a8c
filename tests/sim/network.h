// The simulated network between clients and the controller: streams of frames, each late by a
// different time, in order within a stream and in any order between streams.
//
// A stream can be cut: what was on its way is lost, in either direction or both, and each side
// learns of it at its own time. A host's frames can be held back, as by a network that stands
// still: they arrive afterwards, unless the stream ends first. Threads: Connect, Send and Receive
// from fibers; the rest from timers too.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "client/mdc_stream.h"
#include "tests/sim/scheduler.h"

namespace reel::sim {

// The controller's side. Called by timers.
class StreamServer {
 public:
  virtual ~StreamServer() = default;
  virtual bool up() const = 0;
  virtual void OnOpened(std::uint64_t stream) = 0;
  virtual void OnFrame(std::uint64_t stream, v1::ClientFrame frame) = 0;
  virtual void OnEnded(std::uint64_t stream) = 0;
};

class Network {
 public:
  explicit Network(Scheduler& scheduler) : scheduler_(scheduler) {}
  void SetServer(StreamServer* server) { server_ = server; }

  // Of a host; lives as long as the network.
  std::unique_ptr<client::MdcConnector> ConnectorOf(int host);

  // ---- from the server
  void Send(std::uint64_t stream, v1::ServerFrame frame);
  // After what was sent.
  void End(std::uint64_t stream);

  // ---- faults
  void Cut(int host);
  void HoldBack(int host, Micros until);
  // The controller died: all streams end.
  void CutAll();
  // No connection is made any more, as the host is dead.
  void Forget(int host);

 private:
  friend class SimStream;
  friend class SimConnector;
  struct Wire {
    std::uint64_t id = 0;
    int host = 0;
    bool client_ended = false;  // as the client sees it
    bool server_ended = false;  // as the server sees it
    bool cut = false;           // nothing more arrives
    std::deque<v1::ServerFrame> inbox;
    Micros last_up = 0, last_down = 0;  // arrivals, for the order
  };
  using WireRef = std::shared_ptr<Wire>;
  Micros Arrival(const Wire& wire, Micros& last);
  void EndAtClient(const WireRef& wire);
  void EndAtServer(const WireRef& wire, Micros when);
  void CutWire(const WireRef& wire);

  Scheduler& scheduler_;
  StreamServer* server_ = nullptr;
  std::uint64_t last_id_ = 0;
  std::map<std::uint64_t, WireRef> wires_;
  std::map<int, Micros> held_until_;
};

}  // namespace reel::sim
