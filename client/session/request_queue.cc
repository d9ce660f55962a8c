#include "client/session/request_queue.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <optional>

#include "client/base/wait_limits.h"
#include "proto/request_kind.h"

namespace reel::client {
namespace {

constexpr std::size_t kMaxFrameBytes =
    1 << 20;  // the protocol allows 4 MiB; one request may add to it
constexpr int kMaxFrameRequests = 256;
// More than that leave at once.
constexpr std::size_t kMostGathered = 32;

// Requests that wait for no other host's data token, and for which a recall of our own may wait.
// (Only delayed attributes, under a token, has a time of its own for the last change. They, alone
// or with a commit, wait for the end of a directory's delegation at most.)
bool IsForRecalls(const PendingCall& call) {
  const v1::Request& request = call.request;
  return call.under_token || request.has_layout_commit() || request.has_layout_return() ||
         (request.has_set_attr() && (request.set_attr().fields() & v1::SetAttr::CTIME) != 0);
}

// No program waits for it: it was told already. (Whom a close lets go on at the controller does so
// that moment later.)
bool IsPatient(const PendingCall& call) {
  return call.request.has_delegated() || call.request.has_close() || call.request.has_accessed();
}

// A delegated change needs its directory's delegation, and a return of that must come behind it.
bool WaitsForNobody(const PendingCall& call) {
  return IsForRecalls(call) || call.early_number != 0;
}

}  // namespace

RequestQueue::Place RequestQueue::Next() {
  const auto order = [](const Queue& queue) {
    return queue.empty() ? ~std::uint64_t{0} : queue.front()->order;
  };
  const std::uint64_t first =
      std::min({order(ready_slotted_), order(ready_waiting_), order(ready_brief_)});
  const bool full = waiting_sent_ >= kMaxWaitingSent;
  if (!ready_waiting_.empty() && order(ready_waiting_) == first && !full) {
    return {&ready_waiting_, 0};
  }
  // Those that wait come later, or let some others pass.
  if (!ready_brief_.empty() && order(ready_brief_) < order(ready_slotted_)) {
    return brief_sent_ < kMaxBriefSent ? Place{&ready_brief_, 0} : Place{};
  }
  for (std::size_t i = 0; i < ready_slotted_.size(); ++i) {
    const PendingCall& call = *ready_slotted_[i];
    if (order(ready_brief_) < call.order) break;
    if (call.order < order(ready_waiting_) || WaitsForNobody(call)) return {&ready_slotted_, i};
  }
  if (ready_brief_.empty() || brief_sent_ >= kMaxBriefSent) return {};
  return {&ready_brief_, 0};
}

RequestQueue::Queue& RequestQueue::ReadyQueueOf(const PendingCall& call) {
  if (call.request.slot() != 0) return ready_slotted_;
  return Is(call.request, kBrief) ? ready_brief_ : ready_waiting_;
}

std::uint64_t& RequestQueue::SentLike(const PendingCall& call) {
  return Is(call.request, kBrief) ? brief_sent_ : waiting_sent_;
}

void RequestQueue::MakeReady(PendingCallPtr call) {
  call->order = next_order_++;
  ReadyQueueOf(*call).push_back(std::move(call));
}

void RequestQueue::Add(PendingCallPtr call) {
  if (!Is(call->request, kMutation)) {
    MakeReady(std::move(call));
    return;
  }
  (IsForRecalls(*call) ? for_recalls_ : waiting_).push_back(std::move(call));
  GiveSlots();
}

bool RequestQueue::MayGather() const {
  const auto patient = [](const PendingCallPtr& call) { return IsPatient(*call); };
  return ready_slotted_.size() + ready_waiting_.size() + ready_brief_.size() <= kMostGathered &&
         std::ranges::all_of(ready_slotted_, patient) &&
         std::ranges::all_of(ready_waiting_, patient) && std::ranges::all_of(ready_brief_, patient);
}

void RequestQueue::AddFirst(std::vector<PendingCallPtr> calls) {
  for (PendingCallPtr& call : calls) call->order = kReclaimOrder;
  ready_brief_.insert(ready_brief_.begin(), calls.begin(), calls.end());
}

void RequestQueue::DropClosesOfClaimed() {
  std::erase_if(ready_waiting_, [&](const PendingCallPtr& call) {
    if (!call->request.has_close()) return false;
    const auto claimed = claimed_.find(call->request.close().inode());
    return claimed != claimed_.end() && call->order < claimed->second;
  });
  claimed_.clear();
}

void RequestQueue::GiveSlots() {
  GiveSlots(for_recalls_, 0);
  GiveSlots(waiting_, KeptSlots());
}

void RequestQueue::GiveSlots(Queue& waiting, std::size_t keep) {
  while (!waiting.empty() && slots_.free() > keep) {
    const std::optional<SlotTable::Slot> slot = slots_.Take();
    PendingCallPtr call = std::move(waiting.front());
    waiting.pop_front();
    call->request.set_slot(slot->number);
    call->request.set_slot_sequence(slot->sequence);
    MakeReady(std::move(call));
  }
}

v1::ClientFrame RequestQueue::TakeFrame(std::uint64_t now_ms) {
  v1::ClientFrame frame;
  std::size_t bytes = 0;
  while (frame.requests_size() < kMaxFrameRequests) {
    const Place next = Next();
    if (next.queue == nullptr) break;
    PendingCallPtr call = (*next.queue)[next.at];
    bytes += call->request.ByteSizeLong();
    if (frame.requests_size() > 0 && bytes > kMaxFrameBytes) break;
    next.queue->erase(next.queue->begin() + static_cast<std::ptrdiff_t>(next.at));
    if (call->request.id() == 0) call->request.set_id(next_id_++);
    if (call->request.slot() == 0) ++SentLike(*call);
    if (call->early_number == 0) call->state = PendingCall::State::kSent;
    call->ever_sent = true;
    call->sent_ms = now_ms;
    *frame.add_requests() = call->request;  // kept, to be sent again if the stream is lost
    const std::uint64_t id = call->request.id();
    sent_.emplace(id, std::move(call));
  }
  return frame;
}

PendingCallPtr RequestQueue::Answered(std::uint64_t id) {
  const auto it = sent_.find(id);
  if (it == sent_.end()) return nullptr;
  PendingCallPtr call = std::move(it->second);
  sent_.erase(it);
  if (call->early_number != 0) return call;  // keeps its slot until that is confirmed
  if (call->request.slot() != 0) {
    slots_.Release(call->request.slot());
    GiveSlots();
  } else {
    --SentLike(*call);
  }
  return call;
}

PendingCallPtr RequestQueue::NoteEarlyReply(const v1::Reply& reply) {
  const auto it = sent_.find(reply.id());
  if (it == sent_.end() || it->second->request.slot() == 0) return nullptr;
  const bool delegated = it->second->request.has_delegated();
  if (it->second->early_number != 0 && !delegated) return nullptr;
  PendingCallPtr call = std::move(it->second);
  sent_.erase(it);
  call->early_sequence = reply.sequence();
  if (delegated) return call;
  call->early_number = next_early_number_++;
  *call->replay.mutable_time() = reply.early().time();
  call->replay.set_inode(reply.entry().attr().inode());
  call->replay.set_generation(reply.entry().attr().generation());
  for (const v1::Extent& extent : reply.entry().layout().extents()) {
    if (extent.state() != v1::EXTENT_HOLE) *call->replay.add_extents() = extent;
  }
  early_.emplace(call->early_number, call);
  return call;
}

std::uint64_t RequestQueue::SendDelegated(const PendingCallPtr& call, const v1::Replay& decided) {
  if (!waiting_.empty() || ManyEarly() || slots_.free() <= KeptSlots()) return 0;
  const std::optional<SlotTable::Slot> slot = slots_.Take();
  call->request.set_slot(slot->number);
  call->request.set_slot_sequence(slot->sequence);
  v1::Replay& delegated =
      *call->request.mutable_delegated();  // this epoch's controller knows blocks
  *delegated.mutable_time() = decided.time();
  delegated.set_inode(decided.inode());
  delegated.set_generation(decided.generation());
  delegated.set_moves(decided.moves());
  call->replay = decided;
  call->early_number = next_early_number_++;
  early_.emplace(call->early_number, call);
  MakeReady(call);
  return call->early_number;
}

void RequestQueue::Durable(std::uint64_t sequence) {
  std::vector<PendingCallPtr> confirmed;
  for (const auto& [number, call] : early_) {
    const bool answered = !call->replaying && call->early_sequence != 0;
    if (answered && call->early_sequence <= sequence) confirmed.push_back(call);
  }
  for (const PendingCallPtr& call : confirmed) Confirmed(call);
}

void RequestQueue::Confirmed(const PendingCallPtr& call) {
  if (early_.erase(call->early_number) == 0) return;
  slots_.Release(call->request.slot());
  GiveSlots();
}

void RequestQueue::Resumed(bool new_epoch) {
  Queue again;
  for (const auto& [number, call] : early_) {
    const bool unanswered = call->request.has_delegated() && call->early_sequence == 0;
    if (!new_epoch && !call->replaying && !unanswered) continue;
    if (!new_epoch && unanswered) {  // as it was
      call->order = kReplayOrder;
      again.push_back(call);
      continue;
    }
    call->replaying = true;
    call->request.clear_delegated();
    call->order = kReplayOrder;
    call->request.clear_replay();
    if (new_epoch) *call->request.mutable_replay() = call->replay;
    again.push_back(call);
  }
  ready_slotted_.insert(ready_slotted_.begin(), again.begin(), again.end());
}

bool RequestQueue::Remove(const PendingCallPtr& call) {
  if (call->ever_sent || call->state != PendingCall::State::kQueued) return false;
  for (Queue* queue : {&for_recalls_, &waiting_, &ready_slotted_, &ready_waiting_, &ready_brief_}) {
    const auto it = std::find(queue->begin(), queue->end(), call);
    if (it == queue->end()) continue;
    queue->erase(it);
    if (call->request.slot() != 0) {
      slots_.ReleaseUnused(call->request.slot());
      GiveSlots();
    }
    return true;
  }
  return false;
}

std::vector<PendingCallPtr> RequestQueue::StreamLost() {
  std::vector<PendingCallPtr> lost;
  Queue slotted, waiting, brief;
  for (auto& [id, call] : sent_) {
    if (call->early_number != 0) continue;  // the next session's epoch decides
    if (Is(call->request, kOfStream)) {
      lost.push_back(std::move(call));
      continue;
    }
    // A read that nobody waits for is not repeated.
    if (call->abandoned && !call->on_done && !Is(call->request, kMutation)) continue;
    call->state = PendingCall::State::kQueued;
    const Queue& ready = ReadyQueueOf(*call);
    (&ready == &ready_slotted_ ? slotted
     : &ready == &ready_brief_ ? brief
                               : waiting)
        .push_back(std::move(call));
  }
  std::ranges::stable_sort(slotted, {}, [](const PendingCallPtr& call) { return call->order; });
  sent_.clear();
  waiting_sent_ = brief_sent_ = 0;
  claimed_.clear();
  for (Queue* ready : {&ready_waiting_, &ready_brief_}) {
    std::erase_if(*ready, [&](const PendingCallPtr& call) {
      if (!Is(call->request, kOfStream)) return false;
      lost.push_back(call);
      return true;
    });
  }
  std::erase_if(ready_slotted_, [](const PendingCallPtr& call) { return call->early_number != 0; });
  ready_slotted_.insert(ready_slotted_.begin(), slotted.begin(), slotted.end());
  ready_waiting_.insert(ready_waiting_.begin(), waiting.begin(), waiting.end());
  ready_brief_.insert(ready_brief_.begin(), brief.begin(), brief.end());
  return lost;
}

std::vector<std::pair<PendingCallPtr, int>> RequestQueue::SessionOver() {
  std::vector<std::pair<PendingCallPtr, int>> doomed;
  for (PendingCallPtr& call : StreamLost()) doomed.emplace_back(std::move(call), ECONNRESET);
  early_.clear();
  const Queue slotted = std::exchange(ready_slotted_, {});
  const Queue without = std::exchange(ready_waiting_, {});
  const Queue brief = std::exchange(ready_brief_, {});
  const Queue for_recalls = std::exchange(for_recalls_, {});
  const Queue waiting = std::exchange(waiting_, {});
  slots_.Reset(0);
  for (const Queue* queue : {&slotted, &for_recalls, &waiting, &without, &brief}) {
    for (const PendingCallPtr& call : *queue) {
      if (call->session != 0 || Is(call->request, kOfSession)) {
        doomed.emplace_back(call, ESTALE);
      } else if (Is(call->request, kMutation) && call->ever_sent) {
        doomed.emplace_back(call, EIO);
      } else {
        call->request.set_slot(0);
        call->request.set_slot_sequence(0);
        Add(call);
      }
    }
  }
  return doomed;
}

void RequestQueue::SessionBegins(std::uint32_t slots) {
  slots_.Reset(slots);
  GiveSlots();
}

std::vector<PendingCallPtr> RequestQueue::TakeAll() {
  std::vector<PendingCallPtr> all;
  for (auto& [id, call] : sent_) {
    if (call->early_number == 0) all.push_back(std::move(call));
  }
  for (Queue* queue : {&ready_slotted_, &ready_waiting_, &ready_brief_, &for_recalls_, &waiting_}) {
    std::copy_if(queue->begin(), queue->end(), std::back_inserter(all),
                 [](const PendingCallPtr& call) { return call->early_number == 0; });
    queue->clear();
  }
  sent_.clear();
  early_.clear();
  waiting_sent_ = brief_sent_ = 0;
  return all;
}

}  // namespace reel::client
