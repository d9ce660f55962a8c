#include "client/vfs/removed_inodes.h"

#include <sys/stat.h>
#include <sys/xattr.h>

#include <cerrno>
#include <utility>

#include "proto/status.h"

namespace reel::client {
namespace {

constexpr std::uint32_t kOwn = v1::SetAttr::MODE | v1::SetAttr::UID | v1::SetAttr::GID |
                               v1::SetAttr::ATIME | v1::SetAttr::MTIME | v1::SetAttr::ATIME_NOW |
                               v1::SetAttr::MTIME_NOW | v1::SetAttr::CTIME |
                               v1::SetAttr::KILL_SUID_SGID;

}  // namespace

void RemovedInodes::Add(v1::Attr attr, const v1::Time& now) {
  attr.set_nlink(0);
  attr.set_xattrs(false);
  *attr.mutable_ctime() = now;
  MutexLock lock(mutex_);
  const std::uint64_t inode = attr.inode();
  inodes_.insert_or_assign(inode, Removed{.attr = std::move(attr), .xattrs = {}});
}

void RemovedInodes::Learn(const v1::Attr& attr) {
  MutexLock lock(mutex_);
  const auto found = inodes_.find(attr.inode());
  if (found == inodes_.end()) return;
  v1::Attr& known = found->second.attr;
  known.set_size_bytes(attr.size_bytes());
  known.set_allocated_bytes(attr.allocated_bytes());
  *known.mutable_mtime() = attr.mtime();
  *known.mutable_ctime() = attr.ctime();
}

void RemovedInodes::Forget(std::uint64_t inode) {
  MutexLock lock(mutex_);
  inodes_.erase(inode);
}

std::optional<v1::Attr> RemovedInodes::Find(std::uint64_t inode) const {
  MutexLock lock(mutex_);
  const auto found = inodes_.find(inode);
  if (found == inodes_.end()) return std::nullopt;
  return found->second.attr;
}

std::optional<v1::Attr> RemovedInodes::Set(const v1::SetAttr& set, const v1::Time& now) {
  if ((set.fields() & ~kOwn) != 0) return std::nullopt;
  MutexLock lock(mutex_);
  const auto found = inodes_.find(set.inode());
  if (found == inodes_.end()) return std::nullopt;
  v1::Attr& attr = found->second.attr;
  const auto has = [&](std::uint32_t field) { return (set.fields() & field) != 0; };
  if (has(v1::SetAttr::MODE)) attr.set_mode((attr.mode() & S_IFMT) | (set.mode() & 07777));
  if (has(v1::SetAttr::UID)) attr.set_uid(set.uid());
  if (has(v1::SetAttr::GID)) attr.set_gid(set.gid());
  if (has(v1::SetAttr::ATIME)) *attr.mutable_atime() = set.atime();
  if (has(v1::SetAttr::MTIME)) *attr.mutable_mtime() = set.mtime();
  if (has(v1::SetAttr::ATIME_NOW)) *attr.mutable_atime() = now;
  if (has(v1::SetAttr::MTIME_NOW)) *attr.mutable_mtime() = now;
  *attr.mutable_ctime() = now;
  return attr;
}

absl::StatusOr<std::string> RemovedInodes::GetXattr(std::uint64_t inode,
                                                    std::string_view name) const {
  MutexLock lock(mutex_);
  const auto found = inodes_.find(inode);
  if (found == inodes_.end()) return ErrnoStatus(ESTALE);
  const auto xattr = found->second.xattrs.find(name);
  if (xattr == found->second.xattrs.end()) return ErrnoStatus(ENODATA);
  return xattr->second;
}

absl::Status RemovedInodes::SetXattr(const v1::SetXattr& set, const v1::Time& now) {
  MutexLock lock(mutex_);
  const auto found = inodes_.find(set.inode());
  if (found == inodes_.end()) return ErrnoStatus(ESTALE);
  auto& xattrs = found->second.xattrs;
  const bool exists = xattrs.contains(set.name());
  if (exists && (set.flags() & XATTR_CREATE) != 0) return ErrnoStatus(EEXIST);
  if (!exists && (set.flags() & XATTR_REPLACE) != 0) return ErrnoStatus(ENODATA);
  std::size_t bytes = set.name().size() + set.value().size();
  for (const auto& [name, value] : xattrs) {
    if (name != set.name()) bytes += name.size() + value.size();
  }
  if (bytes > kMaxXattrBytes) return ErrnoStatus(ENOSPC, "a removed inode's attributes");
  xattrs[set.name()] = set.value();
  *found->second.attr.mutable_ctime() = now;
  return absl::OkStatus();
}

absl::StatusOr<std::string> RemovedInodes::ListXattr(std::uint64_t inode) const {
  MutexLock lock(mutex_);
  const auto found = inodes_.find(inode);
  if (found == inodes_.end()) return ErrnoStatus(ESTALE);
  std::string names;
  for (const auto& [name, value] : found->second.xattrs) names.append(name).push_back('\0');
  return names;
}

absl::Status RemovedInodes::RemoveXattr(std::uint64_t inode, std::string_view name,
                                        const v1::Time& now) {
  MutexLock lock(mutex_);
  const auto found = inodes_.find(inode);
  if (found == inodes_.end()) return ErrnoStatus(ESTALE);
  const auto xattr = found->second.xattrs.find(name);
  if (xattr == found->second.xattrs.end()) return ErrnoStatus(ENODATA);
  found->second.xattrs.erase(xattr);
  *found->second.attr.mutable_ctime() = now;
  return absl::OkStatus();
}

}  // namespace reel::client
