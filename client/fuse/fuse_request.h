// One call in progress, as the functions of the call table see it.
//
// Threads: of the worker that serves the call.
#pragma once

#include <fuse_lowlevel.h>

#include <cerrno>
#include <cstdint>
#include <vector>

#include "client/fuse/fuse_interrupt.h"
#include "client/fuse/fuse_ops.h"
#include "client/fuse/fuse_reply.h"
#include "proto/status.h"

namespace reel::client {

class FuseGroups : public CallerGroups {
 public:
  explicit FuseGroups(fuse_req_t request) : request_(request) {}
  std::vector<std::uint32_t> Get() const override {
    std::vector<gid_t> groups(64);
    for (;;) {
      const int count =
          fuse_req_getgroups(request_, static_cast<int>(groups.size()), groups.data());
      if (count < 0) return {};
      const bool all = static_cast<std::size_t>(count) <= groups.size();
      groups.resize(static_cast<std::size_t>(count));
      if (all) return {groups.begin(), groups.end()};
    }
  }

 private:
  const fuse_req_t request_;
};

// One call in progress: who asks, and a way to learn that they gave up.
class Request {
 public:
  explicit Request(fuse_req_t request, std::uint64_t handle = 0)
      : file_system_(*static_cast<FuseFileSystem*>(fuse_req_userdata(request))),
        groups_(request),
        interrupt_(request) {
    const fuse_ctx* context = fuse_req_ctx(request);
    caller_.credentials.set_uid(context->uid);
    caller_.credentials.set_gid(context->gid);
    caller_.groups = &groups_;
    caller_.umask = context->umask;
    caller_.handle = handle;
    caller_.interrupt = &interrupt_;
  }
  Request(const Request&) = delete;
  Request& operator=(const Request&) = delete;

  Vfs& vfs() const { return file_system_.vfs; }
  FileLocks& locks() const { return file_system_.locks; }
  const Caller& caller() const { return caller_; }
  std::uint64_t handle() const { return caller_.handle; }
  static std::uint64_t NewHandle(fuse_req_t request) {
    return static_cast<FuseFileSystem*>(fuse_req_userdata(request))->locks.NewHandle();
  }
  // Of attributes that came from vfs() just now.
  Validity ValidityOf(const absl::StatusOr<Attributes>& attr, bool knows_inode) const {
    return {.attr_ns = attr.ok() ? vfs().ShowAttr(*attr, knows_inode) : 0, .name_ns = 0};
  }
  // The same of what a name was just said to lead to, or of its absence (ENOENT).
  Validity ValidityOf(const NameIn& at, const absl::StatusOr<Attributes>& attr) const {
    Validity validity = ValidityOf(attr, /*knows_inode=*/false);
    if (attr.ok() || ErrnoOf(attr.status()) == ENOENT) {
      validity.name_ns = vfs().ShowName(at, attr.ok() ? attr->inode : 0);
    }
    return validity;
  }
  CacheChoice cache() const { return file_system_.cache; }

 private:
  FuseFileSystem& file_system_;
  FuseGroups groups_;
  FuseInterrupt interrupt_;
  Caller caller_;
};

}  // namespace reel::client
