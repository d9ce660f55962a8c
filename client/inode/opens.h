// How often a file is open here, and whether the controller knows.
//
// The controller keeps a removed file for the sessions that have *registered* an open of it, or
// hold a token on it: so an open under a token need not be told, until the token goes. Invariants:
//   1. At most one open of a file is registered at a time, whatever number is open here.
//   2. `may_be_mapped_to_write` holds from the first open for writing until nobody has the file
//      open.
//   3. `newest_handle` is no less than the number of any open file that could have written.
//   4. An answer counts for the registration that it answers alone: an older one says nothing of
//      what was sent since.
// Threads: externally synchronised, by the file's mutex.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

namespace reel::client {

class Opens {
 public:
  void Open(std::uint64_t handle, bool to_write) {
    ++count_;
    NoteHandle(handle);
    to_write_ = to_write_ || to_write;
  }
  void OpenDirectory() { ++count_; }
  // The controller has made the file, and registered this open of it. `early_number`: the number
  // under which the session was told so. (Whoever creates a file writes it.)
  void Create(std::uint64_t handle, std::uint64_t early_number) {
    Open(handle, /*to_write=*/true);
    registration_ = Registration::kKnown;
    early_number_ = early_number;
  }
  struct Closed {
    bool last = false;
    bool was_to_write = false;  // with `last`: since nobody had it open
  };
  // One of those that are open is closed, if any is. The last one leaves it registered.
  Closed Close() {
    if (count_ == 0 || --count_ > 0) return {};
    return {.last = true, .was_to_write = std::exchange(to_write_, false)};
  }
  bool any() const { return count_ > 0; }
  // What the page cache reads may be mapped and changed without asking, so it needs the exclusive
  // token.
  bool may_be_mapped_to_write() const { return to_write_; }

  void NoteHandle(std::uint64_t handle) { newest_handle_ = std::max(newest_handle_, handle); }
  // Of all who opened it so far.
  std::uint64_t newest_handle() const { return newest_handle_; }

  // ---- what the controller knows
  // It knows of an open, or one is on its way to it.
  bool registered() const { return registration_ != Registration::kNone; }
  // It has said that it knows: the file stays, whoever removes it.
  bool known() const { return registration_ == Registration::kKnown; }
  // The number of the registration that is to be sent now; 0: none is.
  std::uint64_t BeginRegistering() {
    if (!any() || registered()) return 0;
    registration_ = Registration::kSent;
    return ++last_number_;
  }
  // The answer to that one. Where it was refused, the next open asks the controller.
  void EndRegistering(std::uint64_t number, bool taken) {
    if (number != last_number_ || registration_ != Registration::kSent) return;
    registration_ = taken ? Registration::kKnown : Registration::kNone;
  }
  // It has answered an open.
  void NoteRegistered() { registration_ = Registration::kKnown; }
  // What it knows is open to doubt, or it is told that no open is left. True: it knew of one.
  bool Unregister() {
    return std::exchange(registration_, Registration::kNone) != Registration::kNone;
  }
  // A new controller is told of all that is open. True: of this.
  bool Reclaim() {
    registration_ = any() ? Registration::kKnown : Registration::kNone;
    return any();
  }
  // It is open, and what the session was told from that number on has made it.
  bool IsMadeBy(std::uint64_t first_early) const { return early_number_ >= first_early && any(); }
  // The session is lost.
  void Void() {
    registration_ = Registration::kNone;
    early_number_ = 0;
  }

 private:
  enum class Registration : std::uint8_t { kNone, kSent, kKnown };

  std::uint32_t count_ = 0;
  std::uint64_t newest_handle_ = 0;
  Registration registration_ = Registration::kNone;
  std::uint64_t last_number_ = 0;  // of the registrations that were sent
  bool to_write_ = false;
  std::uint64_t early_number_ = 0;
};

}  // namespace reel::client
