// A volume's server, its seat and the LUNs' reservations: fencing, and what is shown of it.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/base/alarm.h"
#include "mdc/fence/reservations_view.h"
#include "mdc/serve/volume_server.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
void VolumeServer::LoseSeat(const std::string& why) {
  if (failed_.exchange(true)) return;
  options_.on_seat_lost(
      absl::AbortedError(absl::StrCat("volume ", options_.volume, ": the seat is lost: ", why)));
}

void VolumeServer::FenceAndGiveWay(CoreOutputs& outputs) {
  for (CoreOutputs::Fence& fence : outputs.fences) fencing_->Order(std::move(fence));
  if (outputs.times_unheard == 0 || std::exchange(unheard_, true) || !options_.on_unheard) return;
  spdlog::warn("volume {}: none of its clients is heard any more; others may reach them",
               options_.volume);
  options_.on_unheard(outputs.times_unheard);
}

bool VolumeServer::HoldsSeat() {
  if (seat_->Holds()) return true;
  LoseSeat("its term is over");
  return false;
}

absl::Status VolumeServer::CheckTerm() {
  return HoldsSeat() ? absl::OkStatus() : absl::AbortedError("the seat's term is over");
}

// (LUNs without reservations may come later, of a pool that grows: a standby looks again.)
PeerSaid VolumeServer::Promise() {
  if (fencing_->all()) return seat_->Promise();
  return {.promise = {.epoch = epoch_}};
}

absl::Status VolumeServer::StartFencing(std::unique_ptr<Fencer> fencer) {
  std::uint64_t quarantine_ms = 0;
  absl::Status status = fencer->Sweep(core_->KnownKeys(), &quarantine_ms);
  if (!status.ok()) return status;
  WaitOut(options_.volume, quarantine_ms);
  FenceThread::Events events;
  events.fenced = [this](FenceId fence, const FenceOutcome& outcome) {
    Queue(Action{[fence, outcome](Core& core) { core.OnFenced(fence, outcome); }});
  };
  events.keys_seen = [this](const std::vector<std::uint64_t>& keys) {
    Queue(Action{[keys](Core& core) { core.OnKeysSeen(keys); }});
  };
  events.luns_seen = [this](const std::vector<Uuid>& lost) {
    Queue(Action{[lost](Core& core) { core.OnLunsSeen(lost); }});
  };
  events.seat_lost = [this](const absl::Status& status) {
    LoseSeat(std::string(status.message()));
  };
  fencing_ = std::make_unique<FenceThread>(std::move(fencer), clock_, std::move(events));
  return absl::OkStatus();
}

bool VolumeServer::RunOnCore(std::function<void(Core&)> action, std::function<void()> otherwise) {
  return Queue(Action{std::move(action), std::move(otherwise)}, /*when_stopping=*/false);
}

// Nothing may be said any more but that.
void VolumeServer::Drop(std::vector<Event>& events) {
  for (Event& event : events) {
    const Action* const action = std::get_if<Action>(&event);
    if (action != nullptr && action->otherwise) action->otherwise();
  }
}

void VolumeServer::SetMaintenance(Core& core, bool on,
                                  std::function<void(const absl::Status&)> done) {
  spdlog::warn("volume {}: maintenance {}", options_.volume, on ? "on" : "off");
  core.SetMaintenance(on);
  maintenance_ = on;
  seat_->SetMaintenance(on, std::move(done));
}

bool VolumeServer::ListReservations(std::map<std::uint64_t, std::string> known,
                                    v1::ReservationsReply& reply, std::function<void()> done) {
  return fencing_->Run([known = std::move(known), &reply, done = std::move(done)](Fencer& fencer) {
    DescribeReservations(fencer.volume(), known, fencer.List(), reply);
    done();
  });
}

void VolumeServer::DescribeStore(v1::ShowReply& reply) const {
  const metafs::MetaFs& fs = store_->fs();
  reply.set_store_bytes(fs.SizeBytes());
  reply.set_store_free_bytes(std::min(fs.FreeBytes(), fs.SizeBytes()));
  // To the allocator a pool without data is full: all of it is the store's from the beginning.
  const PoolId pool = fs.regions().front().pool;
  if ((volume().descriptor.pools[pool.value()].flags & Pool::kData) != 0) return;
  v1::ShowReply::Pool& shown = *reply.mutable_pools(static_cast<int>(pool.value()));
  shown.set_free_bytes(
      std::min(shown.total_bytes(), shown.free_bytes() + reply.store_free_bytes()));
}

void VolumeServer::DescribeFencing(v1::ShowReply& reply) const {
  if (fencing_->all()) {
    reply.set_fencing("reservations");
  } else if (fencing_->any()) {
    reply.set_fencing("reservations on some LUNs; on the others the lease alone protects");
  } else {
    reply.set_fencing("none: the LUNs have no reservations, the lease alone protects");
  }
  reply.set_arbitration(
      volume().seat_lun().has_reservations()
          ? "reservations: the seat LUN takes writes of one controller only"
          : "the arbitration block alone: no controller may pause for longer than a tenth of its "
            "term between a look at the clock and the write that it allowed");
  for (std::string& problem : fencing_->Problems())
    AddAlarm(reply, v1::ALARM_RESERVATIONS, std::move(problem));
  if (std::string slow = seat_->SlowBeat(); !slow.empty())
    AddAlarm(reply, v1::ALARM_SLOW_BEAT, std::move(slow));
}

}  // namespace reel::mdc
