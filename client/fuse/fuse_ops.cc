#include "client/fuse/fuse_ops.h"

#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <linux/fs.h>
#include <linux/fuse.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/fuse/connection/fuse_session.h"
#include "client/fuse/fuse_files.h"
#include "client/fuse/fuse_locks.h"
#include "client/fuse/fuse_reply.h"
#include "client/fuse/fuse_request.h"
#include "client/fuse/remount_message.h"
#include "proto/status.h"
#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

// ---- names

void OnLookup(fuse_req_t req, fuse_ino_t parent, const char* name) {
  const Request request(req);
  const NameIn at{parent, name};
  const absl::StatusOr<Attributes> attr = request.vfs().Lookup(at, request.caller());
  ReplyEntry(req, attr, request.ValidityOf(at, attr));
}

// Inode numbers are the controller's and never used twice, so there is no table of them to shrink;
// lookups are not counted: the kernel forgets an inode as a whole.
void OnForget(fuse_req_t req, fuse_ino_t inode, std::uint64_t) {
  static_cast<FuseFileSystem*>(fuse_req_userdata(req))->vfs.Forget(inode);
  fuse_reply_none(req);
}

void OnForgetMulti(fuse_req_t req, std::size_t count, fuse_forget_data* forgets) {
  Vfs& vfs = static_cast<FuseFileSystem*>(fuse_req_userdata(req))->vfs;
  for (const fuse_forget_data& forget : std::span(forgets, count)) vfs.Forget(forget.ino);
  fuse_reply_none(req);
}

void OnMknod(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode, dev_t rdev) {
  const Request request(req);
  ReplyEntry(req, request.vfs().Make({parent, name}, mode, rdev, request.caller()));
}

void OnMkdir(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode) {
  const Request request(req);
  ReplyEntry(req,
             request.vfs().Make({parent, name}, S_IFDIR | (mode & 07777), 0, request.caller()));
}

void OnSymlink(fuse_req_t req, const char* target, fuse_ino_t parent, const char* name) {
  const Request request(req);
  ReplyEntry(req, request.vfs().Symlink({parent, name}, target, request.caller()));
}

void OnLink(fuse_req_t req, fuse_ino_t inode, fuse_ino_t parent, const char* name) {
  const Request request(req);
  ReplyEntry(req, request.vfs().Link(inode, {parent, name}, request.caller()));
}

void OnUnlink(fuse_req_t req, fuse_ino_t parent, const char* name) {
  const Request request(req);
  ReplyStatus(req, request.vfs().Unlink({parent, name}, /*directory=*/false, request.caller()));
}

void OnRmdir(fuse_req_t req, fuse_ino_t parent, const char* name) {
  const Request request(req);
  ReplyStatus(req, request.vfs().Unlink({parent, name}, /*directory=*/true, request.caller()));
}

void OnRename(fuse_req_t req, fuse_ino_t parent, const char* name, fuse_ino_t new_parent,
              const char* new_name, unsigned flags) {
  const Request request(req);
  ReplyStatus(
      req, request.vfs().Rename({parent, name}, {new_parent, new_name}, flags, request.caller()));
}

void OnReadlink(fuse_req_t req, fuse_ino_t inode) {
  const Request request(req);
  const absl::StatusOr<std::string> target = request.vfs().ReadLink(inode, request.caller());
  if (!target.ok()) return ReplyStatus(req, target.status());
  fuse_reply_readlink(req, target->c_str());
}

// ---- inodes

void OnGetattr(fuse_req_t req, fuse_ino_t inode, fuse_file_info*) {
  const Request request(req);
  const absl::StatusOr<Attributes> attr = request.vfs().GetAttr(inode, request.caller());
  const Validity validity = request.ValidityOf(attr, /*knows_inode=*/true);
  FuseSession::IsStatx() ? ReplyStatx(req, attr, validity) : ReplyAttr(req, attr, validity);
}

void SetTime(const timespec& from, v1::Time* to) {
  to->set_seconds(from.tv_sec);
  to->set_nanoseconds(static_cast<std::uint32_t>(from.tv_nsec));
}

