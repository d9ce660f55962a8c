#include "mdc/inspect/measurement.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "proto/request_kind.h"

namespace reel::mdc {

std::uint64_t NowUs() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

void Measurement::Begin(v1::MeasureRequest::What what, std::vector<Core::Connected> targets,
                        std::uint64_t now_us) {
  what_ = what;
  since_us_ = now_us;
  targets_.clear();
  for (Core::Connected& target : targets) {
    const StreamId stream = target.stream;
    targets_[stream].who = std::move(target);
  }
}

Measurement::Target* Measurement::Find(StreamId stream) {
  const auto found = targets_.find(stream);
  return found == targets_.end() ? nullptr : &found->second;
}

std::vector<std::pair<StreamId, v1::Callback>> Measurement::Pings(std::uint64_t now_us) {
  std::vector<std::pair<StreamId, v1::Callback>> pings;
  if (now_us - since_us_ > kMostMs * 1000) what_ = v1::MeasureRequest::COLLECT;
  if (what_ != v1::MeasureRequest::ROUND_TRIPS) return pings;
  for (auto& [stream, target] : targets_) {
    if (!target.who.knows_ping || target.ping) continue;
    v1::Callback& ping = pings.emplace_back(stream, v1::Callback()).second;
    ping.mutable_ping()->set_number(++last_ping_);
    target.ping = Target::Ping{last_ping_, now_us};
  }
  return pings;
}

void Measurement::Arrived(StreamId stream, const v1::Request& request, std::uint64_t now_us) {
  if (!request.has_pong()) return;
  Target* const target = Find(stream);
  if (target == nullptr || !target->ping || target->ping->number != request.pong().number()) return;
  target->times["round trip"].Add(now_us - target->ping->at_us);
  target->ping.reset();
}

void Measurement::Answered(StreamId stream, const OperationTimes::Took& took) {
  if (what_ != v1::MeasureRequest::OPERATIONS) return;
  if (Target* const target = Find(stream)) target->times[NameOf(took.op)].Add(took.us);
}

void Measurement::Describe(std::uint64_t now_us, v1::MeasureReply& reply) const {
  reply.set_elapsed_ms((now_us - since_us_) / 1000);
  std::map<SessionId, const Target*> sorted;
  for (const auto& [stream, target] : targets_) sorted[target.who.session] = &target;
  for (const auto& [session, target] : sorted) {
    const auto add = [&, session = session, target = target]() -> v1::MeasureReply::Series& {
      v1::MeasureReply::Series& series = *reply.add_series();
      series.set_session(session.value());
      series.set_host(target->who.host);
      return series;
    };
    for (const auto& [name, times] : target->times) {
      v1::MeasureReply::Series& series = add();
      series.set_name(name);
      times.Describe(series);
    }
    if (!target->times.empty()) continue;
    add().set_problem(what_ == v1::MeasureRequest::OPERATIONS ? "has asked nothing"
                      : target->who.knows_ping                ? "has not answered"
                                               : "its release does not answer such messages");
  }
}

void Measurement::Times::Add(std::uint64_t us) {
  least_us_ = count_ == 0 ? us : std::min(least_us_, us);
  most_us_ = std::max(most_us_, us);
  ++count_;
  sum_us_ += us;
  ++buckets_[BucketOf(us)];
}

std::size_t Measurement::Times::BucketOf(std::uint64_t us) {
  const double place = 8 * std::log2(static_cast<double>(us) + 1);
  return std::min(static_cast<std::size_t>(place), kBuckets - 1);
}

// The upper end of the bucket that it lies in.
std::uint64_t Measurement::Times::Percentile(double part) const {
  const auto wanted = static_cast<std::uint64_t>(std::ceil(part * static_cast<double>(count_)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += buckets_[i];
    if (seen < wanted) continue;
    const double end_us = std::exp2(static_cast<double>(i + 1) / 8) - 1;
    return std::clamp(static_cast<std::uint64_t>(end_us), least_us_, most_us_);
  }
  return most_us_;
}

void Measurement::Times::Describe(v1::MeasureReply::Series& series) const {
  series.set_count(count_);
  series.set_least_us(least_us_);
  series.set_mean_us(count_ == 0 ? 0 : sum_us_ / count_);
  series.set_median_us(Percentile(0.5));
  series.set_p99_us(Percentile(0.99));
  series.set_most_us(most_us_);
}

}  // namespace reel::mdc
