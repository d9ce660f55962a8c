#include "client/luns/lun_paths.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "client/base/interrupt.h"
#include "client/base/lease.h"
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

constexpr std::size_t kMenders = 16;
// How often a wait looks for an interrupt, and for the time.
// A LUN that is busy for so long is worth a line, and another one after that.
constexpr std::uint64_t kBusyUnsaidMs = 1'000, kBusySaidMs = 10'000;

constexpr char kPermitPayload[] = "reel.permit";

// Whether the path has lost its connection or its key.
bool IsPathOver(LunFault fault) {
  return fault == LunFault::kClosed || fault == LunFault::kUnknown || fault == LunFault::kFenced;
}

}  // namespace

absl::Status PermitOver(const char* why) {
  absl::Status status = absl::CancelledError(why);
  status.SetPayload(kPermitPayload, absl::Cord());
  return status;
}

bool IsPermitOver(const absl::Status& status) {
  return absl::IsCancelled(status) && status.GetPayload(kPermitPayload).has_value();
}

LunPaths::LunPaths(OpenVolume& volume, Session& session, const Clock& clock, const Options& options)
    : session_(session), clock_(clock), soft_ms_(options.soft_timeout_ms), menders_(kMenders) {
  for (const std::unique_ptr<Lun>& lun : volume.luns) {
    paths_.push_back(std::make_unique<Path>());
    paths_.back()->lun = lun.get();
  }
  std::size_t next = 0;
  for (const Pool& pool : volume.descriptor.pools) {
    for (const StripeSet& set : pool.sets) {
      for (const LunEntry& entry : set.luns) {
        if (next == paths_.size()) return;
        Path& path = *paths_[next++];
        path.uuid = entry.lun;
        path.may_write = (pool.flags & Pool::kData) != 0 && path.lun->has_reservations() &&
                         !path.lun->read_only();
      }
    }
  }
}

LunPaths::~LunPaths() {
  Stop();
}

bool LunPaths::NeedsKey(const Path& path) const {
  MutexLock lock(mutex_);
  return granted_key_ != 0 && path.may_write;
}

// ---- in and out -------------------------------------------------------------------------------

void LunPaths::Exit(Path& path) {
  if (path.users.fetch_sub(1) != (kClosed | 1)) return;
  MutexLock lock(mutex_);
  changed_.NotifyAll();
}

// The id is looked at on both sides: a later session's lease is not this one's.
bool LunPaths::PermitHolds(const IoPermit& permit) const {
  return permit.session == 0 || (session_.session_id() == permit.session && session_.LeaseHolds() &&
                                 session_.session_id() == permit.session);
}

absl::Status LunPaths::Enter(std::span<const std::uint32_t> luns, const IoPermit& permit) {
  std::uint64_t since_ms = 0;  // of waiting
  for (;;) {
    if (stopping_) return ErrnoStatus(ESHUTDOWN, "the file system is being unmounted");
    std::size_t entered = 0;
    bool open = true;
    while (open && entered < luns.size()) {
      open = (paths_[luns[entered++]]->users.fetch_add(1) & kClosed) == 0;
    }
    const bool permitted = PermitHolds(permit);
    if (open && permitted) return absl::OkStatus();
    for (std::size_t i = 0; i < entered; ++i) Exit(*paths_[luns[i]]);
    if (!permitted) return PermitOver("the session or its lease is over");
    if (since_ms == 0) since_ms = clock_.NowMs();
    if (absl::Status s = AwaitOpen(luns, permit, since_ms); !s.ok()) return s;
  }
}

absl::Status LunPaths::AwaitOpen(std::span<const std::uint32_t> luns, const IoPermit& permit,
                                 std::uint64_t since_ms) {
  MutexLock lock(mutex_);
  auto closed = luns.end();
  // What else may end the wait, the caller looks for.
  const auto done = [&] {
    closed = std::find_if(luns.begin(), luns.end(), [&](std::uint32_t lun) {
      return (paths_[lun]->users.load() & kClosed) != 0;
    });
    return closed == luns.end() || stopping_ || !PermitHolds(permit);
  };
  return WaitFor(changed_, mutex_, done, [&] {
    mutex_.AssertHeld();
    const Path& path = *paths_[*closed];
    return WaitEnds(permit, since_ms,
                    absl::StrCat(path.lun->name(), ": the path is lost: ", path.problem.message()));
  });
}

