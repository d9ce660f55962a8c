#include "client/fuse/fuse_interrupt.h"

#include <fcntl.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "client/fuse/connection/fuse_session.h"

namespace reel::client {
namespace {

// Whose signals are looked for: 0, nobody's.
pid_t LookedAt(fuse_req_t request) {
  return FuseSession::MayMissInterrupt() ? fuse_req_ctx(request)->pid : 0;
}

}  // namespace

FuseInterrupt::FuseInterrupt(fuse_req_t request)
    : request_(request), pending_(LookedAt(request), SignalKind::kFatal) {}

bool FuseInterrupt::interrupted() const {
  if (fuse_req_interrupted(request_) != 0) return IsBeingKilled(fuse_req_ctx(request_)->pid);
  return pending_.Seen();
}

AnySignal::AnySignal(fuse_req_t request)
    : request_(request), pending_(LookedAt(request), SignalKind::kAny) {}

bool AnySignal::interrupted() const {
  return fuse_req_interrupted(request_) != 0 || pending_.Seen();
}

bool IsBeingKilled(pid_t thread) {
  const bool is_there = access(absl::StrCat("/proc/", thread, "/status").c_str(), F_OK) == 0;
  return !is_there || HasPendingSignal(thread, SignalKind::kFatal);
}

}  // namespace reel::client
