#include "client/luns/traffic_reporter.h"

#include <chrono>
#include <utility>

namespace reel::client {

void TrafficReporter::OnDeal(const v1::Deal& deal) {
  const bool was_on = gate_.on();
  gate_.Take(deal);
  if (was_on || !gate_.on()) return;  // it has a thread, which looks by itself
  MutexLock lock(mutex_);
  if (stopping_) return;
  if (!thread_.joinable()) thread_ = Thread([this] { Main(); });
  wake_.NotifyAll();
}

void TrafficReporter::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    wake_.NotifyAll();
  }
  if (thread_.joinable()) thread_.Join();
}

bool TrafficReporter::AwaitDue() {
  MutexLock lock(mutex_);
  while (!gate_.on() && !stopping_) wake_.Wait(mutex_);
  if (!stopping_) wake_.WaitFor(mutex_, std::chrono::milliseconds(gate_.report_ms()));
  return !stopping_;
}

void TrafficReporter::Main() {
  while (AwaitDue()) {
    if (under_way_->load()) continue;
    v1::Request request;
    if (!gate_.Report(is_open_, *request.mutable_traffic())) continue;
    under_way_->store(true);
    session_.Start(std::move(request), [under_way = under_way_](const absl::StatusOr<v1::Reply>&) {
      under_way->store(false);
    });
  }
}

}  // namespace reel::client
