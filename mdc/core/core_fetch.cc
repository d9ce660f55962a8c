// Keys that are not in memory: fetched by reader threads, whom operations wait for.
#include <utility>
#include <vector>

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
  fetches_.Add(std::move(miss), waiter);
}

void CoreImpl::OnFetched(TicketId ticket) {
  if (!health_.ok()) return;
  Resume(fetches_.Done(ticket));
  CountQuotas();
}

void CoreImpl::Resume(const std::vector<PendingRef>& waiters) {
  for (const PendingRef& op : waiters) {
    op->fetching = false;
    if (op->cancelled) continue;
    if (op->queued_on != InodeNumber(0)) {
      parked_.Wake(op->queued_on);
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
  RunWoken();
}

}  // namespace reel::mdc
