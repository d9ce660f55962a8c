#include "tools/bench/frames/frame_player.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <limits>
#include <optional>
#include <thread>

#include "volume/base/mutex.h"

namespace reel::bench {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::nanoseconds;

class Player {
 public:
  Player(FrameFiles& files, const PlayOptions& options, std::atomic<bool>& stop)
      : files_(files),
        options_(options),
        stop_(stop),
        schedule_(options.schedule),
        order_(options.pattern, options.numbers, options.seed),
        begin_(Clock::now()),
        total_(options.frames == 0 ? std::numeric_limits<std::uint64_t>::max() : options.frames),
        preroll_(std::min(schedule_.preroll(), total_)) {
    if (preroll_ == 0) clock_ = begin_;
  }

  absl::StatusOr<StreamRun> Run() {
    std::vector<std::thread> threads;
    for (std::uint32_t i = 0; i < options_.threads; ++i) threads.emplace_back([this] { Work(); });
    for (std::thread& thread : threads) thread.join();
    const MutexLock lock(mutex_);
    if (!status_.ok()) return status_;
    StreamRun run{.write = options_.schedule.write, .frames = std::move(records_)};
    run.seconds = std::chrono::duration<double>(Clock::now() - begin_).count();
    std::sort(run.frames.begin(), run.frames.end(),
              [](const FrameRecord& a, const FrameRecord& b) { return a.frame < b.frame; });
    return run;
  }

 private:
  struct Task {
    std::uint64_t frame, number;
    Clock::time_point clock;  // when the stream's clock started; its making while it has not
  };

  // The next frame that is worth beginning with. None: the stream is over.
  std::optional<Task> Take() {
    MutexLock lock(mutex_);
    while (!stop_ && next_ < total_) {
      if (next_ >= preroll_ && !clock_) {
        started_.Wait(mutex_);
        continue;
      }
      const auto passed = Clock::now() - begin_;
      if (options_.frames == 0 && passed >= std::chrono::duration<double>(options_.seconds)) break;
      const Task task{next_++, order_.Next(), clock_.value_or(begin_)};
      if (!schedule_.IsOver(task.frame, SinceNs(task.clock))) return task;
      records_.push_back({.frame = task.frame,
                          .number = task.number,
                          .verdict = FrameSchedule::Verdict::kDropped,
                          .at_s = std::chrono::duration<double>(passed).count()});
    }
    return std::nullopt;
  }

  void Work() {
    AlignedBuffer buffer = files_.MakeBuffer();
    while (const std::optional<Task> task = Take()) {
      if (schedule_.has_clock() && task->frame >= preroll_) {
        std::this_thread::sleep_until(task->clock + nanoseconds(schedule_.MayStartNs(task->frame)));
      }
      Note(*task, DoFrame(*task, buffer));
    }
  }

  absl::StatusOr<FrameTimes> DoFrame(const Task& task, AlignedBuffer& buffer) {
    if (options_.schedule.write) return files_.Write(task.number, buffer);
    const auto go_on = [&] { return !stop_ && !schedule_.IsOver(task.frame, SinceNs(task.clock)); };
    if (absl::Status s = files_.Await(task.number, go_on); !s.ok()) return s;
    return files_.Read(task.number, buffer);
  }

  void Note(const Task& task, const absl::StatusOr<FrameTimes>& times) {
    const auto now = Clock::now();
    MutexLock lock(mutex_);
    const std::int64_t done_ns = SinceNs(task.clock, now);
    FrameRecord record{.frame = task.frame,
                       .number = task.number,
                       .verdict = schedule_.Judge(task.frame, done_ns),
                       .done = times.ok(),
                       .at_s = std::chrono::duration<double>(now - begin_).count()};
    if (times.ok()) record.times = *times;
    if (schedule_.has_clock() && task.frame >= preroll_) {
      record.spare_ms = static_cast<double>(schedule_.DueNs(task.frame) - done_ns) / 1e6;
    }
    if (absl::IsCancelled(times.status())) {
      record.verdict = FrameSchedule::Verdict::kDropped;
      if (stop_) return started_.NotifyAll();  // the whole test ended early
    } else if (!times.ok()) {
      if (status_.ok()) status_ = times.status();
      stop_ = true;
      return started_.NotifyAll();
    }
    records_.push_back(record);
    if (task.frame < preroll_ && ++prerolled_ == preroll_) {
      clock_ = now;
      started_.NotifyAll();
    }
  }

  static std::int64_t SinceNs(Clock::time_point begin, Clock::time_point now = Clock::now()) {
    return std::chrono::duration_cast<nanoseconds>(now - begin).count();
  }

  FrameFiles& files_;
  const PlayOptions options_;
  std::atomic<bool>& stop_;
  const FrameSchedule schedule_;
  Mutex mutex_;
  CondVar started_;
  FrameOrder order_ ABSL_GUARDED_BY(mutex_);
  const Clock::time_point begin_;
  const std::uint64_t total_;
  const std::uint64_t preroll_;
  std::optional<Clock::time_point> clock_ ABSL_GUARDED_BY(mutex_);
  std::uint64_t next_ ABSL_GUARDED_BY(mutex_) = 0;
  std::uint64_t prerolled_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<FrameRecord> records_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<StreamRun> Play(FrameFiles& files, const PlayOptions& options,
                               std::atomic<bool>& stop) {
  return Player(files, options, stop).Run();
}

}  // namespace reel::bench
