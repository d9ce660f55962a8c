#include "mdc/admin_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "proto/grpc_tls.h"
#include "spdlog/spdlog.h"
#include "volume/lun_scan.h"

namespace reel::mdc {

namespace {

grpc::Status Stopping() {
  return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the controller is stopping");
}

}  // namespace

AdminService::AdminService(std::vector<VolumeServer*> volumes, std::vector<std::string> patterns,
                           ConnectionGate& gate, bool tls)
    : volumes_(std::move(volumes)),
      patterns_(std::move(patterns)),
      gate_(gate),
      tls_(tls),
      disk_thread_([this] { DiskMain(); }) {}

void AdminService::Stop() {
  if (!disk_thread_.joinable()) return;
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  disk_thread_.join();
}

grpc::Status AdminService::CheckRole(const grpc::ServerContext& context) const {
  if (!tls_) return grpc::Status::OK;
  const auto peer = PeerWithRole(*context.auth_context(), TlsRole::kAdmin, "administration");
  if (peer.ok()) return grpc::Status::OK;
  const std::string why(peer.status().message());
  spdlog::warn("administration from {} is refused: {}", context.peer(), why);
  return grpc::Status(grpc::StatusCode::PERMISSION_DENIED, why);
}

template <typename AnyCall>
void AdminService::AcceptKind(typename AnyCall::Ask ask, typename AnyCall::Handler handler,
                              CallQueue& queue) {
  AnyCall::Accept(
      service_, ask,
      [this, handler = std::move(handler)](AnyCall& call) {
        const grpc::Status allowed = CheckRole(call.context());
        if (allowed.ok()) {
          gate_.Welcome(call.context().peer());
          handler(call);
        } else {
          call.Finish(allowed);
        }
      },
      queue);
}

void AdminService::Accept(CallQueue& queue) {
  using VolumesCall = Call<v1::VolumesRequest, v1::VolumesReply>;
  using DisksCall = Call<v1::DisksRequest, v1::DisksReply>;
  using ShowCall = Call<v1::ShowRequest, v1::ShowReply>;
  using StatCall = Call<v1::StatRequest, v1::StatReply>;
  using WhoCall = Call<v1::WhoRequest, v1::WhoReply>;
  using LocksCall = Call<v1::LocksRequest, v1::LocksReply>;
  using EvictCall = Call<v1::EvictRequest, v1::EvictReply>;
  using ReservationsCall = Call<v1::ReservationsRequest, v1::ReservationsReply>;
  using BreakLocksCall = Call<v1::BreakLocksRequest, v1::LocksReply>;
  const auto describe = [](VolumeServer& volume, Core& core, auto& call) {
    core.Describe(call.reply());
    volume.Complete(call.reply());
  };
  AcceptKind<VolumesCall>(
      &Service::RequestVolumes,
      [this](VolumesCall& call) {
        Volumes(call.reply());
        call.Finish(grpc::Status::OK);
      },
      queue);
  AcceptKind<DisksCall>(
      &Service::RequestDisks, [this](DisksCall& call) { Disks(call); }, queue);
  AcceptKind<ShowCall>(
      &Service::RequestShow, [=, this](ShowCall& call) { OnCore<ShowCall>(call, describe); },
      queue);
  AcceptKind<StatCall>(
      &Service::RequestStat, [=, this](StatCall& call) { OnCore<StatCall>(call, describe); },
      queue);
  AcceptKind<WhoCall>(
      &Service::RequestWho,
      [this](WhoCall& call) {
        OnCore<WhoCall>(
            call, [](VolumeServer&, Core& core, WhoCall& who) { core.Describe(who.reply()); });
      },
      queue);
  AcceptKind<LocksCall>(
      &Service::RequestLocks,
      [this](LocksCall& call) {
        OnCore<LocksCall>(call, [](VolumeServer&, Core& core, LocksCall& locks) {
          core.Describe(locks.reply());
        });
      },
      queue);
  AcceptKind<BreakLocksCall>(
      &Service::RequestBreakLocks,
      [this](BreakLocksCall& call) {
        OnCore<BreakLocksCall>(call, [](VolumeServer&, Core& core, BreakLocksCall& locks) {
          const SessionId session(locks.request().session());
          core.BreakLocks(InodeNumber(locks.request().inode()),
                          session == SessionId(0) ? std::nullopt : std::optional(session),
                          locks.reply());
        });
      },
      queue);
  AcceptKind<EvictCall>(
      &Service::RequestEvict, [this](EvictCall& call) { Evict(call); }, queue);
  AcceptKind<ReservationsCall>(
      &Service::RequestReservations, [this](ReservationsCall& call) { Reservations(call); }, queue);
}

VolumeServer* AdminService::Find(const std::string& name) const {
  for (VolumeServer* volume : volumes_) {
    if (volume->name() == name) return volume;
  }
  return nullptr;
}

template <typename AnyCall, typename Action>
void AdminService::OnVolume(AnyCall& call, Action action) {
  const std::string& name = call.request().volume();
  VolumeServer* const volume = Find(name);
  if (volume == nullptr) {
    call.Finish(grpc::Status(grpc::StatusCode::NOT_FOUND,
                             absl::StrCat("volume ", name, " is not served here")));
    return;
  }
  const bool queued = volume->RunOnCore([volume, action](Core& core) { action(*volume, core); });
  if (!queued) call.Finish(Stopping());
}

template <typename AnyCall>
void AdminService::OnCore(AnyCall& call, void (*action)(VolumeServer&, Core&, AnyCall&)) {
  OnVolume(call, [&call, action](VolumeServer& volume, Core& core) {
    action(volume, core, call);
    call.Finish(grpc::Status::OK);
  });
}

void AdminService::Evict(Call<v1::EvictRequest, v1::EvictReply>& call) {
  OnVolume(call, [&call](VolumeServer&, Core& core) {
    const absl::Status status =
        core.EvictSession(SessionId(call.request().session()), "an administrator ended it");
    call.Finish(
        grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message())));
  });
}

