// A volume's server and the LUNs' reservations: taking the seat, fencing, and what is shown of it.
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "mdc/metafs/superblock.h"
#include "mdc/reservations_view.h"
#include "mdc/volume_server.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

// Of LUNs that cannot be reset: what an earlier controller had sent is over after that.
void WaitOut(const std::string& volume, std::uint64_t quarantine_ms) {
  if (quarantine_ms == 0) return;
  spdlog::warn("volume {}: its LUNs cannot be reset: waiting {} ms for what may still be executing",
               volume, quarantine_ms);
  std::this_thread::sleep_for(std::chrono::milliseconds(quarantine_ms));
}

}  // namespace

// Before the store is so much as read: an earlier controller may still be writing.
absl::StatusOr<std::unique_ptr<Fencer>> VolumeServer::TakeSeat() {
  auto fencer = std::make_unique<Fencer>(*volume_);
  if (!fencer->any()) return fencer;
  metafs::PoolSpace space(*volume_);
  const auto reading = metafs::ReadSuperblock(space);
  if (!reading.ok()) return reading.status();
  std::uint64_t quarantine_ms = 0;
  absl::Status status = fencer->Take(reading->superblock.epoch + 1, &quarantine_ms);
  if (!status.ok()) return status;
  WaitOut(options_.volume, quarantine_ms);
  return fencer;
}

absl::Status VolumeServer::StartFencing(std::unique_ptr<Fencer> fencer) {
  std::uint64_t quarantine_ms = 0;
  absl::Status status = fencer->Sweep(core_->KnownKeys(), &quarantine_ms);
  if (!status.ok()) return status;
  WaitOut(options_.volume, quarantine_ms);
  FenceThread::Events events;
  events.fenced = [this](FenceId fence, const FenceOutcome& outcome) {
    Queue(Action([fence, outcome](Core& core) { core.OnFenced(fence, outcome); }));
  };
  events.keys_seen = [this](const std::vector<std::uint64_t>& keys) {
    Queue(Action([keys](Core& core) { core.OnKeysSeen(keys); }));
  };
  events.seat_lost = [this](const absl::Status& status) {
    EndWith(absl::Status(status.code(), absl::StrCat("volume ", options_.volume,
                                                     ": the seat is lost: ", status.message())));
  };
  fencing_ = std::make_unique<FenceThread>(std::move(fencer), std::move(events));
  return absl::OkStatus();
}

bool VolumeServer::ListReservations(std::map<std::uint64_t, std::string> known,
                                    v1::ReservationsReply& reply, std::function<void()> done) {
  return fencing_->Run(
      [this, known = std::move(known), &reply, done = std::move(done)](Fencer& fencer) {
        DescribeReservations(*volume_, known, fencer.List(), reply);
        done();
      });
}

void VolumeServer::DescribeFencing(v1::ShowReply& reply) const {
  if (fencing_->all()) {
    reply.set_fencing("reservations");
  } else if (fencing_->any()) {
    reply.set_fencing("reservations on some LUNs; on the others the lease alone protects");
  } else {
    reply.set_fencing("none: the LUNs have no reservations, the lease alone protects");
  }
  for (std::string& problem : fencing_->Problems()) reply.add_alarms(std::move(problem));
}

}  // namespace reel::mdc
