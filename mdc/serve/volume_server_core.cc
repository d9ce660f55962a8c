// What runs on a volume's core's seat: events in, outputs to the streams, workers and fences.
#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "mdc/serve/volume_server.h"

namespace reel::mdc {
namespace {

constexpr std::uint64_t kTickMs = 50;
// Outputs are delivered at least after so many events, so that the first of a burst need not wait
// for the last of it.
constexpr std::size_t kEventsPerDelivery = 32;
// A frame is closed at this size, well below the transport's limit of 4 MiB.
constexpr std::size_t kFrameBytes = 256 * kKiB;
template <typename... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <typename... F>
Overloaded(F...) -> Overloaded<F...>;

std::string WordOf(const SeatFarewell& farewell) {
  if (farewell.stopped) return "an administrator has stopped it";
  return farewell.state == ArbitrationBlock::State::kOffered ? "its controller hands it over"
                                                             : "its controller is stopping";
}

}  // namespace

// The resident ticks, and takes over when there is more than a visitor's one batch.
void VolumeServer::CoreMain() {
  std::uint64_t next_tick_ms = clock_.NowMs();
  for (;;) {
    {
      MutexLock lock(queue_mutex_);
      for (std::uint64_t now_ms = clock_.NowMs();
           !turns_.wanted() && !turns_.stopping() && now_ms < next_tick_ms;
           now_ms = clock_.NowMs()) {
        queue_changed_.WaitFor(queue_mutex_, std::chrono::milliseconds(next_tick_ms - now_ms));
      }
      turns_.Want();
      while (!turns_.TakeWanted()) queue_changed_.Wait(queue_mutex_);
    }
    bool more = true;
    while (more) {
      more = RunBatch();
      // Behind the events, so that a renewal that waited in the queue counts before leases are
      // judged.
      if (clock_.NowMs() >= next_tick_ms) {
        core_->OnTick();
        keeper_->WatchRoom(options_.core.space_limits);
        seat_->Progress();
        WatchSpace();
        Deliver();
        SendPings();
        next_tick_ms = clock_.NowMs() + kTickMs;
      }
    }
    MutexLock lock(queue_mutex_);
    if (turns_.stopping() && queue_.empty()) break;  // and keeps the seat: nothing runs any more
    // Who came after the last look found the seat taken, and left it to its holder.
    turns_.Leave(/*more=*/!queue_.empty());
  }
  core_->EndFetches();
  if (core_->health().ok()) {
    core_->SayFarewell(WordOf(farewell_), farewell_.stopped);
    Deliver();
  }
  for (auto& [stream, outgoing] : streams_.open) outgoing.peer->End();
  streams_.open.clear();
}

bool VolumeServer::RunBatch() {
  std::vector<Event> events;
  {
    MutexLock lock(queue_mutex_);
    events.swap(queue_);
  }
  if (!core_->health().ok()) {
    Drop(events);
    return false;
  }
  std::size_t undelivered = 0;
  for (Event& event : events) {
    Handle(std::move(event));
    if (++undelivered == kEventsPerDelivery) {
      WatchSpace();
      Deliver();
      undelivered = 0;
    }
  }
  WatchSpace();
  Deliver();
  if (!core_->health().ok()) Fail(core_->health());
  MutexLock lock(queue_mutex_);
  return !queue_.empty();
}

void VolumeServer::Handle(Event event) {
  std::visit(
      Overloaded{
          [&](Opened& opened) {
            core_->OnStreamOpened(opened.stream, std::move(opened.certificate));
            streams_.open.try_emplace(opened.stream, Outgoing{std::move(opened.peer), {}});
          },
          [&](Arrived& arrived) {
            const int count = arrived.frame.requests_size();
            for (v1::Request& request : *arrived.frame.mutable_requests()) {
              streams_.times.Arrived(arrived.stream, request, arrived.at_us);
              if (streams_.measured.on()) {
                streams_.measured.Arrived(arrived.stream, request, arrived.at_us);
              }
              core_->OnRequest(arrived.stream, std::move(request));
            }
            const auto peer = streams_.open.find(arrived.stream);
            if (peer != streams_.open.end()) {
              peer->second.peer->Taken(static_cast<std::size_t>(count));
            }
          },
          [&](Ended& ended) {
            streams_.open.erase(ended.stream);
            streams_.times.StreamEnded(ended.stream);
            core_->OnStreamEnded(ended.stream);
          },
          [&](Durable& durable) {
            core_->OnDurable(durable.sequence);
            lun_work_.dumps->OnDurable(durable.sequence);
            lun_work_.map->OnDurable(durable.sequence);
            if (const auto region = keeper_->OnDurable(durable.sequence)) {
              workers_.Add([this, run = *region] { Queue(RegionAdded{store_->AddRegion(run)}); });
            }
          },
          [&](Fetched& fetched) { core_->OnFetched(fetched.ticket); },
          [&](RegionAdded& added) { keeper_->OnRegionAdded(added.outcome); },
          [&](Compacted& compacted) { OnCompacted(compacted.outcome); },
          [&](Action& action) { action.run(*core_); },
      },
      event);
}

void VolumeServer::OrderRestripe(const RestripeOrder& order) {
  lun_work_.map->Restripe(order, [this, job = order.job](const absl::Status& outcome) {
    RunOnCore([=](Core& core) { core.OnRestriped(job, outcome); });
  });
}

void VolumeServer::Deliver() {
  CoreOutputs outputs = core_->TakeOutputs();
  if (!HoldsSeat()) return;
  if (outputs.wants_sync || !outputs.fetches.empty()) {
    workers_.Order(outputs.wants_sync, outputs.fetches, [this](CoreOutputs::Fetch& fetch) {
      return [this, fetch = std::move(fetch)] {
        Fetch(fetch.miss);
        Queue(Fetched{fetch.ticket});
      };
    });
  }
  for (QuotaNotice& notice : outputs.quota_notices) lun_work_.quota_hook->Tell(std::move(notice));
  if (outputs.scrub_changed) lun_work_.scrubber->Look();
  if (outputs.void_dumps) lun_work_.dumps->Void();
  for (CopyOrder& order : outputs.copies) lun_work_.mover->Order(std::move(order));
  if (outputs.restripe) OrderRestripe(*outputs.restripe);
  FenceAndGiveWay(outputs);
  if (!seat_->MayAnswer()) {  // till the next beat, if there is one: a tick finds it
    std::ranges::move(outputs.sends, std::back_inserter(withheld_.sends));
    std::ranges::move(outputs.ends, std::back_inserter(withheld_.ends));
    return;
  }
  if (!withheld_.sends.empty() || !withheld_.ends.empty()) {
    CoreOutputs before;
    before.sends.swap(withheld_.sends);
    before.ends.swap(withheld_.ends);
    Send(before);
  }
  Send(outputs);
}

void VolumeServer::Send(CoreOutputs& outputs) {
  std::vector<StreamId> touched;
  const std::uint64_t now_us = outputs.sends.empty() ? 0 : NowUs();
  for (CoreOutputs::Send& send : outputs.sends) {
    const auto found = streams_.open.find(send.stream);
    if (found == streams_.open.end()) continue;
    Outgoing& outgoing = found->second;
    if (outgoing.bytes == 0) touched.push_back(send.stream);
    if (auto* reply = std::get_if<v1::Reply>(&send.message)) {
      const auto took = streams_.times.Answered(send.stream, *reply, now_us);
      if (took && streams_.measured.on()) streams_.measured.Answered(send.stream, *took);
      outgoing.bytes += reply->ByteSizeLong() + 8;
      *outgoing.frame.add_replies() = std::move(*reply);
    } else {
      auto& callback = std::get<v1::Callback>(send.message);
      outgoing.bytes += callback.ByteSizeLong() + 8;
      *outgoing.frame.add_callbacks() = std::move(callback);
    }
    if (outgoing.bytes >= kFrameBytes) Flush(outgoing);
  }
  for (const StreamId stream : touched) Flush(streams_.open.at(stream));
  for (const StreamId stream : outputs.ends) {
    const auto found = streams_.open.find(stream);
    if (found != streams_.open.end()) found->second.peer->End();
  }
}

void VolumeServer::Flush(Outgoing& outgoing) {
  if (outgoing.bytes == 0) return;
  wire_.bytes_out += outgoing.bytes;
  wire_.messages_out +=
      static_cast<std::uint64_t>(outgoing.frame.replies_size() + outgoing.frame.callbacks_size());
  outgoing.peer->Send(std::exchange(outgoing.frame, {}));
  outgoing.bytes = 0;
}

void VolumeServer::SendPings() {
  if (!streams_.measured.on()) return;
  for (auto& [stream, ping] : streams_.measured.Pings(NowUs())) {
    const auto found = streams_.open.find(stream);
    if (found == streams_.open.end()) continue;
    v1::ServerFrame frame;
    *frame.add_callbacks() = std::move(ping);
    found->second.peer->Send(std::move(frame));
  }
}

void VolumeServer::WatchSpace() {
  if (!keeper_->Watch()) return;
  workers_.Add([this] { Queue(Compacted{store_->db().Compact(compaction_cancelled_)}); });
}

void VolumeServer::OnCompacted(const absl::Status& outcome) {
  keeper_->OnCompacted(outcome);
  if (!outcome.ok() && !absl::IsCancelled(outcome) && !absl::IsResourceExhausted(outcome)) {
    Fail(outcome);
  }
}

}  // namespace reel::mdc
