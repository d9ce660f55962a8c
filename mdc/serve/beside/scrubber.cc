#include "mdc/serve/beside/scrubber.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/check/checker.h"
#include "proto/convert.h"

namespace reel::mdc {
namespace {

// Works at least so long at a time, and rests so many times that.
constexpr std::uint64_t kTurnMs = 5;
constexpr std::uint64_t kRestOfWork = 3;
constexpr std::uint64_t kLongestRestMs = 1'000;
constexpr std::uint64_t kTellMs = 500;
constexpr std::uint64_t kGrowthMs = 200;

std::uint64_t RecordsIn(const MetaDb& db) {
  for (const auto& [name, value] : db.Counters()) {
    if (name == "keys_estimated") return value;
  }
  return 0;
}

}  // namespace

void Scrubber::Look() {
  MutexLock lock(mutex_);
  if (stopping_) return;
  changed_ = true;
  if (!thread_.joinable()) thread_ = Thread([this] { Main(); });
  wake_.NotifyAll();
}

void Scrubber::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wake_.NotifyAll();
  }
  if (thread_.joinable()) thread_.Join();
}

void Scrubber::Main() {
  for (;;) {
    {
      MutexLock lock(mutex_);
      while (!changed_ && !stopping_) wake_.Wait(mutex_);
      if (stopping_) return;
      changed_ = false;
    }
    const auto begun = Begin();
    if (!begun.ok()) return;
    if (begun->later) {
      bool changed = false;
      if (!Rest(kGrowthMs, &changed)) return;
      MutexLock lock(mutex_);
      changed_ = true;
    } else if (begun->order) {
      const auto found = Check(*begun);
      const JobId job = begun->order->job;
      (void)AskCore<bool>(served_.run_on_core, [job, found](Core& core) -> absl::StatusOr<bool> {
        // (Where it was stopped, the core knows.)
        if (!absl::IsCancelled(found.status())) core.EndScrub(job, found);
        return true;
      });
      // Another one may have begun, of which the rests have heard.
      MutexLock lock(mutex_);
      changed_ = true;
    }
  }
}

absl::StatusOr<Scrubber::Begun> Scrubber::Begin() {
  return AskCore<Begun>(served_.run_on_core, [this](Core& core) -> absl::StatusOr<Begun> {
    std::optional<std::vector<Run>> regions = served_.regions();
    if (!regions) return Begun{.order = {}, .regions = {}, .later = true};
    return Begun{.order = core.BeginScrub(), .regions = *std::move(regions)};
  });
}

absl::StatusOr<v1::ScrubRecord> Scrubber::Check(const Begun& begun) {
  const Core::ScrubOrder& order = *begun.order;
  const std::uint64_t now_ms = served_.clock.NowMs();
  Pace pace{.job = order.job,
            .rate_records = order.rate_records,
            .total = RecordsIn(served_.db),
            .began_ms = now_ms,
            .resumed_ms = now_ms,
            .gave_up = {}};
  v1::ScrubRecord found;
  const CheckSink sink{.on_phase = {}, .on_problem = [&](const Problem& problem) {
                         if (found.lines_size() == kKeptLines) return;
                         found.add_lines(absl::StrCat(problem.where, ": ", problem.what));
                       }};
  const CheckBounds bounds{.go_on = [&](std::uint64_t records) { return GoOn(pace, records); },
                           .most_bytes = served_.most_bytes};
  const auto totals = CheckSnapshot({*order.view, order.volume, begun.regions}, sink, bounds);
  if (!pace.gave_up.ok()) return pace.gave_up;
  if (absl::IsResourceExhausted(totals.status())) {
    return absl::ResourceExhaustedError(
        absl::StrCat(totals.status().message(),
                     "; raise scrub_memory_mib in the controller's configuration, or stop the "
                     "volume and run fsck.reelfs"));
  }
  if (!totals.ok()) return totals.status();
  *found.mutable_as_of() = ToProto(order.as_of);
  found.set_looked_records(pace.looked);
  found.set_total_records(pace.looked);
  found.set_problems(totals->problems);
  found.set_files(totals->files);
  found.set_directories(totals->directories);
  found.set_extents(totals->extents);
  found.set_pieces(totals->pieces);
  for (const std::uint64_t files : totals->files_by_pieces) found.add_files_by_pieces(files);
  return found;
}

std::uint64_t Scrubber::RestMs(const Pace& pace) const {
  const std::uint64_t now_ms = served_.clock.NowMs();
  if (pace.rate_records > 0) {
    const std::uint64_t due_ms = pace.began_ms + pace.looked * 1000 / pace.rate_records;
    return due_ms > now_ms ? due_ms - now_ms : 0;
  }
  const std::uint64_t worked_ms = now_ms - pace.resumed_ms;
  return worked_ms < kTurnMs ? 0 : std::min(kRestOfWork * worked_ms, kLongestRestMs);
}

bool Scrubber::Rest(std::uint64_t rest_ms, bool* changed) {
  const std::uint64_t until_ms = served_.clock.NowMs() + rest_ms;
  MutexLock lock(mutex_);
  for (std::uint64_t now_ms = served_.clock.NowMs(); !stopping_ && !changed_ && now_ms < until_ms;
       now_ms = served_.clock.NowMs()) {
    wake_.WaitFor(mutex_, std::chrono::milliseconds(until_ms - now_ms));
  }
  *changed = std::exchange(changed_, false);
  return !stopping_;
}

bool Scrubber::GoOn(Pace& pace, std::uint64_t records) {
  pace.looked += records;
  const std::uint64_t rest_ms = RestMs(pace);
  bool changed = false;
  if (!Rest(rest_ms, &changed)) return false;
  const std::uint64_t now_ms = served_.clock.NowMs();
  if (rest_ms > 0) pace.resumed_ms = now_ms;
  if (served_.fs.FreeBytes() < served_.fs.ReservedBytes()) {
    pace.gave_up = absl::ResourceExhaustedError(
        "the metadata store has no room to keep what the scrub has yet to look at; begin it again "
        "when less is being changed");
    return false;
  }
  if (!changed && now_ms < pace.told_ms + kTellMs) return true;
  pace.told_ms = now_ms;
  const auto runs = AskCore<bool>(served_.run_on_core, [&pace](Core& core) -> absl::StatusOr<bool> {
    return core.NoteScrub(pace.job, pace.looked, pace.total);
  });
  return runs.ok() && *runs;
}

}  // namespace reel::mdc