v1::SetAttr ToSetAttr(fuse_ino_t inode, const struct stat& attr, int to_set) {
  constexpr std::pair<int, v1::SetAttr::Field> kFields[] = {
      {FUSE_SET_ATTR_MODE, v1::SetAttr::MODE},   {FUSE_SET_ATTR_UID, v1::SetAttr::UID},
      {FUSE_SET_ATTR_GID, v1::SetAttr::GID},     {FUSE_SET_ATTR_SIZE, v1::SetAttr::SIZE},
      {FUSE_SET_ATTR_CTIME, v1::SetAttr::CTIME},
  };
  std::uint32_t fields = 0;
  for (const auto& [bit, field] : kFields) {
    if ((to_set & bit) != 0) fields |= field;
  }
  // The kernel sets both bits of a time that is to be "now".
  if ((to_set & FUSE_SET_ATTR_ATIME_NOW) != 0) {
    fields |= v1::SetAttr::ATIME_NOW;
  } else if ((to_set & FUSE_SET_ATTR_ATIME) != 0) {
    fields |= v1::SetAttr::ATIME;
  }
  if ((to_set & FUSE_SET_ATTR_MTIME_NOW) != 0) {
    fields |= v1::SetAttr::MTIME_NOW;
  } else if ((to_set & FUSE_SET_ATTR_MTIME) != 0) {
    fields |= v1::SetAttr::MTIME;
  }
  v1::SetAttr set;
  set.set_inode(inode);
  set.set_fields(fields);
  set.set_mode(attr.st_mode & 07777);
  set.set_uid(attr.st_uid);
  set.set_gid(attr.st_gid);
  set.set_size_bytes(static_cast<std::uint64_t>(attr.st_size));
  SetTime(attr.st_atim, set.mutable_atime());
  SetTime(attr.st_mtim, set.mutable_mtime());
  SetTime(attr.st_ctim, set.mutable_ctime());
  return set;
}

void OnSetattr(fuse_req_t req, fuse_ino_t inode, struct stat* attr, int to_set, fuse_file_info*) {
  const Request request(req);
  v1::SetAttr set = ToSetAttr(inode, *attr, to_set);
  ReplyAttr(req, request.vfs().SetAttr(std::move(set), request.caller()));
}

void OnStatfs(fuse_req_t req, fuse_ino_t inode) {
  const Request request(req);
  const absl::StatusOr<v1::StatFsReply> usage = request.vfs().StatFs(inode, request.caller());
  if (!usage.ok()) return ReplyStatus(req, usage.status());
  struct statvfs reply {};
  reply.f_bsize = usage->block_bytes();
  reply.f_frsize = usage->block_bytes();
  reply.f_blocks = usage->total_blocks();
  reply.f_bfree = usage->free_blocks();
  reply.f_bavail = usage->free_blocks();
  // Inodes have no limit of their own: one more for each free block is a fair promise.
  reply.f_files = usage->inodes() + usage->free_blocks();
  reply.f_ffree = usage->free_blocks();
  reply.f_favail = usage->free_blocks();
  reply.f_namemax = 255;
  fuse_reply_statfs(req, &reply);
}

// getxattr(2) and listxattr(2): a size of 0 asks for the length.
void ReplyXattr(fuse_req_t req, const absl::StatusOr<std::string>& value, std::size_t size) {
  if (!value.ok()) return ReplyStatus(req, value.status());
  if (size == 0) {
    fuse_reply_xattr(req, value->size());
  } else if (value->size() > size) {
    fuse_reply_err(req, ERANGE);
  } else {
    fuse_reply_buf(req, value->data(), value->size());
  }
}

void OnGetxattr(fuse_req_t req, fuse_ino_t inode, const char* name, std::size_t size) {
  const Request request(req);
  ReplyXattr(req, request.vfs().GetXattr(inode, name, request.caller()), size);
}

void OnListxattr(fuse_req_t req, fuse_ino_t inode, std::size_t size) {
  const Request request(req);
  ReplyXattr(req, request.vfs().ListXattr(inode, request.caller()), size);
}

