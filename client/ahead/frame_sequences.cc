#include "client/ahead/frame_sequences.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "volume/base/types.h"

namespace reel::client {
namespace {

constexpr std::size_t kMaxOpened = 8;    // numbers of a sequence that a step is looked for in
constexpr std::size_t kMaxReadings = 4;  // of which the longest counts
constexpr std::int64_t kMaxStep = 256;
constexpr std::int64_t kMaxNumber = 1'000'000'000'000'000'000;
// Players with several threads do not open in order.
constexpr std::int64_t kSlackSteps = 8;
constexpr std::uint64_t kChunkBytes = 1 * kMiB;  // memory is taken in such pieces

// Whether this is the third by that step: of what lies between, nothing else was opened of late.
bool IsThird(const std::deque<std::int64_t>& opened, std::int64_t number, std::int64_t step) {
  if (step == 0 || std::abs(step) > kMaxStep) return false;
  const auto [low, high] = std::minmax({number, number - 2 * step});
  bool first = false;
  for (const std::int64_t other : opened) {
    first = first || other == number - 2 * step;
    if (low < other && other < high && other != number - step) return false;
  }
  return first;
}

// The step by which this is the third of what was opened of late, the newest one that fits. Where
// it may belong to a stream already, that has to be the last ones, one after the other: threads
// that open out of order turn no stream.
std::optional<std::int64_t> StepOf(const std::deque<std::int64_t>& opened, std::int64_t number,
                                   bool in_a_row) {
  if (in_a_row) {
    if (opened.size() < 2) return std::nullopt;
    const std::int64_t step = number - opened.back();
    const bool follows = opened[opened.size() - 2] == opened.back() - step;
    return follows && IsThird(opened, number, step) ? std::optional(step) : std::nullopt;
  }
  for (auto before = opened.rbegin(); before != opened.rend(); ++before) {
    if (IsThird(opened, number, number - *before)) return number - *before;
  }
  return std::nullopt;
}

template <typename Queue, typename Value>
void PushBounded(Queue& queue, Value value, std::size_t most) {
  if (queue.size() >= most) queue.pop_front();
  queue.push_back(std::move(value));
}

}  // namespace

std::optional<std::int64_t> FrameSequences::Stream::StepsTo(std::int64_t number) const {
  const std::int64_t distance = number - last;
  if (distance % step != 0 || std::abs(distance / step) > kSlackSteps) return std::nullopt;
  return distance / step;
}

FrameSequences::Plan FrameSequences::Open(const Opened& opened) {
  Plan plan;
  Forget(opened.now_ms, plan);
  bool known = false;
  for (auto it = patterns_.begin(); it != patterns_.end();) {
    const auto pattern = it++;
    if (pattern->directory != opened.directory) continue;
    const auto number = pattern->form.NumberOf(opened.name);
    if (!number) continue;
    known = true;
    pattern->opened_ms = opened.now_ms;
    Follow(*pattern, static_cast<std::int64_t>(*number), opened, plan);
    plan.played = plan.played || !pattern->streams.empty();
    patterns_.splice(patterns_.begin(), patterns_, pattern);
  }
  if (!known) FindPattern(opened, plan);
  return plan;
}

void FrameSequences::Forget(std::uint64_t now_ms, Plan& plan) {
  std::erase_if(names_, [&](const Name& name) { return now_ms - name.opened_ms > kPauseMs; });
  patterns_.remove_if([&](const Pattern& pattern) {
    const bool paused = now_ms - pattern.opened_ms > kPauseMs;
    if (paused) End(pattern, plan);
    return paused;
  });
  for (Pattern& pattern : patterns_) {
    std::erase_if(pattern.streams, [&](const Stream& stream) {
      const bool paused = now_ms - stream.opened_ms > kPauseMs;
      if (paused) plan.ended.push_back(stream.id);
      return paused;
    });
  }
}

void FrameSequences::End(const Pattern& pattern, Plan& plan) {
  for (const Stream& stream : pattern.streams) plan.ended.push_back(stream.id);
}

void FrameSequences::FindPattern(const Opened& opened, Plan& plan) {
  for (auto before = names_.rbegin(); before != names_.rend(); ++before) {
    if (before->directory != opened.directory) continue;
    if (before->name == opened.name) return;
    std::optional<FramePattern> form = PatternOf(before->name, opened.name);
    if (!form) continue;
    const auto first = form->NumberOf(before->name);
    const auto second = form->NumberOf(opened.name);
    if (!first || !second) continue;
    if (patterns_.size() >= kMaxPatterns) {
      End(patterns_.back(), plan);
      patterns_.pop_back();
    }
    Pattern& pattern = patterns_.emplace_front();
    pattern.directory = opened.directory;
    pattern.form = *std::move(form);
    pattern.opened = {static_cast<std::int64_t>(*first), static_cast<std::int64_t>(*second)};
    pattern.opened_ms = opened.now_ms;
    break;
  }
  PushBounded(names_, Name{opened.directory, std::string(opened.name), opened.now_ms}, kMaxNames);
}

void FrameSequences::Follow(Pattern& pattern, std::int64_t number, const Opened& opened,
                            Plan& plan) {
  if (!pattern.opened.empty() && pattern.opened.back() == number) return;  // once more
  Stream* stream = nullptr;
  for (Stream& candidate : pattern.streams) {
    if (candidate.StepsTo(number) == 1) stream = &candidate;
  }
  if (stream == nullptr) {
    Stream* near = nullptr;
    for (Stream& candidate : pattern.streams) {
      if (candidate.StepsTo(number)) near = &candidate;
    }
    const std::optional<std::int64_t> step =
        StepOf(pattern.opened, number, /*in_a_row=*/near != nullptr);
    if (step && (near == nullptr || near->step != *step)) {
      stream = &Begin(pattern, number, *step, near, plan);
      stream->opened_ms = opened.now_ms;
    } else {
      stream = near;
    }
  }
  PushBounded(pattern.opened, number, kMaxOpened);
  const std::uint64_t followed = stream == nullptr ? 0 : stream->id;
  std::erase_if(pattern.streams, [&](const Stream& other) {
    const bool left = other.id != followed && other.IsLeft(opened.now_ms);
    if (left) plan.ended.push_back(other.id);
    return left;
  });
  if (stream == nullptr) return;
  stream = &*std::ranges::find(pattern.streams, followed, &Stream::id);
  Advance(*stream, number, opened.now_ms);
  Ask(pattern, *stream, opened, plan);
}

// `turned`: the stream that has become this one, if any.
FrameSequences::Stream& FrameSequences::Begin(Pattern& pattern, std::int64_t number,
                                              std::int64_t step, Stream* turned, Plan& plan) {
  if (turned == nullptr && pattern.streams.size() >= kMaxStreams) {
    turned = &*std::min_element(
        pattern.streams.begin(), pattern.streams.end(),
        [](const Stream& a, const Stream& b) { return a.opened_ms < b.opened_ms; });
  }
  if (turned == nullptr) turned = &pattern.streams.emplace_back();
  if (turned->id != 0) plan.ended.push_back(turned->id);
  *turned = {.id = ++last_id_,
             .step = step,
             .last = number,
             .next_name = number + step,
             .next_bytes = number + step};
  return *turned;
}

void FrameSequences::Advance(Stream& stream, std::int64_t number, std::uint64_t now_ms) {
  const std::int64_t steps = *stream.StepsTo(number);
  if (steps > 0) {
    const std::uint64_t interval_ms =
        (now_ms - stream.opened_ms) / static_cast<std::uint64_t>(steps);
    stream.interval_ms =
        stream.interval_ms == 0 ? interval_ms : (3 * stream.interval_ms + interval_ms) / 4;
    // It was right.
    if (stream.IsBehind(number, stream.next_name)) {
      stream.frames_ahead = std::min(stream.frames_ahead + 1, kFramesAhead);
    }
    stream.last = number;
    const std::int64_t next = number + stream.step;
    if (stream.IsBehind(stream.next_name, next)) stream.next_name = next;
    if (stream.IsBehind(stream.next_bytes, next)) stream.next_bytes = next;
    if (stream.missing && stream.IsBehind(*stream.missing, next)) stream.missing.reset();
  }
  stream.opened_ms = now_ms;
}

void FrameSequences::Ask(const Pattern& pattern, Stream& stream, const Opened& opened,
                         Plan& plan) const {
  const Part part = PartOf(pattern, stream, opened);
  for (std::uint64_t i = 1; i <= stream.frames_ahead; ++i) {
    const auto steps = static_cast<std::int64_t>(i);
    const std::int64_t number = stream.last + steps * stream.step;
    if (number < 0 || number > kMaxNumber) return;
    const bool missing = stream.missing == number;
    if (missing && steps > kNearFrames) return;
    const bool with_bytes = i <= part.frames && !stream.IsBehind(number, stream.next_bytes);
    if (!with_bytes && stream.IsBehind(number, stream.next_name)) continue;
    const auto frame = static_cast<std::uint64_t>(number);
    plan.fetch.push_back({.stream = stream.id,
                          .directory = pattern.directory,
                          .number = frame,
                          .name = pattern.form.NameOf(frame),
                          .bytes = with_bytes ? part.bytes : 0});
    stream.next_name = std::max({stream.next_name, number + stream.step},
                                [&](auto a, auto b) { return stream.IsBehind(a, b); });
    if (with_bytes) stream.next_bytes = number + stream.step;
    if (!missing) continue;
    stream.missing.reset();
    return;
  }
}

FrameSequences::Part FrameSequences::PartOf(const Pattern& pattern, const Stream& stream,
                                            const Opened& opened) const {
  std::uint64_t bytes = 0;
  for (const Reading& reading : pattern.readings) {
    bytes = std::max(bytes, reading.whole ? opened.size_bytes : reading.to_bytes);
  }
  if (bytes == 0 || opened.memory_bytes == 0) return {};
  std::size_t streams = 0;
  for (const Pattern& each : patterns_) streams += each.streams.size();
  const std::uint64_t memory_bytes = opened.memory_bytes / std::max<std::size_t>(streams, 1);
  // (One of them is still being read.)
  const std::uint64_t room = memory_bytes / RoundUp(bytes, kChunkBytes);
  const std::uint64_t due = stream.interval_ms == 0
                                ? kFramesAhead
                                : std::max<std::uint64_t>(kDueMs / stream.interval_ms, 1);
  if (stream.interval_ms > kDueMs) return {};
  return {.bytes = std::min(bytes, memory_bytes),
          .frames = std::min(std::max<std::uint64_t>(room, 2) - 1, due)};
}

void FrameSequences::Close(std::uint64_t directory, std::string_view name,
                           std::uint64_t read_to_bytes, std::uint64_t size_bytes) {
  for (Pattern& pattern : patterns_) {
    if (pattern.directory != directory || !pattern.form.NumberOf(name)) continue;
    PushBounded(pattern.readings, Reading{read_to_bytes, read_to_bytes >= size_bytes},
                kMaxReadings);
  }
}

void FrameSequences::NoteMissing(const Frame& frame) {
  const auto number = static_cast<std::int64_t>(frame.number);
  for (Pattern& pattern : patterns_) {
    for (Stream& stream : pattern.streams) {
      if (stream.id != frame.stream || stream.IsBehind(number, stream.last)) continue;
      if (!stream.missing || stream.IsBehind(number, *stream.missing)) stream.missing = number;
      if (stream.IsBehind(number, stream.next_name)) stream.next_name = number;
      if (stream.IsBehind(number, stream.next_bytes)) stream.next_bytes = number;
    }
  }
}

}  // namespace reel::client
