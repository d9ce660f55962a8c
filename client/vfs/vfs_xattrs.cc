// Extended attributes.
#include <cerrno>
#include <string>
#include <utility>

#include "client/vfs/vfs.h"
#include "proto/convert.h"
#include "proto/status.h"
#include "volume/base/env.h"

namespace reel::client {
namespace {

constexpr std::string_view kCapability = "security.capability";

// Out of a list in the form of listxattr(2).
void DropName(std::string& names, std::string_view name) {
  for (std::size_t at = 0; at < names.size();) {
    const std::size_t end = names.find('\0', at);
    if (end == names.npos) return;
    if (std::string_view(names).substr(at, end - at) == name) {
      names.erase(at, end + 1 - at);
      return;
    }
    at = end + 1;
  }
}

bool IsAclName(std::string_view name) {
  return name == "system.posix_acl_access" || name == "system.posix_acl_default";
}

// Whether an inode could have such an attribute; for other names the controller has an error of its
// own.
bool IsKeptXattr(std::string_view name) {
  if (IsAclName(name)) return true;
  for (const std::string_view prefix : {"user.", "trusted.", "security."}) {
    if (name.size() > prefix.size() && name.substr(0, prefix.size()) == prefix) return true;
  }
  return false;
}

}  // namespace

absl::StatusOr<std::string> Vfs::GetXattr(std::uint64_t inode, std::string_view name,
                                          const Caller& caller) {
  if (IsKeptXattr(name) && KnowsNoXattrs(inode)) return ErrnoStatus(ENODATA);
  v1::Request request;
  v1::GetXattr& get = *request.mutable_get_xattr();
  get.set_inode(inode);
  get.set_name(name.data(), name.size());
  absl::StatusOr<std::string> value = CallForData(std::move(request), caller);
  if (ErrnoOf(value.status()) == ESTALE) return removed_.GetXattr(inode, name);
  // It goes with the commit of what was written.
  if (value.ok() && name == kCapability && data_.HasUncommittedWrites(inode))
    return ErrnoStatus(ENODATA);
  return value;
}

absl::Status Vfs::SetXattr(v1::SetXattr set, const Caller& caller) {
  Caller setter = caller;
  if (IsAclName(set.name())) setter.AddGroups();
  if (absl::Status sent = data_.SendDelayed(set.inode(), Context(caller)); !sent.ok()) return sent;
  // Else the commit of what was written before would take it away.
  if (set.name() == kCapability && data_.HasUncommittedWrites(set.inode())) {
    if (absl::Status sent = data_.Fsync(set.inode(), Context(caller)); !sent.ok()) return sent;
  }
  v1::Request request;
  *request.mutable_set_xattr() = set;
  const absl::Status status = Call(std::move(request), setter).status();
  // (An ACL would have to change the mode.)
  const bool gone = ErrnoOf(status) == ESTALE && !IsAclName(set.name());
  return gone ? removed_.SetXattr(set, ToProto(SystemClock().WallNow())) : status;
}

absl::StatusOr<std::string> Vfs::ListXattr(std::uint64_t inode, const Caller& caller) {
  if (KnowsNoXattrs(inode)) return std::string();
  v1::Request request;
  request.mutable_list_xattr()->set_inode(inode);
  absl::StatusOr<std::string> names = CallForData(std::move(request), caller);
  if (ErrnoOf(names.status()) == ESTALE) return removed_.ListXattr(inode);
  if (names.ok() && data_.HasUncommittedWrites(inode)) DropName(*names, kCapability);
  return names;
}

absl::Status Vfs::RemoveXattr(std::uint64_t inode, std::string_view name, const Caller& caller) {
  if (absl::Status sent = data_.SendDelayed(inode, Context(caller)); !sent.ok()) return sent;
  v1::Request request;
  v1::RemoveXattr& remove = *request.mutable_remove_xattr();
  remove.set_inode(inode);
  remove.set_name(name.data(), name.size());
  const absl::Status status = Call(std::move(request), caller).status();
  return ErrnoOf(status) == ESTALE
             ? removed_.RemoveXattr(inode, name, ToProto(SystemClock().WallNow()))
             : status;
}

}  // namespace reel::client
