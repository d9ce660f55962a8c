#include "mdc/sessions/fetch_table.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace reel::mdc {

void FetchTable::Add(Miss miss, const PendingRef& waiter) {
  const std::string key = absl::StrCat(miss.scan ? "scan" : "get", static_cast<int>(miss.from), ".",
                                       miss.prefix.size(), ":", miss.prefix, miss.key);
  const auto [known, added] = by_key_.try_emplace(key);
  if (added) {
    known->second = TicketId(++last_);
    tickets_[known->second].key = key;
    fetches_.push_back({known->second, std::move(miss)});
  }
  if (waiter == nullptr) return;
  waiter->fetching = true;
  tickets_[known->second].waiters.push_back(waiter);
}

std::vector<Fetch> FetchTable::TakeFetches() {
  return std::exchange(fetches_, {});
}

std::vector<PendingRef> FetchTable::Done(TicketId ticket) {
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end()) return {};
  std::vector<PendingRef> waiters = std::move(found->second.waiters);
  by_key_.erase(found->second.key);
  tickets_.erase(found);
  return waiters;
}

void FetchTable::CancelOf(SessionId session) {
  for (auto& [ticket, entry] : tickets_) {
    for (const PendingRef& op : entry.waiters) {
      if (op->session == session) op->cancelled = true;
    }
  }
}

}  // namespace reel::mdc
