// An interrupt for waits that are of no use beyond a session: what they wait for is lost with it.
#pragma once

#include <cstdint>

#include "client/session/session.h"

namespace reel::client {

class SessionEnd final : public Interrupt {
 public:
  // Both outlive it. `otherwise`: what else ends the wait; null: nothing. `session` 0: none ends
  // it.
  SessionEnd(const Session& session, std::uint64_t id, const Interrupt* otherwise)
      : session_(session), id_(id), otherwise_(otherwise) {}
  bool interrupted() const override {
    return (id_ != 0 && session_.session_id() != id_) ||
           (otherwise_ != nullptr && otherwise_->interrupted());
  }

 private:
  const Session& session_;
  const std::uint64_t id_;
  const Interrupt* const otherwise_;
};

}  // namespace reel::client
