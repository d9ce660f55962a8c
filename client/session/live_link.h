// The stream to the controller that serves a session: whether requests may go on it, and since when
// they may not.
//
// Invariants:
//   1. Requests go only on a live link, and one thread at a time sends.
//   2. The stream stays while a thread sends on it: it is taken away after Lost(), when !sending().
//   3. A stream whose Hello has no answer in time is overdue, and no other is.
// Threads: externally synchronised. What others may look at without waiting is Contact.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "client/session/mdc_stream.h"

namespace reel::client {

class LiveLink {
 public:
  // A Hello goes out on it, and its answer is due by then.
  void Begin(std::unique_ptr<MdcStream> stream, std::uint64_t answer_until_ms) {
    stream_ = std::move(stream);
    handshake_until_ms_ = answer_until_ms;
  }
  // The Hello was answered, and this came with it; requests do not go yet.
  void Greeted(std::string address, std::uint64_t epoch, v1::ServerFrame came_along = {}) {
    address_ = std::move(address);
    epoch_ = epoch;
    came_along_ = std::move(came_along);
    handshake_until_ms_ = 0;
  }
  // What is to be handled before anything that the stream brings, once.
  v1::ServerFrame TakeCameAlong() { return std::exchange(came_along_, {}); }
  void Live() { live_ = true; }
  // No send begins from here on.
  void Lost(std::uint64_t now_ms) {
    live_ = false;
    away_since_ms_ = now_ms;
  }
  // Takes the stream away. REQUIRES: !sending()
  void Drop() {
    handshake_until_ms_ = 0;
    stream_.reset();
  }

  bool HandshakeOverdue(std::uint64_t now_ms) const {
    return handshake_until_ms_ != 0 && now_ms >= handshake_until_ms_ && stream_ != nullptr;
  }
  // Nobody has answered for so long; 0: that does not matter.
  bool TimedOut(std::uint64_t now_ms, std::uint32_t soft_timeout_ms) const {
    return soft_timeout_ms != 0 && !live_ && now_ms - away_since_ms_ >= soft_timeout_ms;
  }
  bool MaySend() const { return live_ && !sending_; }
  // The stream to send on. REQUIRES: MaySend()
  MdcStream* BeginSend() {
    sending_ = true;
    return stream_.get();
  }
  void EndSend() { sending_ = false; }
  // The writer waits, for a moment, for more to send.
  void SetGathering(bool gathering) { gathering_ = gathering; }
  bool gathering() const { return gathering_; }

  bool live() const { return live_; }
  bool sending() const { return sending_; }
  MdcStream* stream() const { return stream_.get(); }
  const std::string& address() const { return address_; }
  std::uint64_t epoch() const { return epoch_; }

 private:
  std::string address_;  // of the controller that serves us
  std::uint64_t epoch_ = 0;
  std::unique_ptr<MdcStream> stream_;
  v1::ServerFrame came_along_;
  bool live_ = false;                     // registered on stream_
  bool sending_ = false;                  // one thread is in stream_->Send
  bool gathering_ = false;                // until it sends
  std::uint64_t away_since_ms_ = 0;       // when not live_
  std::uint64_t handshake_until_ms_ = 0;  // 0: none
};

// What any thread may see of the link without waiting for it, and set.
class Contact {
 public:
  explicit Contact(std::uint32_t soft_timeout_ms) : soft_timeout_ms_(soft_timeout_ms) {}

  // The link is not live; not before it first was.
  bool away() const { return away_.load(); }
  void SetAway(bool away) { away_.store(away); }
  // When something came from the controller last.
  std::uint64_t heard_ms() const { return heard_ms_.load(std::memory_order_relaxed); }
  void NoteHeard(std::uint64_t now_ms) { heard_ms_.store(now_ms, std::memory_order_relaxed); }
  // How long calls wait for a controller; 0: for ever.
  std::uint32_t soft_timeout_ms() const { return soft_timeout_ms_.load(); }
  void SetSoftTimeout(std::uint32_t soft_timeout_ms) { soft_timeout_ms_.store(soft_timeout_ms); }

 private:
  std::atomic<bool> away_{false};
  std::atomic<std::uint64_t> heard_ms_{0};
  std::atomic<std::uint32_t> soft_timeout_ms_;
};

}  // namespace reel::client