void OnSetxattr(fuse_req_t req, fuse_ino_t inode, const char* name, const char* value,
                std::size_t size, int flags) {
  const Request request(req);
  v1::SetXattr set;
  set.set_inode(inode);
  set.set_name(name);
  set.set_value(value, size);
  set.set_flags(static_cast<std::uint32_t>(flags));
  const absl::Status status = request.vfs().SetXattr(std::move(set), request.caller());
  // Which values there are is known to the controller alone.
  if (ErrnoOf(status) == EINVAL && std::string_view(name).starts_with("reelfs.")) {
    spdlog::warn("inode {}: {}", inode, std::string(status.message()));
  }
  ReplyStatus(req, status);
}

void OnRemovexattr(fuse_req_t req, fuse_ino_t inode, const char* name) {
  const Request request(req);
  ReplyStatus(req, request.vfs().RemoveXattr(inode, name, request.caller()));
}

// ---- directories

DirHandle& HandleOf(const fuse_file_info& info) {
  return *reinterpret_cast<DirHandle*>(info.fh);
}

void OnOpendir(fuse_req_t req, fuse_ino_t inode, fuse_file_info* info) {
  const Request request(req);
  const NameCache::Listing listing = request.vfs().OpenDirectory(inode);
  auto handle = std::make_unique<DirHandle>(inode, (info->flags & O_NOATIME) != 0, listing,
                                            request.vfs().losses());
  info->fh = reinterpret_cast<std::uint64_t>(handle.get());
  info->cache_readdir = listing.number != 0;
  info->keep_cache = listing.kept;
  if (fuse_reply_open(req, info) != -ENOENT) {
    handle.release();
  } else {
    request.vfs().CloseDirectory(inode, listing);
  }
}

void OnReleasedir(fuse_req_t req, fuse_ino_t inode, fuse_file_info* info) {
  const Request request(req);
  const std::unique_ptr<DirHandle> handle(&HandleOf(*info));
  request.vfs().CloseDirectory(inode, handle->listing());
  fuse_reply_err(req, 0);
}

// The length of the entry when it fits into what is left, else one that exceeds it.
std::size_t AddEntry(fuse_req_t req, std::span<char> left, const v1::ReadDirReply::Entry& entry) {
  struct stat stat {};
  stat.st_ino = entry.inode();
  stat.st_mode = entry.type();
  return fuse_add_direntry(req, left.data(), left.size(), entry.name().c_str(), &stat,
                           static_cast<off_t>(entry.cookie()));
}

// (No readdirplus: the kernel would make an inode of each entry, and ask for it again all the
// same.)
void OnReaddir(fuse_req_t req, fuse_ino_t, std::size_t size, off_t offset, fuse_file_info* info) {
  const Request request(req);
  const std::span<std::byte> memory = FuseSession::ReplyBuffer();
  const std::span<char> buffer(reinterpret_cast<char*>(memory.data()),
                               std::min(size, memory.size()));
  std::size_t used = 0;
  auto cookie = static_cast<std::uint64_t>(offset);
  while (true) {
    const absl::StatusOr<const v1::ReadDirReply::Entry*> entry =
        request.vfs().NextEntry(HandleOf(*info), cookie, request.caller());
    // What came before an error is handed on; the kernel will ask again from there.
    if (!entry.ok() && used == 0) return ReplyStatus(req, entry.status());
    if (!entry.ok() || *entry == nullptr) break;
    const std::size_t length = AddEntry(req, buffer.subspan(used), **entry);
    if (length > buffer.size() - used) break;
    used += length;
    cookie = (*entry)->cookie();
  }
  fuse_reply_buf(req, buffer.data(), used);
}

void OnFsyncdir(fuse_req_t req, fuse_ino_t, int, fuse_file_info* info) {
  const Request request(req);
  ReplyStatus(req, request.vfs().SyncDirectory(HandleOf(*info), request.caller()));
}

// ---- flags

void GetFileFlags(fuse_req_t req, fuse_ino_t inode, bool extended) {
  const Request request(req);
  ReplyFileFlags(req, request.vfs().GetAttr(inode, request.caller()), extended);
}

