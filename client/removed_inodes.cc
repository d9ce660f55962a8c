#include "client/removed_inodes.h"

#include <sys/stat.h>

#include <utility>

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
  attrs_.insert_or_assign(inode, std::move(attr));
}

void RemovedInodes::Forget(std::uint64_t inode) {
  MutexLock lock(mutex_);
  attrs_.erase(inode);
}

std::optional<v1::Attr> RemovedInodes::Find(std::uint64_t inode) const {
  MutexLock lock(mutex_);
  const auto found = attrs_.find(inode);
  if (found == attrs_.end()) return std::nullopt;
  return found->second;
}

std::optional<v1::Attr> RemovedInodes::Set(const v1::SetAttr& set, const v1::Time& now) {
  if ((set.fields() & ~kOwn) != 0) return std::nullopt;
  MutexLock lock(mutex_);
  const auto found = attrs_.find(set.inode());
  if (found == attrs_.end()) return std::nullopt;
  v1::Attr& attr = found->second;
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

}  // namespace reel::client
