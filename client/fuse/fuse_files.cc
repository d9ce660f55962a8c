#include "client/fuse/fuse_files.h"

#include <fcntl.h>
#include <fuse_lowlevel.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "client/fuse/connection/fuse_session.h"
#include "client/fuse/fuse_request.h"
#include "volume/base/env.h"

namespace reel::client {
namespace {

// Seconds since its bytes or attributes were last changed; 0 where another host's clock is ahead.
std::uint64_t UnchangedSeconds(const v1::Attr& attr) {
  const std::int64_t changed = std::max(attr.mtime().seconds(), attr.ctime().seconds());
  return static_cast<std::uint64_t>(
      std::max<std::int64_t>(SystemClock().WallNow().seconds - changed, 0));
}

// A file that may be written through this open keeps no pages: those that were read in while nobody
// could write them came without the right to write, and a mapping changes them without a word.
OpenMode ModeOf(const Request& request, int flags, const v1::Attr& attr) {
  const bool reads = (flags & O_ACCMODE) == O_RDONLY;
  const bool large = attr.size_bytes() > kKeptBytes;  // of others it does not matter
  const Vfs& vfs = request.vfs();
  return {
      .direct = OpensDirect(request.cache(), FuseSession::MapsDirectFiles(),
                            {.flags = flags,
                             .size_bytes = attr.size_bytes(),
                             .unchanged_seconds = UnchangedSeconds(attr),
                             .read_in_pieces = reads && large && vfs.IsReadInPieces(attr.inode()),
                             .played = !reads || !large || vfs.MayBePlayed(attr.inode())}),
      .keeps_pages = reads && request.vfs().PagesAreGood(attr.inode())};
}

void CloseFile(const Request& request, std::uint64_t inode) {
  request.locks().Release(inode, request.caller().handle, request.caller().interrupt);
  request.vfs().Close(inode);
}

// A file of a single writer, opened or made, that may not be written now is closed again.
absl::Status BecomeWriter(const Request& request, fuse_req_t req, int flags, const v1::Attr& attr) {
  const bool writes = (flags & O_ACCMODE) != O_RDONLY;
  if (!writes || (attr.flags() & v1::INODE_FLAG_SINGLE_WRITER) == 0) return absl::OkStatus();
  const auto pid = static_cast<std::uint32_t>(fuse_req_ctx(req)->pid);
  absl::Status outcome = request.locks().BecomeWriter(attr.inode(), request.caller().handle, pid,
                                                      request.caller().interrupt);
  if (!outcome.ok()) request.vfs().Close(attr.inode());
  return outcome;
}

void OnOpen(fuse_req_t req, fuse_ino_t inode, fuse_file_info* info) {
  const Request request(req, Request::NewHandle(req));
  const absl::StatusOr<v1::Attr> attr = request.vfs().Open(inode, info->flags, request.caller());
  if (!attr.ok()) return ReplyStatus(req, attr.status());
  const absl::Status writer = BecomeWriter(request, req, info->flags, *attr);
  if (!writer.ok()) return ReplyStatus(req, writer);
  if (!ReplyOpen(req, request.handle(), OpenFlags(ModeOf(request, info->flags, *attr)))) {
    CloseFile(request, inode);
  }
}

void OnCreate(fuse_req_t req, fuse_ino_t parent, const char* name, mode_t mode,
              fuse_file_info* info) {
  const Request request(req, Request::NewHandle(req));
  const bool named = !FuseSession::IsTmpfile();
  const absl::StatusOr<v1::Attr> attr =
      !named ? request.vfs().CreateUnnamed(parent, mode, info->flags, request.caller())
             : request.vfs().Create({parent, name}, mode, info->flags, request.caller());
  if (!attr.ok()) return ReplyStatus(req, attr.status());
  const absl::Status writer = BecomeWriter(request, req, info->flags, *attr);
  if (!writer.ok()) return ReplyStatus(req, writer);
  const Validity validity = named ? request.ValidityOf(NameIn{parent, name}, attr)
                                  : request.ValidityOf(attr, /*knows_inode=*/false);
  if (!ReplyCreate(req, *attr, validity, request.handle(),
                   OpenFlags(ModeOf(request, info->flags, *attr)))) {
    CloseFile(request, attr->inode());
  }
}

void OnRelease(fuse_req_t req, fuse_ino_t inode, fuse_file_info* info) {
  const Request request(req, info->fh);
  CloseFile(request, inode);
  fuse_reply_err(req, 0);
}

void OnRead(fuse_req_t req, fuse_ino_t inode, std::size_t size, off_t offset,
            fuse_file_info* info) {
  const Request request(req);
  const std::span<std::byte> memory = FuseSession::ReplyBuffer();
  const std::span<std::byte> buffer = memory.first(std::min(size, memory.size()));
  const absl::StatusOr<std::size_t> length =
      request.vfs().Read(inode, static_cast<std::uint64_t>(offset), buffer, info->flags,
                         FuseSession::IsPageCacheRequest(), request.caller());
  if (!length.ok()) return ReplyStatus(req, length.status());
  fuse_reply_buf(req, reinterpret_cast<const char*>(buffer.data()), *length);
}

void OnWrite(fuse_req_t req, fuse_ino_t inode, const char* data, std::size_t size, off_t offset,
             fuse_file_info* info) {
  const Request request(req, info->fh);
  const absl::Status outcome = request.locks().CheckWriter(inode);
  if (!outcome.ok()) return ReplyStatus(req, outcome);
  const bool page_cache = FuseSession::IsPageCacheRequest();
  const PageCacheWrite pages = info->writepage != 0 ? PageCacheWrite::kBack
                               : page_cache         ? PageCacheWrite::kThrough
                                                    : PageCacheWrite::kNone;
  const absl::StatusOr<std::size_t> written = request.vfs().Write(
      inode, static_cast<std::uint64_t>(offset), {reinterpret_cast<const std::byte*>(data), size},
      info->flags, pages, request.caller());
  if (!written.ok()) return ReplyStatus(req, written.status());
  fuse_reply_write(req, *written);
}

void OnFsync(fuse_req_t req, fuse_ino_t inode, int data_only, fuse_file_info* info) {
  const Request request(req, info->fh);
  ReplyStatus(req, request.vfs().Fsync(inode, data_only != 0, request.caller()));
}

void OnFallocate(fuse_req_t req, fuse_ino_t inode, int mode, off_t offset, off_t length,
                 fuse_file_info*) {
  const Request request(req);
  ReplyStatus(req, request.vfs().Allocate(inode, static_cast<std::uint32_t>(mode),
                                          static_cast<std::uint64_t>(offset),
                                          static_cast<std::uint64_t>(length), request.caller()));
}

void OnLseek(fuse_req_t req, fuse_ino_t inode, off_t offset, int whence, fuse_file_info*) {
  const Request request(req);
  const absl::StatusOr<std::uint64_t> found =
      request.vfs().Seek(inode, static_cast<std::uint64_t>(offset), whence, request.caller());
  if (!found.ok()) return ReplyStatus(req, found.status());
  fuse_reply_lseek(req, static_cast<off_t>(*found));
}

}  // namespace

void AddFileCalls(fuse_lowlevel_ops& ops) {
  ops.open = OnOpen;
  ops.create = OnCreate;
  ops.release = OnRelease;
  ops.read = OnRead;
  ops.write = OnWrite;
  ops.fsync = OnFsync;
  ops.fallocate = OnFallocate;
  ops.lseek = OnLseek;
}

}  // namespace reel::client