absl::Status LunPaths::AwaitAll(const Interrupt* interrupt) {
  if (!BeganWithout()) return absl::OkStatus();
  const IoPermit permit{.interrupt = interrupt};
  const std::uint64_t since_ms = clock_.NowMs();
  MutexLock lock(mutex_);
  return WaitFor(
      changed_, mutex_, [&] { return !BeganWithout(); },
      [&]() -> absl::Status {
        if (stopping_) return ErrnoStatus(ESHUTDOWN, "the file system is being unmounted");
        return WaitEnds(permit, since_ms, "a path has been lost since the session began");
      });
}

absl::Status LunPaths::GoesOn(const Interrupt* interrupt, std::uint64_t since_ms) const {
  if (stopping_) return ErrnoStatus(ESHUTDOWN, "the file system is being unmounted");
  return WaitEnds({.interrupt = interrupt}, since_ms, "the path to a LUN is lost");
}

// What ends a wait, whatever it is for. An interrupt comes first: who gives way begins anew.
absl::Status LunPaths::WaitEnds(const IoPermit& permit, std::uint64_t since_ms,
                                const std::string& why) const {
  if (permit.interrupt != nullptr && permit.interrupt->interrupted()) {
    return ErrnoStatus(EINTR, "interrupted while waiting for a LUN");
  }
  if (permit.yields_to != nullptr && permit.yields_to->Has(permit.inode)) {
    return PermitOver("somebody else waits for what this was to be done under");
  }
  const std::uint64_t now_ms = clock_.NowMs();
  if (IsTooLong(now_ms - since_ms)) {
    return ErrnoStatus(ETIMEDOUT, why);
  }
  const std::uint64_t give_up_ms = give_up_ms_;
  if (give_up_ms != 0 && now_ms >= give_up_ms) return ErrnoStatus(EIO, why);
  return absl::OkStatus();
}

// Once for all who wait.
void LunPaths::SayBusy(std::uint64_t now_ms, const absl::Status& why) {
  std::uint64_t said_ms = busy_said_ms_;
  if (now_ms - said_ms < kBusySaidMs || !busy_said_ms_.compare_exchange_strong(said_ms, now_ms)) {
    return;
  }
  spdlog::warn("what a LUN cannot do just now waits, {} s at most: {}", LunBusyLimitMs() / 1000,
               std::string(why.message()));
}

LunPaths::Then LunPaths::Leave(std::span<const std::uint32_t> luns, bool writes, Rounds& rounds,
                               absl::FunctionRef<absl::Status(std::uint32_t)> outcome) {
  bool again = false, busy = false, doubt = false, failed = false;
  for (const std::uint32_t lun : luns) {
    Path& path = *paths_[lun];
    const absl::Status status = outcome(lun);
    const LunFault fault = FaultOf(status);
    const bool in_doubt = fault == LunFault::kInDoubt;
    if (IsPathOver(fault) || in_doubt) {
      Close(path);
      MutexLock lock(mutex_);
      // A write in doubt has to be over before it is done again: the old key keeps it out.
      path.rekey = path.rekey || !in_doubt || writes;
      if (writes && IsOutcomeUnknown(status)) path.quiet_ms = clock_.NowMs() + QuarantineMs();
      // (A key that is gone says nothing of other LUNs.)
      if (path.lost_ms == 0 && fault != LunFault::kFenced) LookAtOthers(path);
      NoteLost(path, status);
      StartMending(path);
    }
    again = again || IsPathOver(fault);
    busy = busy || fault == LunFault::kBusy || fault == LunFault::kAborted;
    doubt = doubt || in_doubt;
    failed = failed || (!status.ok() && fault == LunFault::kNone);
    Exit(path);
  }
  if (!busy) rounds.busy = 0;
  if (failed || !(again || busy || doubt)) return Then::kOver;
  const std::uint64_t now_ms = clock_.NowMs();
  if (rounds.since_ms == 0) rounds.since_ms = now_ms;
  if (doubt) ++rounds.doubts;
  if (busy && rounds.busy++ == 0) rounds.busy_since_ms = now_ms;
  return busy || doubt ? Then::kLater : Then::kAgain;
}

