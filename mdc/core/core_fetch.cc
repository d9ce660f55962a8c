// Keys that are not in memory: fetched by reader threads, whom operations wait for.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "mdc/core/core_impl.h"

namespace reel::mdc {

// While a fetch holds up the lane, what stands behind it may find its own keys missing meanwhile.
void CoreImpl::Prefetch(const Pending& op) {
  Txn txn(db_, in_flight_, Tier::kMemory);
  OpContext ctx = MakeContext(txn, op.session, op.request.credentials());
  v1::Reply reply;
  // Its outcome is dropped: the operations before it have not taken effect yet.
  (void)OperationFor(op.request.op_case())(ctx, op.request, reply);
  allocator_->Abandon();
  if (txn.missed()) Fetch(*txn.missed(), nullptr);
}

void CoreImpl::Fetch(Miss miss, const PendingRef& waiter) {
  ++counters_.misses;
  const std::string key = absl::StrCat(miss.scan ? "scan" : "get", static_cast<int>(miss.from), ".",
                                       miss.prefix.size(), ":", miss.prefix, miss.key);
  const auto [known, added] = ticket_by_key_.try_emplace(key);
  if (added) {
    known->second = TicketId(++next_ticket_);
    tickets_[known->second].key = key;
    fetches_.push_back({known->second, std::move(miss)});
  }
  if (waiter == nullptr) return;
  waiter->fetching = true;
  tickets_[known->second].waiters.push_back(waiter);
}

void CoreImpl::OnFetched(TicketId ticket) {
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end() || !health_.ok()) return;
  const std::vector<PendingRef> waiters = std::move(found->second.waiters);
  ticket_by_key_.erase(found->second.key);
  tickets_.erase(found);
  Resume(waiters);
}

void CoreImpl::Resume(const std::vector<PendingRef>& waiters) {
  for (const PendingRef& op : waiters) {
    op->fetching = false;
    if (op->cancelled) continue;
    if (op->queued_on != InodeNumber(0)) {
      woken_.insert(op->queued_on);
      continue;
    }
    Session* const session = op->reap == InodeNumber(0) ? sessions_.Find(op->session) : nullptr;
    const bool in_lane =
        session != nullptr && !session->lane.empty() && session->lane.front() == op;
    if (in_lane) {
      RunLane(*session);
    } else {
      Advance(op);
    }
  }
  Settle();
}

}  // namespace reel::mdc
