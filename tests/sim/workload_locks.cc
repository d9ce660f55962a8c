// Locks that are held for long, at the end of all bytes, in great numbers, or wanted in vain.
#include <algorithm>
#include <cerrno>
#include <vector>

#include "absl/strings/str_cat.h"
#include "proto/status.h"
#include "tests/sim/workload.h"

namespace reel::sim {
namespace {

constexpr std::uint64_t kToEnd = client::FileLocks::kToEnd;

}  // namespace

std::vector<LockRange> Program::AnyLockRanges() {
  switch (random().Below(5)) {
    case 0:  // as databases do: one byte each
      return {{.first = random().Below(4), .last = 0}};
    case 1:  // the last one there is
      return {{.first = kToEnd, .last = kToEnd}};
    case 2:
      return {{.first = random().Between(1, 64), .last = kToEnd}};
    default:
      break;
  }
  std::vector<LockRange> ranges;
  const std::uint64_t first = random().Below(4);
  for (std::uint64_t i = 0; i < random().Between(4, 12); ++i) {
    ranges.push_back({.first = first + 2 * i, .last = first + 2 * i});
  }
  return ranges;
}

void Program::CheckLocked(std::uint64_t inode, const absl::Status& status, bool wait,
                          bool gives_up) {
  const int error = ErrnoOf(status);
  const bool answers = error == (wait ? EDEADLK : EAGAIN) || (gives_up && error == EINTR);
  // (A lock that went with a session is no more until the file is closed.)
  CheckError("lock", inode, status, answers || IsLostFile(status, opened_));
}

void Program::DoneLocking(Micros began) {
  ++shared_.done;
  if (!shared_.cluster.AnyCutSince(began)) CheckPause(began);
}

// As LockOnce, with locks of all kinds, and the file is used under them.
void Program::LockAtLength(std::uint64_t inode) {
  const bool whole = random().OneIn(3);
  std::vector<LockRange> ranges = AnyLockRanges();
  if (whole) ranges = {{.first = 0, .last = kToEnd}};
  client::FileLocks::Lock lock{.inode = inode,
                               .kind = whole ? v1::LOCK_WHOLE : v1::LOCK_RANGES,
                               .owner = handle_,
                               .handle = handle_,
                               .range = {},
                               .type = random().OneIn(3) ? v1::LOCK_SHARED : v1::LOCK_EXCLUSIVE,
                               .pid = 1};
  LockModel& model = shared_.cluster.locks();
  bool any = false;
  for (LockRange range : ranges) {
    lock.range = {range.first, std::max(range.first, range.last)};
    // Whoever holds one waits for none: nobody would find out that two wait for each other's.
    const client::InterruptWhen alarm(  // a signal that comes at some time
        [this, at = now() + random().Between(10, 300 * kMs)] { return now() >= at; });
    const bool wait = !any && random().OneIn(2);
    const bool gives_up = wait && random().OneIn(2);
    const Micros began = now();
    const absl::Status status = machine_.locks().Set(lock, wait, gives_up ? &alarm : nullptr);
    Log([&] {
      return absl::StrCat("[", began, ", ", now(), "] lock of inode ", inode, ", ",
                          lock.range.first, " to ", lock.range.last, whole ? ", flock" : "", " by ",
                          handle_, ": ", status.ToString());
    });
    DoneLocking(began);
    CheckLocked(inode, status, wait, gives_up);
    if (!status.ok()) break;
    any = true;
    shared_.cluster.moments().Note(Moment::kLocked, machine_.host());
    if (!data().Unaware(machine_.host())) {
      model.Granted({.inode = inode,
                     .host = machine_.host(),
                     .owner = handle_,
                     .first = lock.range.first,
                     .last = lock.range.last,
                     .exclusive = lock.type == v1::LOCK_EXCLUSIVE,
                     .whole = whole});
    }
  }
  if (any) UseUnderLock(inode);
  model.GivenUp(inode, machine_.host(), handle_);
  machine_.locks().Release(inode, handle_, nullptr);
}

// As F_GETLK, for what somebody is known to hold: also while another controller takes over, and
// after that.
void Program::LookForLocks() {
  LockModel& model = shared_.cluster.locks();
  const std::uint64_t times = random().Between(1, 4);
  for (std::uint64_t i = 0; i < times && !model.held().empty(); ++i) {
    const LockModel::Held held = model.held()[random().Below(model.held().size())];
    NextHandle();
    const client::FileLocks::Lock lock{
        .inode = held.inode,
        .kind = held.whole ? v1::LOCK_WHOLE : v1::LOCK_RANGES,
        .owner = handle_,
        .handle = handle_,
        .range = {held.first, held.last},
        .type = held.exclusive && random().OneIn(2) ? v1::LOCK_SHARED : v1::LOCK_EXCLUSIVE,
        .pid = 1};
    const Micros began = now();
    const auto found = machine_.locks().Test(lock, nullptr);
    Log([&] {
      return absl::StrCat("[", began, ", ", now(), "] looks for a lock of inode ", held.inode, ", ",
                          held.first, " to ", held.last, ": ", found.status().ToString(),
                          found.ok() && found->has_value() ? "" : ", none");
    });
    Done(began);
    CheckError("a look for locks", held.inode, found.status(), IsExplained(found.status(), began));
    if (found.ok() && !found->has_value()) model.Missed(held);
    shared_.cluster.scheduler().Sleep(random().Between(10, 100 * kMs));
  }
}

void Program::UseUnderLock(std::uint64_t inode) {
  for (std::uint64_t i = random().Below(3); i > 0; --i) {
    random().OneIn(2) ? Write(inode, AnyRange()) : (void)Read(inode, AnyRange());
  }
  shared_.cluster.scheduler().Sleep(
      random().Between(10, random().OneIn(3) ? 3'000 * kMs : 20 * kMs));
}

}  // namespace reel::sim