void SetFileFlags(fuse_req_t req, fuse_ino_t inode, std::uint32_t flags) {
  const Request request(req);
  v1::SetAttr set;
  set.set_inode(inode);
  set.set_fields(v1::SetAttr::FLAGS);
  set.set_flags(FromFileFlags(flags));
  const absl::Status status = request.vfs().SetAttr(std::move(set), request.caller()).status();
  if (!status.ok()) return ReplyStatus(req, status);
  fuse_reply_ioctl(req, 0, nullptr, 0);
}

void OnRemount(fuse_req_t req, bool apply, const void* in) {
  if (const uid_t uid = fuse_req_ctx(req)->uid; uid != 0 && uid != geteuid()) {
    fuse_reply_err(req, EPERM);
    return;
  }
  RemountMessage message;
  std::memcpy(&message, in, sizeof(message));
  const std::string_view list(message.text, strnlen(message.text, sizeof(message.text)));
  const absl::Status status =
      static_cast<FuseFileSystem*>(fuse_req_userdata(req))->remount(list, apply);
  RemountMessage answer{};
  if (!status.ok()) {
    const absl::string_view text = status.message();
    std::memcpy(answer.text, text.data(), std::min(text.size(), sizeof(answer.text) - 1));
  }
  fuse_reply_ioctl(req, 0, &answer, sizeof(answer));
}

// chattr(1) and lsattr(1), of which the kernel makes these three; and `mount -o remount`.
void OnIoctl(fuse_req_t req, fuse_ino_t inode, unsigned command, void*, fuse_file_info*, unsigned,
             const void* in, std::size_t in_bytes, std::size_t out_bytes) {
  std::uint32_t flags = 0;
  if (command == FS_IOC_GETFLAGS && out_bytes >= sizeof(flags)) {
    GetFileFlags(req, inode, /*extended=*/false);
  } else if (command == FS_IOC_FSGETXATTR && out_bytes >= sizeof(fsxattr)) {
    GetFileFlags(req, inode, /*extended=*/true);
  } else if (command == FS_IOC_SETFLAGS && in_bytes >= sizeof(flags)) {
    std::memcpy(&flags, in, sizeof(flags));
    if (ToFileFlags(FromFileFlags(flags)) != flags) {
      fuse_reply_err(req, EOPNOTSUPP);
    } else {
      SetFileFlags(req, inode, flags);
    }
  } else if ((command == kCheckRemount || command == kApplyRemount) && inode == FUSE_ROOT_ID &&
             in_bytes >= sizeof(RemountMessage) && out_bytes >= sizeof(RemountMessage)) {
    OnRemount(req, command == kApplyRemount, in);
  } else {
    fuse_reply_err(req, ENOTTY);
  }
}

fuse_lowlevel_ops MakeTable() {
  fuse_lowlevel_ops ops{};
  ops.lookup = OnLookup;
  ops.forget = OnForget;
  ops.forget_multi = OnForgetMulti;
  ops.mknod = OnMknod;
  ops.mkdir = OnMkdir;
  ops.symlink = OnSymlink;
  ops.link = OnLink;
  ops.unlink = OnUnlink;
  ops.rmdir = OnRmdir;
  ops.rename = OnRename;
  ops.readlink = OnReadlink;
  ops.getattr = OnGetattr;
  ops.setattr = OnSetattr;
  ops.statfs = OnStatfs;
  ops.getxattr = OnGetxattr;
  ops.setxattr = OnSetxattr;
  ops.listxattr = OnListxattr;
  ops.removexattr = OnRemovexattr;
  ops.opendir = OnOpendir;
  ops.readdir = OnReaddir;
  ops.releasedir = OnReleasedir;
  ops.fsyncdir = OnFsyncdir;
  ops.ioctl = OnIoctl;
  AddFileCalls(ops);
  AddLockCalls(ops);
  return ops;
}

}  // namespace

const fuse_lowlevel_ops& FuseCallTable() {
  static const fuse_lowlevel_ops table = MakeTable();
  return table;
}

}  // namespace reel::client