// The core knows whose the keys are, the LUNs which there are.
void AdminService::Reservations(Call<v1::ReservationsRequest, v1::ReservationsReply>& call) {
  OnVolume(call, [&call](VolumeServer& volume, Core& core) {
    v1::WhoReply who;
    core.Describe(who);
    std::map<std::uint64_t, std::string> known;
    for (const v1::WhoReply::Session& session : who.sessions()) {
      const std::string owner = absl::StrCat("session ", session.session(), " of ", session.host());
      for (const std::uint64_t key : session.keys()) known[key] = owner;
    }
    const bool queued = volume.ListReservations(std::move(known), call.reply(),
                                                [&call] { call.Finish(grpc::Status::OK); });
    if (!queued) call.Finish(Stopping());
  });
}

void AdminService::Volumes(v1::VolumesReply& reply) const {
  for (const VolumeServer* volume : volumes_) {
    v1::VolumesReply::Volume& out = *reply.add_volumes();
    out.set_name(volume->name());
    out.set_volume(volume->descriptor().volume.ToBytes());
    out.set_role("active");
    out.set_epoch(volume->epoch().value());
  }
}

void AdminService::Disks(Call<v1::DisksRequest, v1::DisksReply>& call) {
  MutexLock lock(mutex_);
  if (stopping_ || waiting_.size() >= kMaxWaiting) {
    call.Finish(grpc::Status(
        grpc::StatusCode::UNAVAILABLE,
        stopping_ ? "the controller is stopping" : "too many scans of the LUNs wait already"));
    return;
  }
  waiting_.push_back([this, &call] {
    ListDisks(call.reply());
    call.Finish(grpc::Status::OK);
  });
  changed_.NotifyOne();
}

void AdminService::ListDisks(v1::DisksReply& reply) const {
  for (const FoundLun& found : ScanLuns(patterns_)) {
    v1::DisksReply::Disk& disk = *reply.add_disks();
    disk.set_path(found.path);
    if (!found.status.ok()) {
      disk.set_state(absl::IsNotFound(found.status) ? "unlabelled"
                                                    : std::string(found.status.message()));
      continue;
    }
    const Label& label = found.reading.label;
    disk.set_name(label.name);
    disk.set_lun(label.lun.ToBytes());
    disk.set_size_bytes(label.size_bytes);
    disk.set_state(found.reading.primary.ok() && found.reading.copy.ok()
                       ? "ok"
                       : "one copy of the label is damaged");
    if (label.volume.is_nil()) continue;
    disk.set_volume(label.volume.ToString());
    for (const VolumeServer* volume : volumes_) {
      const VolumeDescriptor& descriptor = volume->descriptor();
      if (descriptor.volume == label.volume && label.pool < descriptor.pools.size()) {
        disk.set_pool(descriptor.pools[label.pool].name);
      }
    }
  }
}

void AdminService::DiskMain() {
  for (;;) {
    std::function<void()> scan;
    {
      MutexLock lock(mutex_);
      while (waiting_.empty() && !stopping_) changed_.Wait(mutex_);
      if (waiting_.empty()) return;
      scan = std::move(waiting_.front());
      waiting_.pop_front();
    }
    scan();
  }
}

}  // namespace reel::mdc
