#include "mdc/core/output_queue.h"

#include <algorithm>

namespace reel::mdc {

void OutputQueue::StreamEnded(StreamId stream) {
  open_.erase(stream);
  last_wait_.erase(stream);
  idle_.erase(stream);
  if (waiting_bytes_.erase(stream) == 0) return;
  for (Entry& entry : waiting_) {
    if (entry.stream == stream) entry.message = End{};
  }
}

void OutputQueue::Emit(StreamId stream, Message message, Sequence waits_for,
                       std::span<const TokenOf> tokens, Wanted wanted) {
  if (!open_.contains(stream)) return;
  for (const TokenOf& token : tokens) {
    const auto last = token_waits_.find(token);
    if (last != token_waits_.end()) waits_for = std::max(waits_for, last->second);
  }
  if (waits_for > durable_) {
    for (const TokenOf& token : tokens) token_waits_[token] = waits_for;
  }
  if (std::holds_alternative<End>(message)) waits_for = std::max(waits_for, LastWaitOf(stream));
  if (waits_for <= durable_) {
    Release({waits_for, stream, std::move(message)});
    return;
  }
  Sequence& last = last_wait_[stream];
  last = std::max(last, waits_for);
  const auto* const reply = std::get_if<v1::Reply>(&message);
  const std::size_t bytes = reply != nullptr ? reply->ByteSizeLong() : 0;
  waiting_bytes_[stream] += bytes;
  Entry entry{waits_for, stream, std::move(message), wanted, bytes};
  wanted_ += wanted == Wanted::kYes ? 1 : 0;
  if (waiting_.empty() || waiting_.back().waits_for <= waits_for) {
    waiting_.push_back(std::move(entry));
    return;
  }
  const auto place =
      std::upper_bound(waiting_.begin(), waiting_.end(), waits_for,
                       [](Sequence wait, const Entry& other) { return wait < other.waits_for; });
  waiting_.insert(place, std::move(entry));
}

void OutputQueue::EmitLast(StreamId stream, Message message) {
  Emit(stream, std::move(message), LastWaitOf(stream));
}

void OutputQueue::EmitIdle(StreamId stream, v1::Reply reply) {
  if (!open_.contains(stream)) return;
  std::vector<v1::Reply>& replies = idle_[stream];
  replies.push_back(std::move(reply));
  if (replies.size() >= kMostIdle) ReleaseIdleOf(stream);
}

void OutputQueue::ReleaseIdle() {
  while (!idle_.empty()) ReleaseIdleOf(idle_.begin()->first);
}

void OutputQueue::ReleaseIdleOf(StreamId stream) {
  const auto idle = idle_.extract(stream);
  if (idle.empty()) return;
  for (v1::Reply& reply : idle.mapped()) sends_.push_back({stream, std::move(reply)});
}

Sequence OutputQueue::LastWaitOf(StreamId stream) const {
  const auto last = last_wait_.find(stream);
  return last == last_wait_.end() ? Sequence() : last->second;
}

void OutputQueue::Durable(Sequence sequence) {
  durable_ = std::max(durable_, sequence);
  for (; !waiting_.empty() && waiting_.front().waits_for <= durable_; waiting_.pop_front()) {
    wanted_ -= waiting_.front().wanted == Wanted::kYes ? 1 : 0;
    const auto bytes = waiting_bytes_.find(waiting_.front().stream);
    if (bytes != waiting_bytes_.end()) bytes->second -= waiting_.front().bytes;
    Release(std::move(waiting_.front()));
  }
  absl::erase_if(token_waits_, [&](const auto& entry) { return entry.second <= durable_; });
}

void OutputQueue::Release(Entry entry) {
  if (!open_.contains(entry.stream)) return;
  ReleaseIdleOf(entry.stream);
  if (auto* reply = std::get_if<v1::Reply>(&entry.message)) {
    sends_.push_back({entry.stream, std::move(*reply)});
  } else if (auto* callback = std::get_if<v1::Callback>(&entry.message)) {
    sends_.push_back({entry.stream, std::move(*callback)});
  } else {
    ends_.push_back(entry.stream);
    open_.erase(entry.stream);
  }
}

void OutputQueue::Take(CoreOutputs& outputs) {
  outputs.sends = std::exchange(sends_, {});
  outputs.ends = std::exchange(ends_, {});
}

}  // namespace reel::mdc
