// Paths that were lost, or have no key: opened anew, and registered.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/base/interrupt.h"
#include "client/base/lease.h"
#include "client/luns/lun_paths.h"
#include "proto/status.h"
#include "spdlog/spdlog.h"
#include "volume/base/aligned_buffer.h"
#include "volume/format/reservation_key.h"
#include "volume/lun/lun_fault.h"
#include "volume/lun/reservation.h"
#include "volume/scsi/lun_times.h"

namespace reel::client {
namespace {

using Outcome = ReservationResult::Outcome;

// A refused key is tried so often: what the host has there may be its own, of a try in doubt.
constexpr std::uint32_t kSpareTries = 5;

}  // namespace

void LunPaths::Close(Path& path) {
  path.users.fetch_or(kClosed);
}

// REQUIRES: closed.
void LunPaths::StartMending(Path& path) {
  if (std::exchange(path.mending, true)) return;
  path.failures = 0;
  menders_.Run([this, &path] { Mend(path); });
}

void LunPaths::Open(Path& path) {
  path.mending = path.joins = false;
  path.users.fetch_and(~kClosed);
  changed_.NotifyAll();
}

void LunPaths::NoteLost(Path& path, const absl::Status& why) {
  path.problem = why;
  if (path.lost_ms != 0 || path.joins || path.gone) return;
  path.lost_ms = clock_.NowMs();
  ++lost_;
}

// Whoever loses one path may have lost its SAN. Each other one would be found dead by a request of
// its own, after a command's time, and what that holds meanwhile others wait for: so none is sent
// before that path has answered.
void LunPaths::LookAtOthers(const Path& lost) {
  for (const std::unique_ptr<Path>& path : paths_) {
    if (path.get() == &lost || path->mending) continue;
    path->suspect = true;
    Close(*path);
    StartMending(*path);
  }
}

// Whether a suspected path does. It has users as before: what ends badly for them counts, too.
bool LunPaths::Answers(Path& path) {
  const AlignedBuffer first(path.lun->logical_block_bytes());
  const absl::Status status = path.lun->Read(0, first.span());
  const LunFault fault = FaultOf(status);
  MutexLock lock(mutex_);
  if (IsPathOver(fault)) path.rekey = true;
  if (IsPathOver(fault) || fault == LunFault::kInDoubt) NoteLost(path, status);
  if (stopping_ || path.lost_ms != 0 || path.rekey || path.again || path.gone) return false;
  Open(path);
  return true;
}

void LunPaths::OnRegistered(std::uint64_t session, std::uint64_t key) {
  MutexLock lock(mutex_);
  if (session == granted_session_) return;
  granted_session_ = session;
  granted_key_ = key;
  for (const std::unique_ptr<Path>& path : paths_) {
    if (path->lost_ms != 0 && !std::exchange(path->begun_without, true)) ++begun_without_;
    if (key == 0 || !path->may_write || path->gone) continue;
    Close(*path);
    path->again = path->mending;
    path->rekey = true;
    StartMending(*path);
  }
}

// False when the time ran out, or Stop came first.
bool LunPaths::AwaitEmpty(const Path& path, std::uint64_t limit_ms) {
  const std::uint64_t until_ms = clock_.NowMs() + limit_ms;
  MutexLock lock(mutex_);
  const InterruptWhen over(
      [&] { return limit_ms == 0 ? stopping_.load() : clock_.NowMs() >= until_ms; });
  return WaitFor(
             changed_, mutex_, [&] { return (path.users.load() & ~kClosed) == 0; },
             [&] { return CheckInterrupt(&over, "I/O"); })
      .ok();
}

void LunPaths::Mend(Path& path) {
  bool suspect = false;
  {
    MutexLock lock(mutex_);
    suspect = std::exchange(path.suspect, false);
  }
  if (suspect && Answers(path)) return;
  if (!AwaitEmpty(path, 0)) return;
  std::uint64_t session = 0;
  bool rekey = false, gone = false;
  {
    MutexLock lock(mutex_);
    rekey = std::exchange(path.rekey, false);
    gone = path.gone;
  }
  if (gone) {
    // A controller may have taken it away before.
    if (path.key != 0) (void)path.lun->reservations()->Unregister(path.key);
    path.key = 0;
    return;
  }
  absl::Status status = TryMend(path, rekey, &session);
  MutexLock lock(mutex_);
  if (stopping_) return;
  if (path.gone) return menders_.Run([this, &path] { Mend(path); });
  if (!status.ok()) path.rekey = path.rekey || rekey;
  const bool said = path.problem.message() == status.message();
  path.problem = status;
  // What changed meanwhile may have come in time.
  const bool again = std::exchange(path.again, false) && session != granted_session_;
  if (status.ok() && !again && (session == 0 || session == session_.session_id())) {
    if (std::exchange(path.lost_ms, 0) != 0) --lost_;
    if (std::exchange(path.begun_without, false)) --begun_without_;
    Open(path);
    return;
  }
  if (!status.ok()) {
    NoteLost(path, status);
    if (!said) {
      spdlog::error("{}: not usable yet, it is tried again: {}", path.lun->name(),
                    std::string(status.message()));
    }
    changed_.NotifyAll();
    const std::uint64_t until_ms = clock_.NowMs() + PathRetryMs(path.failures++);
    const auto due = [&] {
      return stopping_ || again || path.again || path.gone || clock_.NowMs() >= until_ms;
    };
    (void)WaitFor(changed_, mutex_, due, absl::OkStatus);
  }
  menders_.Run([this, &path] { Mend(path); });
}

// `*session`: for which it is registered now; 0: it needs no other key than it has.
absl::Status LunPaths::TryMend(Path& path, bool rekey, std::uint64_t* session) {
  if (absl::Status s = path.lun->Reopen(); !s.ok()) return s;
  if (!NeedsKey(path)) {
    return IsQuiet(path) ? absl::OkStatus()
                         : absl::UnavailableError(absl::StrCat(
                               path.lun->name(), ": has no reservations, and what was sent to it ",
                               "before may still be executed; that is waited out"));
  }
  if (!rekey) return absl::OkStatus();
  // Before a key is asked for, which costs everybody on that LUN a reset.
  if (absl::Status s = path.lun->reservations()->ClaimPath(); !s.ok()) return s;
  *session = session_.session_id();
  if (*session == 0) return absl::UnavailableError("there is no session with a controller");
  const absl::StatusOr<std::uint64_t> key = KeyFor(path, *session);
  if (!key.ok()) return key.status();
  absl::Status status = Register(path, *key);
  if (status.ok()) {
    spdlog::info("{}: registered with key {}", path.lun->name(), KeyText(*key));
  }
  // Nothing was sent by this path since the key was granted, so that it is as good later.
  const bool refused = absl::IsFailedPrecondition(status);
  path.spare.tries = refused && path.spare.key == *key ? path.spare.tries + 1 : 0;
  path.spare.key = refused && path.spare.tries < kSpareTries ? *key : 0;
  path.spare.session = *session;
  return status;
}

bool LunPaths::IsQuiet(const Path& path) const {
  MutexLock lock(mutex_);
  return clock_.NowMs() >= path.quiet_ms;
}

// The session's own key is for one path each; every later one is granted, with a reset of the LUN.
absl::StatusOr<std::uint64_t> LunPaths::KeyFor(Path& path, std::uint64_t session) {
  if (path.spare.key != 0 && path.spare.session == session) return path.spare.key;
  {
    MutexLock lock(mutex_);
    if (granted_session_ == session && path.granted_for != session) {
      path.granted_for = session;
      return granted_key_;
    }
  }
  v1::Request request;
  request.mutable_new_key()->set_lun(path.uuid.ToBytes());
  const InterruptWhen stopping([this] { return stopping_.load(); });
  CallOptions options;
  options.interrupt = &stopping;
  const absl::StatusOr<v1::Reply> reply = session_.Call(std::move(request), options);
  if (!reply.ok()) return reply.status();
  if (reply->key().key() == 0) {
    return ErrnoStatus(EIO, "the controller's answer to NewKey has no key");
  }
  return reply->key().key();
}

absl::Status LunPaths::Register(Path& path, std::uint64_t key) const {
  Reservations& reservations = *path.lun->reservations();
  if (path.key != 0) {
    const ReservationResult gone = reservations.Unregister(path.key);
    // A conflict: it was not registered here any more.
    if (!gone.done() && gone.outcome != Outcome::kConflict) return gone.status;
    path.key = 0;
  }
  const ReservationResult result = reservations.Register(key);
  if (result.outcome == Outcome::kConflict) {
    return absl::FailedPreconditionError(
        absl::StrCat(path.lun->name(),
                     ": this host is registered there already, by another mount or one that has "
                     "just ended, or by a controller; iscsi:// URLs give each a path of its own"));
  }
  if (!result.done()) return result.status;
  path.key = key;
  const absl::StatusOr<Registrations> registrations = reservations.ReadKeys();
  if (!registrations.ok()) return registrations.status();
  const auto& keys = registrations->keys;
  if (std::find(keys.begin(), keys.end(), key) != keys.end()) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(path.lun->name(), ": the key that was registered is not there"));
}

}  // namespace reel::client
