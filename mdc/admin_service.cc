#include "mdc/admin_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "volume/lun_scan.h"

namespace reel::mdc {

AdminService::AdminService(std::vector<VolumeServer*> volumes, std::vector<std::string> patterns)
    : volumes_(std::move(volumes)),
      patterns_(std::move(patterns)),
      disk_thread_([this] { DiskMain(); }) {}

AdminService::~AdminService() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  disk_thread_.join();
}

VolumeServer* AdminService::Find(const std::string& name) const {
  for (VolumeServer* volume : volumes_) {
    if (volume->name() == name) return volume;
  }
  return nullptr;
}

grpc::ServerUnaryReactor* AdminService::OnCore(
    grpc::CallbackServerContext* context, const std::string& name,
    std::function<void(VolumeServer&, const Core&)> describe) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  VolumeServer* const volume = Find(name);
  if (volume == nullptr) {
    reactor->Finish(grpc::Status(grpc::StatusCode::NOT_FOUND,
                                 absl::StrCat("volume ", name, " is not served here")));
    return reactor;
  }
  const bool queued =
      volume->RunOnCore([reactor, volume, describe = std::move(describe)](const Core& core) {
        describe(*volume, core);
        reactor->Finish(grpc::Status::OK);
      });
  if (!queued) {
    reactor->Finish(grpc::Status(grpc::StatusCode::UNAVAILABLE, "the controller is stopping"));
  }
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::Volumes(grpc::CallbackServerContext* context,
                                                const v1::VolumesRequest*,
                                                v1::VolumesReply* reply) {
  for (const VolumeServer* volume : volumes_) {
    v1::VolumesReply::Volume& out = *reply->add_volumes();
    out.set_name(volume->name());
    out.set_volume(volume->descriptor().volume.ToBytes());
    out.set_role("active");
    out.set_epoch(volume->epoch().value());
  }
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::Show(grpc::CallbackServerContext* context,
                                             const v1::ShowRequest* request, v1::ShowReply* reply) {
  return OnCore(context, request->volume(), [reply](VolumeServer& volume, const Core& core) {
    core.Describe(*reply);
    volume.Complete(*reply);
  });
}

grpc::ServerUnaryReactor* AdminService::Stat(grpc::CallbackServerContext* context,
                                             const v1::StatRequest* request, v1::StatReply* reply) {
  return OnCore(context, request->volume(), [reply](VolumeServer& volume, const Core& core) {
    core.Describe(*reply);
    volume.Complete(*reply);
  });
}

grpc::ServerUnaryReactor* AdminService::Who(grpc::CallbackServerContext* context,
                                            const v1::WhoRequest* request, v1::WhoReply* reply) {
  return OnCore(context, request->volume(),
                [reply](VolumeServer&, const Core& core) { core.Describe(*reply); });
}

grpc::ServerUnaryReactor* AdminService::Disks(grpc::CallbackServerContext* context,
                                              const v1::DisksRequest*, v1::DisksReply* reply) {
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  MutexLock lock(mutex_);
  if (stopping_ || waiting_.size() >= kMaxWaiting) {
    reactor->Finish(grpc::Status(
        grpc::StatusCode::UNAVAILABLE,
        stopping_ ? "the controller is stopping" : "too many scans of the LUNs wait already"));
    return reactor;
  }
  waiting_.push_back([this, reactor, reply] {
    ListDisks(*reply);
    reactor->Finish(grpc::Status::OK);
  });
  changed_.NotifyOne();
  return reactor;
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
