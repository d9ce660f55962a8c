#include "mdc/rpc/admin_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"
#include "volume/format/lun_scan.h"

namespace reel::mdc {

namespace {

// Where a standby's answer names the active controller.
constexpr char kActiveTrailer[] = "reel-active";
constexpr char kStoppedTrailer[] = "reel-stopped";  // … and there will be none by itself

std::string TextOf(const VolumeRole::Active& active) {
  if (!active.address.empty()) return absl::StrCat("the active one is ", active.address);
  return active.stopped ? "the volume is stopped, until \"reeladm start\"" : "no MDC is active";
}

}  // namespace

grpc::Status AdminService::Stopping() {
  return grpc::Status(grpc::StatusCode::UNAVAILABLE, "the controller is stopping");
}

const VolumeRole* AdminService::RoleOf(const std::string& volume) const {
  for (const VolumeRole* role : volumes_) {
    if (role->name() == volume) return role;
  }
  return nullptr;
}

AdminService::AdminService(std::vector<VolumeRole*> volumes, std::vector<std::string> patterns,
                           ConnectionGate& gate, const PeerGuard& guard, AboutDaemon about)
    : volumes_(std::move(volumes)),
      patterns_(std::move(patterns)),
      gate_(gate),
      guard_(guard),
      about_(std::move(about)),
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
  const auto peer = guard_.Check(*context.auth_context(), TlsRole::kAdmin, "administration");
  if (peer.ok()) return grpc::Status::OK;
  const std::string why(peer.status().message());
  gate_.CountRefused();
  spdlog::warn("administration from {} is refused: {}", context.peer(), why);
  return grpc::Status(grpc::StatusCode::PERMISSION_DENIED, why);
}

grpc::Status AdminService::CheckProtocol(grpc::ServerContext& context) const {
  if (about_.protocol.newest < 2) return grpc::Status::OK;  // which said nothing of versions
  context.AddTrailingMetadata(kProtocolMetadata, EncodeProtocol(about_.protocol));
  const auto& metadata = context.client_metadata();
  const auto said = metadata.find(kProtocolMetadata);
  ProtocolRange theirs;
  if (said != metadata.end()) theirs = DecodeProtocol({said->second.data(), said->second.size()});
  const auto common = CommonProtocol({absl::StrCat("reeladm at ", context.peer()), theirs},
                                     {absl::StrCat("reel-mdcd on ", about_.host), about_.protocol});
  if (common.ok()) return grpc::Status::OK;
  const std::string why(common.status().message());
  spdlog::warn("administration from {} is refused: {}", context.peer(), why);
  return grpc::Status(grpc::StatusCode::UNIMPLEMENTED, why);
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
      &Service::RequestStat,
      [=, this](StatCall& call) {
        v1::StatReply::Counter& refused = *call.reply().add_counters();
        refused.set_name("connection.refused");  // of the daemon, for all of its volumes
        refused.set_value(gate_.refused());
        OnCore<StatCall>(call, describe);
      },
      queue);
  AcceptKind<WhoCall>(
      &Service::RequestWho,
      [this](WhoCall& call) {
        OnCore<WhoCall>(call, [](VolumeServer&, Core& core, WhoCall& who) {
          core.Describe(who.reply());
          if (who.request().luns()) core.DescribeLuns(who.reply());
        });
      },
      queue);
  AcceptKind<LocksCall>(
      &Service::RequestLocks,
      [this](LocksCall& call) {
        OnVolume(call, [&call](VolumeServer&, Core& core) {
          core.FetchLocks(std::nullopt, [&core, &call](bool answered) {
            if (!answered) return call.Finish(Stopping());
            core.Describe(call.reply());
            call.Finish(grpc::Status::OK);
          });
        });
      },
      queue);
  AcceptKind<BreakLocksCall>(
      &Service::RequestBreakLocks,
      [this](BreakLocksCall& call) {
        OnVolume(call, [&call](VolumeServer&, Core& core) {
          const InodeNumber inode(call.request().inode());
          const SessionId session(call.request().session());
          core.FetchLocks(inode, [&core, &call, inode, session](bool answered) {
            if (!answered) return call.Finish(Stopping());
            core.BreakLocks(inode, session == SessionId(0) ? std::nullopt : std::optional(session),
                            call.reply());
            call.Finish(grpc::Status::OK);
          });
        });
      },
      queue);
  AcceptKind<EvictCall>(
      &Service::RequestEvict, [this](EvictCall& call) { Evict(call); }, queue);
  AcceptKind<ReservationsCall>(
      &Service::RequestReservations, [this](ReservationsCall& call) { Reservations(call); }, queue);
  AcceptSeatCalls(queue);
  AcceptDumpCalls(queue);
  AcceptMapCalls(queue);
  AcceptInspectCalls(queue);
  AcceptJobCalls(queue);
  AcceptQuotaCalls(queue);
  AcceptBandwidthCalls(queue);
}

VolumeServer* AdminService::Find(grpc::ServerContext& context, const std::string& name,
                                 grpc::Status* why) const {
  if (const VolumeRole* role = RoleOf(name)) {
    if (VolumeServer* server = role->server()) return server;
    const VolumeRole::Active active = role->active();
    context.AddTrailingMetadata(kActiveTrailer, active.address);
    if (active.stopped) context.AddTrailingMetadata(kStoppedTrailer, "");
    *why =
        grpc::Status(grpc::StatusCode::FAILED_PRECONDITION,
                     absl::StrCat("this MDC is a standby of volume ", name, "; ", TextOf(active)));
    return nullptr;
  }
  *why = grpc::Status(grpc::StatusCode::NOT_FOUND,
                      absl::StrCat("volume ", name, " is not served here"));
  return nullptr;
}

void AdminService::Evict(Call<v1::EvictRequest, v1::EvictReply>& call) {
  OnVolume(call, [&call](VolumeServer&, Core& core) {
    const absl::Status status =
        core.EvictSession(SessionId(call.request().session()), "an administrator ended it");
    call.Finish(ToGrpc(status));
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
  reply.set_host(about_.host);
  reply.set_program(about_.program);
  reply.set_protocol(ProtocolText(about_.protocol));
  for (const VolumeRole* role : volumes_) {
    v1::VolumesReply::Volume& out = *reply.add_volumes();
    const VolumeServer* server = role->server();
    const VolumeRole::Active active = role->active();
    out.set_name(role->name());
    out.set_volume(role->volume().ToBytes());
    out.set_role(server != nullptr ? "active" : "standby");
    out.set_epoch((server != nullptr ? server->epoch() : active.epoch).value());
    out.set_active(active.address);
    out.set_active_host(active.host);
    out.set_holder(role->holder().ToBytes());
    out.set_stopped(server == nullptr && active.stopped);
    out.set_maintenance(server != nullptr ? server->maintenance() : active.maintenance);
    if (active.host.empty()) continue;
    out.set_active_protocol(ProtocolText(active.protocol));
    out.set_active_program(active.program);
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
    for (const VolumeRole* role : volumes_) {
      if (role->server() == nullptr) continue;
      const VolumeDescriptor& descriptor = role->server()->descriptor();
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
