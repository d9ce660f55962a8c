#include "mdc/inspect/operation_times.h"

#include <algorithm>

#include "proto/request_kind.h"

namespace reel::mdc {

void OperationTimes::Arrived(StreamId stream, const v1::Request& request, std::uint64_t now_us) {
  if (request.has_pong()) return;  // it is an answer itself
  auto& under_way = under_way_[stream];
  if (under_way.size() < kMostUnderWay) under_way[request.id()] = {request.op_case(), now_us};
}

std::optional<OperationTimes::Took> OperationTimes::Answered(StreamId stream,
                                                             const v1::Reply& reply,
                                                             std::uint64_t now_us) {
  const auto under_way = under_way_.find(stream);
  if (under_way == under_way_.end()) return std::nullopt;
  const auto begun = under_way->second.find(reply.id());
  if (begun == under_way->second.end()) return std::nullopt;
  const Took took{begun->second.op, now_us - std::min(now_us, begun->second.at_us)};
  under_way->second.erase(begun);
  times_[static_cast<std::size_t>(took.op) % times_.size()].Add(took.us);
  return took;
}

void OperationTimes::Describe(v1::StatReply& reply) const {
  reply.mutable_bounds_us()->Assign(TimeHistogram::kBoundsUs.begin(),
                                    TimeHistogram::kBoundsUs.end());
  for (std::size_t i = 0; i < times_.size(); ++i) {
    const TimeHistogram& times = times_[i];
    if (times.empty()) continue;
    v1::StatReply::Times& told = *reply.add_times();
    told.set_operation(NameOf(static_cast<v1::Request::OpCase>(i)));
    told.set_sum_us(times.sum_us);
    told.mutable_counts()->Assign(times.counts.begin(), times.counts.end());
  }
}

}  // namespace reel::mdc
