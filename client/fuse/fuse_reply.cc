#include "client/fuse/fuse_reply.h"

#include <linux/fs.h>
#include <linux/fuse.h>

#include <cerrno>
#include <string>

#include "proto/status.h"
#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

constexpr std::uint32_t kStatBlockBytes = 512;

constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
double ToSeconds(std::uint64_t nanoseconds) {
  return static_cast<double>(nanoseconds) / kNsPerSecond;
}

timespec ToTimespec(const WallTime& time) {
  timespec result{};
  result.tv_sec = time.seconds;
  result.tv_nsec = time.nanoseconds;
  return result;
}

fuse_attr ToFuseAttr(const struct stat& stat) {
  fuse_attr attr{};
  attr.ino = stat.st_ino;
  attr.size = static_cast<std::uint64_t>(stat.st_size);
  attr.blocks = static_cast<std::uint64_t>(stat.st_blocks);
  attr.atime = static_cast<std::uint64_t>(stat.st_atim.tv_sec);
  attr.mtime = static_cast<std::uint64_t>(stat.st_mtim.tv_sec);
  attr.ctime = static_cast<std::uint64_t>(stat.st_ctim.tv_sec);
  attr.atimensec = static_cast<std::uint32_t>(stat.st_atim.tv_nsec);
  attr.mtimensec = static_cast<std::uint32_t>(stat.st_mtim.tv_nsec);
  attr.ctimensec = static_cast<std::uint32_t>(stat.st_ctim.tv_nsec);
  attr.mode = stat.st_mode;
  attr.nlink = static_cast<std::uint32_t>(stat.st_nlink);
  attr.uid = stat.st_uid;
  attr.gid = stat.st_gid;
  attr.rdev = static_cast<std::uint32_t>(stat.st_rdev);
  attr.blksize = static_cast<std::uint32_t>(stat.st_blksize);
  return attr;
}

// Newer than this system's <linux/fuse.h>.
struct StatxTime {
  std::int64_t seconds = 0;
  std::uint32_t nanoseconds = 0;
  std::int32_t reserved = 0;
};
struct Statx {
  std::uint32_t mask = 0;
  std::uint32_t blksize = 0;
  std::uint64_t attributes = 0;
  std::uint32_t nlink = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint16_t mode = 0;
  std::uint16_t reserved = 0;
  std::uint64_t ino = 0;
  std::uint64_t size = 0;
  std::uint64_t blocks = 0;
  std::uint64_t attributes_mask = 0;
  StatxTime atime, btime, ctime, mtime;
  std::uint32_t rdev_major = 0;
  std::uint32_t rdev_minor = 0;
  std::uint32_t dev_major = 0;
  std::uint32_t dev_minor = 0;
  std::uint64_t reserved_too[14] = {};
};
static_assert(sizeof(Statx) == sizeof(struct statx));
struct StatxOut {
  std::uint64_t valid_seconds = 0;
  std::uint32_t valid_nanoseconds = 0;
  std::uint32_t flags = 0;
  std::uint64_t reserved[2] = {};
  Statx stat;
};
static_assert(sizeof(StatxOut) == 32 + sizeof(Statx));

StatxTime ToStatxTime(const WallTime& time) {
  return {time.seconds, time.nanoseconds, 0};
}

}  // namespace

struct stat ToStat(const Attributes& attr) {
  struct stat stat {};
  stat.st_ino = attr.inode;
  stat.st_mode = attr.mode;
  stat.st_nlink = attr.nlink;
  stat.st_uid = attr.uid;
  stat.st_gid = attr.gid;
  stat.st_rdev = attr.rdev;
  stat.st_size = static_cast<off_t>(attr.size_bytes);
  stat.st_blocks = static_cast<blkcnt_t>(attr.allocated_bytes / kStatBlockBytes);
  stat.st_blksize = S_ISREG(attr.mode) ? kPreferredIoBytes : 4096;
  stat.st_atim = ToTimespec(attr.atime);
  stat.st_mtim = ToTimespec(attr.mtime);
  stat.st_ctim = ToTimespec(attr.ctime);
  return stat;
}

fuse_entry_param ToEntry(const Attributes& attr, const Validity& validity) {
  fuse_entry_param entry{};
  entry.ino = attr.inode;
  entry.generation = attr.generation;
  entry.attr = ToStat(attr);
  entry.attr_timeout = ToSeconds(validity.attr_ns);
  entry.entry_timeout = ToSeconds(validity.name_ns);
  return entry;
}

std::uint32_t ToFileFlags(std::uint32_t inode_flags) {
  std::uint32_t flags = 0;
  if ((inode_flags & v1::INODE_FLAG_IMMUTABLE) != 0) flags |= FS_IMMUTABLE_FL;
  if ((inode_flags & v1::INODE_FLAG_APPEND) != 0) flags |= FS_APPEND_FL;
  if ((inode_flags & v1::INODE_FLAG_CASEFOLD) != 0) flags |= FS_CASEFOLD_FL;
  return flags;
}

std::uint32_t FromFileFlags(std::uint32_t file_flags) {
  std::uint32_t flags = 0;
  if ((file_flags & FS_IMMUTABLE_FL) != 0) flags |= v1::INODE_FLAG_IMMUTABLE;
  if ((file_flags & FS_APPEND_FL) != 0) flags |= v1::INODE_FLAG_APPEND;
  if ((file_flags & FS_CASEFOLD_FL) != 0) flags |= v1::INODE_FLAG_CASEFOLD;
  return flags;
}