absl::Status LunPaths::Pause(Rounds& rounds, const IoPermit& permit, const absl::Status& why) {
  const std::uint64_t now_ms = clock_.NowMs();
  const bool tried_out = rounds.doubts >= kMaxDoubts ||
                         (rounds.busy > 1 && now_ms - rounds.busy_since_ms >= LunBusyLimitMs());
  if (tried_out) return ErrnoStatus(EIO, absl::StrCat("I/O error: ", why.message()));
  if (rounds.busy > 1 && now_ms - rounds.busy_since_ms >= kBusyUnsaidMs) SayBusy(now_ms, why);
  const std::uint64_t pause_ms =
      rounds.busy != 0 ? LunBusyPauseMs(rounds.busy - 1) : DoubtPauseMs(rounds.doubts);
  const std::uint64_t until_ms = now_ms + pause_ms;
  MutexLock lock(mutex_);
  // What else may end the wait, Enter looks for.
  return WaitFor(
      changed_, mutex_,
      [&] { return stopping_ || !PermitHolds(permit) || clock_.NowMs() >= until_ms; },
      [&] { return WaitEnds(permit, rounds.since_ms, std::string(why.message())); },
      std::min<std::chrono::milliseconds>(kPoll, std::chrono::milliseconds(pause_ms)));
}

// ---- mending ----------------------------------------------------------------------------------

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
  path.mending = false;
  path.users.fetch_and(~kClosed);
  changed_.NotifyAll();
}

void LunPaths::NoteLost(Path& path, const absl::Status& why) {
  path.problem = why;
  if (path.lost_ms != 0) return;
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
  if (stopping_ || path.lost_ms != 0 || path.rekey || path.again) return false;
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
    if (key == 0 || !path->may_write) continue;
    Close(*path);
    path->again = path->mending;
    path->rekey = true;
    StartMending(*path);
  }
}

std::optional<LunPaths::Lost> LunPaths::LongestLost() const {
  MutexLock lock(mutex_);
  const Path* longest = nullptr;
  for (const std::unique_ptr<Path>& path : paths_) {
    if (path->lost_ms == 0) continue;
    // Others get what this host gives up, and no key keeps its lost write out: not before that is
    // over.
    const bool keyed = granted_key_ != 0 && path->may_write;
    if (!keyed && clock_.NowMs() < path->quiet_ms) continue;
    if (longest == nullptr || path->lost_ms < longest->lost_ms) longest = path.get();
  }
  if (longest == nullptr) return std::nullopt;
  const std::string why(longest->problem.message());
  const std::string& name = longest->lun->name();  // most messages begin with it
  return Lost{.problem = absl::StartsWith(why, name) ? why : absl::StrCat(name, ": ", why),
              .lun = longest->uuid,
              .since_ms = longest->lost_ms};
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
  bool rekey = false;
  {
    MutexLock lock(mutex_);
    rekey = std::exchange(path.rekey, false);
  }
  absl::Status status = TryMend(path, rekey, &session);
  MutexLock lock(mutex_);
  if (stopping_) return;
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
    const auto due = [&] { return stopping_ || again || path.again || clock_.NowMs() >= until_ms; };
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
  return status;
}

bool LunPaths::IsQuiet(const Path& path) const {
  MutexLock lock(mutex_);
  return clock_.NowMs() >= path.quiet_ms;
}

// The session's own key is for one path each; every later path gets one that is granted for it.
absl::StatusOr<std::uint64_t> LunPaths::KeyFor(Path& path, std::uint64_t session) {
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

// ---- begin and end ----------------------------------------------------------------------------

absl::Status LunPaths::Begin() {
  OnRegistered(session_.session_id(), session_.key());
  const std::uint64_t until_ms = clock_.NowMs() + FirstRegistrationMs();
  MutexLock lock(mutex_);
  auto waits = paths_.end();
  const auto done = [&] {
    waits =
        std::find_if(paths_.begin(), paths_.end(), [](const auto& path) { return path->mending; });
    return waits == paths_.end();
  };
  return WaitFor(changed_, mutex_, done, [&] {
    if (clock_.NowMs() < until_ms) return absl::OkStatus();
    return absl::UnavailableError(
        absl::StrCat("this host cannot be registered on ", (*waits)->lun->name(), ": ",
                     (*waits)->problem.ok() ? "no answer" : (*waits)->problem.message()));
  });
}

void LunPaths::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  menders_.Stop();
}

bool LunPaths::End() {
  bool clean = true;
  for (const std::unique_ptr<Path>& path : paths_) {
    const bool lost = (path->users.load() & kClosed) != 0;
    Close(*path);
    const bool empty = AwaitEmpty(*path, LastIoMs());
    if (path->key == 0) {
      // Nobody but us knows of it: with the goodbye its blocks become others'.
      while (!NeedsKey(*path) && !IsQuiet(*path)) {
        MutexLock lock(mutex_);
        changed_.WaitFor(mutex_, kPoll);
      }
      clean = clean && empty && !(lost && NeedsKey(*path));
    } else {
      clean = !lost && empty && path->lun->reservations()->Unregister(path->key).done() && clean;
    }
  }
  return clean;
}

}  // namespace reel::client
