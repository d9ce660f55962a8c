#include "client/luns/lun_paths.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <numeric>
#include <utility>

#include "absl/strings/cord.h"
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
    : session_(session),
      clock_(clock),
      soft_ms_(options.soft_timeout_ms),
      notes_times_(options.notes_times),
      menders_(kMenders) {
  paths_.reserve(kMaxLunsPerVolume);
  TakeLuns(volume);
  MutexLock lock(mutex_);
  for (const std::unique_ptr<Path>& path : paths_) path->joins = false;
  taken_map_ = volume.descriptor.generation;
}

std::vector<std::uint32_t> LunPaths::TakeLuns(const OpenVolume& volume) {
  std::vector<std::uint32_t> numbers;
  MutexLock lock(mutex_);
  for (const std::unique_ptr<Path>& path : paths_) {
    const auto is_lun = [&](const auto& lun) { return lun.get() == path->lun; };
    if (!path->gone && std::ranges::none_of(volume.luns, is_lun)) LetGo(*path);
  }
  for (const Pool& pool : volume.descriptor.pools) {
    for (const StripeSet& set : pool.sets) {
      for (const LunEntry& entry : set.luns) {
        if (numbers.size() == volume.luns.size()) return numbers;
        const Lun* const lun = volume.luns[numbers.size()].get();
        const auto is_lun = [&](const auto& path) { return path->lun == lun; };
        const auto known = std::find_if(paths_.begin(), paths_.end(), is_lun);
        const auto number = static_cast<std::uint32_t>(known - paths_.begin());
        if (known == paths_.end()) AddPath(volume, numbers.size(), pool, entry.lun);
        numbers.push_back(number);
      }
    }
  }
  return numbers;
}

void LunPaths::AddPath(const OpenVolume& volume, std::size_t index, const Pool& pool,
                       const Uuid& uuid) {
  auto added = std::make_unique<Path>();
  Path& path = *added;
  path.lun = volume.luns[index].get();
  path.uuid = uuid;
  path.may_write =
      (pool.flags & Pool::kData) != 0 && path.lun->has_reservations() && !path.lun->read_only();
  path.joins = true;
  const bool keyed = granted_key_ != 0 && path.may_write;
  if (keyed) Close(path);
  paths_.push_back(std::move(added));
  if (!keyed) return;
  path.rekey = true;
  StartMending(path);
}

void LunPaths::LetGo(Path& path) {
  path.gone = true;
  if (std::exchange(path.lost_ms, 0) != 0) --lost_;
  if (std::exchange(path.begun_without, false)) --begun_without_;
  Close(path);
  StartMending(path);
  changed_.NotifyAll();
}

bool LunPaths::IsGone(std::uint32_t number) const {
  MutexLock lock(mutex_);
  return paths_[number]->gone;
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

bool LunPaths::IsOver(const IoPermit& permit) const {
  return !PermitHolds(permit) && !(permit.landed && session_.session_id() == permit.session);
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
    if (IsOver(permit)) return PermitOver("the session or its lease is over");
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
    return (closed == luns.end() && PermitHolds(permit)) || stopping_ || IsOver(permit);
  };
  return WaitFor(changed_, mutex_, done, [&] {
    mutex_.AssertHeld();
    if (closed == luns.end()) return WaitEnds(permit, since_ms, "the lease is over");
    const Path& path = *paths_[*closed];
    if (path.gone) return ErrnoStatus(EIO, absl::StrCat(path.lun->name(), ": has been removed"));
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

// ---- begin and end ----------------------------------------------------------------------------

absl::Status LunPaths::Begin() {
  OnRegistered(session_.session_id(), session_.key());
  std::vector<std::uint32_t> all(paths_.size());
  std::iota(all.begin(), all.end(), 0);
  return AwaitUsable(all);
}

absl::Status LunPaths::AwaitUsable(std::span<const std::uint32_t> luns) {
  const std::uint64_t until_ms = clock_.NowMs() + FirstRegistrationMs();
  MutexLock lock(mutex_);
  auto waits = luns.end();
  const auto done = [&] {
    waits = std::find_if(luns.begin(), luns.end(), [&](std::uint32_t lun) {
      return paths_[lun]->mending && !paths_[lun]->gone;
    });
    return waits == luns.end() || stopping_;
  };
  const absl::Status status = WaitFor(changed_, mutex_, done, [&] {
    mutex_.AssertHeld();
    if (clock_.NowMs() < until_ms) return absl::OkStatus();
    const Path& path = *paths_[*waits];
    return absl::UnavailableError(
        absl::StrCat("this host cannot be registered on ", path.lun->name(), ": ",
                     path.problem.ok() ? "no answer" : path.problem.message()));
  });
  if (status.ok() && stopping_) return ErrnoStatus(ESHUTDOWN, "the file system is being unmounted");
  return status;
}

// ---- maps -------------------------------------------------------------------------------------

void LunPaths::AnnounceMap(std::uint64_t generation) {
  MutexLock lock(mutex_);
  announced_map_ = std::max(announced_map_, generation);
}

void LunPaths::MapTaken(std::uint64_t generation) {
  MutexLock lock(mutex_);
  taken_map_ = std::max(taken_map_, generation);
  changed_.NotifyAll();
}

absl::Status LunPaths::AwaitMapAfter(std::uint64_t generation, const IoPermit& permit) {
  const std::uint64_t since_ms = clock_.NowMs();
  MutexLock lock(mutex_);
  if (taken_map_ <= generation && announced_map_ <= generation) {
    return absl::OutOfRangeError("there is no later map of the volume");
  }
  const auto done = [&] {
    mutex_.AssertHeld();
    return taken_map_ > generation || stopping_;
  };
  absl::Status status = WaitFor(changed_, mutex_, done, [&] {
    return WaitEnds(permit, since_ms, "this host has not taken the volume's new map yet");
  });
  if (status.ok() && stopping_) return ErrnoStatus(ESHUTDOWN, "the file system is being unmounted");
  return status;
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
    if (path->gone) {
      if (path->key != 0) (void)path->lun->reservations()->Unregister(path->key);
    } else if (path->key == 0) {
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