void ReplyStatus(fuse_req_t request, const absl::Status& status) {
  const int error = ErrnoOf(status);
  // What the application's errno cannot tell.
  if (error == EIO) spdlog::error("I/O error: {}", std::string(status.message()));
  fuse_reply_err(request, error);
}

void ReplyFileFlags(fuse_req_t request, const absl::StatusOr<Attributes>& attr, bool extended) {
  if (!attr.ok()) return ReplyStatus(request, attr.status());
  if (!extended) {
    const std::uint32_t flags = ToFileFlags(attr->flags);
    fuse_reply_ioctl(request, 0, &flags, sizeof(flags));
    return;
  }
  fsxattr reply{};
  if ((attr->flags & v1::INODE_FLAG_IMMUTABLE) != 0) reply.fsx_xflags |= FS_XFLAG_IMMUTABLE;
  if ((attr->flags & v1::INODE_FLAG_APPEND) != 0) reply.fsx_xflags |= FS_XFLAG_APPEND;
  reply.fsx_projid = attr->project;
  fuse_reply_ioctl(request, 0, &reply, sizeof(reply));
}

void ReplyAttr(fuse_req_t request, const absl::StatusOr<Attributes>& attr,
               const Validity& validity) {
  if (!attr.ok()) return ReplyStatus(request, attr.status());
  const struct stat stat = ToStat(*attr);
  fuse_reply_attr(request, &stat, ToSeconds(validity.attr_ns));
}

void ReplyStatx(fuse_req_t request, const absl::StatusOr<Attributes>& attr,
                const Validity& validity) {
  if (!attr.ok()) return ReplyStatus(request, attr.status());
  const struct stat from = ToStat(*attr);
  StatxOut out;
  out.valid_seconds = validity.attr_ns / kNsPerSecond;
  out.valid_nanoseconds = static_cast<std::uint32_t>(validity.attr_ns % kNsPerSecond);
  Statx& to = out.stat;
  to.mask = STATX_BASIC_STATS | STATX_BTIME;
  to.blksize = static_cast<std::uint32_t>(from.st_blksize);
  to.nlink = attr->nlink;
  to.uid = attr->uid;
  to.gid = attr->gid;
  to.mode = static_cast<std::uint16_t>(attr->mode);
  to.ino = attr->inode;
  to.size = attr->size_bytes;
  to.blocks = static_cast<std::uint64_t>(from.st_blocks);
  to.atime = ToStatxTime(attr->atime);
  to.btime = ToStatxTime(attr->btime);
  to.ctime = ToStatxTime(attr->ctime);
  to.mtime = ToStatxTime(attr->mtime);
  // The kernel's own coding of 32 bits, as in MKNOD: 12 bits of major around 20 of minor.
  const auto rdev = static_cast<std::uint32_t>(attr->rdev);
  to.rdev_major = (rdev & 0xfff00) >> 8;
  to.rdev_minor = (rdev & 0xff) | ((rdev >> 12) & 0xfff00);
  fuse_reply_buf(request, reinterpret_cast<const char*>(&out), sizeof(out));
}

void ReplyEntry(fuse_req_t request, const absl::StatusOr<Attributes>& attr,
                const Validity& validity) {
  const bool absent = ErrnoOf(attr.status()) == ENOENT && validity.name_ns > 0;
  if (!attr.ok() && !absent) return ReplyStatus(request, attr.status());
  fuse_entry_param entry{};  // of inode 0: absent
  entry.entry_timeout = ToSeconds(validity.name_ns);
  if (attr.ok()) entry = ToEntry(*attr, validity);
  fuse_reply_entry(request, &entry);
}

std::uint32_t OpenFlags(const OpenMode& mode) {
  return (mode.direct ? FOPEN_DIRECT_IO | FOPEN_PARALLEL_DIRECT_WRITES : 0) |
         (mode.keeps_pages ? FOPEN_KEEP_CACHE : 0);
}

bool ReplyOpen(fuse_req_t request, std::uint64_t handle, std::uint32_t open_flags) {
  fuse_open_out out{};
  out.fh = handle;
  out.open_flags = open_flags;
  return fuse_reply_buf(request, reinterpret_cast<const char*>(&out), sizeof(out)) != -ENOENT;
}

bool ReplyCreate(fuse_req_t request, const Attributes& attr, const Validity& validity,
                 std::uint64_t handle, std::uint32_t open_flags) {
  struct {
    fuse_entry_out entry;
    fuse_open_out open;
  } out{};
  static_assert(sizeof(out) == sizeof(fuse_entry_out) + sizeof(fuse_open_out));
  out.entry.nodeid = attr.inode;
  out.entry.generation = attr.generation;
  out.entry.attr_valid = validity.attr_ns / kNsPerSecond;
  out.entry.attr_valid_nsec = validity.attr_ns % kNsPerSecond;
  out.entry.entry_valid = validity.name_ns / kNsPerSecond;
  out.entry.entry_valid_nsec = validity.name_ns % kNsPerSecond;
  out.entry.attr = ToFuseAttr(ToStat(attr));
  out.open.fh = handle;
  out.open.open_flags = open_flags;
  return fuse_reply_buf(request, reinterpret_cast<const char*>(&out), sizeof(out)) != -ENOENT;
}

}  // namespace reel::client
