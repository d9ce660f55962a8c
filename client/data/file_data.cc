#include "client/data/file_data.h"

#include "client/data/file_data_impl.h"
#include "proto/convert.h"
#include "proto/protocol.h"

namespace reel::client {

absl::StatusOr<v1::Attr> FileDataImpl::Open(std::uint64_t inode, bool write, const IoContext& io) {
  const FileRef file = context_.table.Get(inode);
  FileState& f = *file;
  bool known = false;
  {
    MutexLock lock(f.mutex);
    f.opens.Open(io.handle, write);
    known = f.opens.known();
    if (io.known != nullptr && !context_.session->checks_opens() &&
        f.grant.Has(kWholeFile, v1::TOKEN_SHARED) && !f.recall.under_way()) {
      v1::Attr attr = *io.known;
      f.OverlayOn(attr);
      return attr;
    }
  }
  // (One that is on its way may be refused yet: the file may be gone.)
  absl::StatusOr<v1::Attr> attr =
      known ? AttrAtController(inode, io) : OpenAtController(file, write, io);
  if (!attr.ok()) {
    Close(inode);
    return attr;
  }
  MutexLock lock(f.mutex);
  f.OverlayOn(*attr);
  return attr;
}

absl::Status FileDataImpl::MakeDurable(const FileRef& file, const IoContext& io) {
  Session& session = *context_.session;
  const std::uint64_t losses = session.losses();
  absl::Status status;
  if (file != nullptr) status = committer_.Sync(file, io.data_only, io.interrupt);
  // (What the commit was answered is told of by now.)
  if (status.ok()) status = session.Sync(session.last_early_number(), losses, io.interrupt);
  return status;
}

absl::StatusOr<v1::Attr> FileDataImpl::AttrAtController(std::uint64_t inode, const IoContext& io) {
  v1::Request request;
  request.mutable_get_attr()->set_inode(inode);
  request.mutable_get_attr()->set_access(io.access);
  CallOptions options;
  options.credentials = io.credentials;
  options.interrupt = io.interrupt;
  const absl::StatusOr<v1::Reply> reply = context_.session->Call(std::move(request), options);
  if (!reply.ok()) return reply.status();
  return reply->attr().attr();
}

absl::StatusOr<v1::Attr> FileDataImpl::OpenAtController(const FileRef& file, bool write,
                                                        const IoContext& io) {
  v1::Request request;
  request.mutable_open()->set_inode(file->inode);
  request.mutable_open()->set_write(write);
  request.mutable_open()->set_access(io.access);
  request.mutable_open()->set_token(write ? v1::TOKEN_EXCLUSIVE : v1::TOKEN_SHARED);
  CallOptions options;
  options.credentials = io.credentials;
  options.interrupt = io.interrupt;
  const auto waiting = std::make_shared<bool>(true);  // under the file's mutex
  // (Not on_reply: with this it is sent until it is answered, also when nobody waits any more.)
  options.on_done = [this, file, waiting](const absl::StatusOr<v1::Reply>& reply) {
    FileState& f = *file;
    MutexLock lock(f.mutex);
    if (!reply.ok()) return;
    // Its caller has given up. What has been sent since may have lowered what it was granted, and
    // closed the file before or after this opened it.
    if (!*waiting) return UnregisterOpens(f);
    f.opens.NoteRegistered();
    // A grant that comes at a bad moment is left aside: the controller may think that more is held.
    if (reply->has_layout() && !f.recall.under_way() && !f.users.exclusive()) {
      (void)f.Install(reply->layout(), context_.session->session_id());
    } else if (reply->has_attr()) {
      f.TakeAttr(reply->attr().attr());
    }
  };
  const absl::StatusOr<v1::Reply> reply = context_.session->Call(std::move(request), options);
  {
    MutexLock lock(file->mutex);
    *waiting = false;
  }
  if (!reply.ok()) return reply.status();
  return reply->has_layout() ? reply->layout().attr() : reply->attr().attr();
}

void FileDataImpl::UnregisterOpens(FileState& f) {
  (void)f.opens.Unregister();
  if (!f.opens.any()) return context_.TellClosed(f.inode, false);
  context_.RegisterOpens(f);
}

void FileDataImpl::OpenDirectory(std::uint64_t inode) {
  const FileRef directory = context_.table.Get(inode);
  MutexLock lock(directory->mutex);
  directory->opens.OpenDirectory();
}

void FileDataImpl::RegisterOpens(std::uint64_t inode, std::function<void()> done) {
  const FileRef file = context_.table.Find(inode);
  if (file != nullptr) {
    MutexLock lock(file->mutex);
    if (file->grant.empty()) return context_.RegisterOpens(*file, std::move(done));
  }
  done();
}

void FileDataImpl::Created(const v1::EntryReply& entry, std::uint64_t handle,
                           std::uint64_t early_number) {
  const FileRef file = context_.table.Get(entry.attr().inode());
  FileState& f = *file;
  MutexLock lock(f.mutex);
  f.opens.Create(handle, early_number);
  // (A repeated answer brings no layout.)
  if (!entry.has_layout() || !f.Install(entry.layout(), context_.session->session_id()).ok()) {
    f.TakeAttr(entry.attr());
    return;
  }
  const auto allocated = [](const v1::Extent& extent) { return extent.state() != v1::EXTENT_HOLE; };
  f.grant.NoteTail(
      std::any_of(entry.layout().extents().begin(), entry.layout().extents().end(), allocated));
}

void FileDataImpl::OnReplayed(const v1::Request& request, const v1::Reply& reply) {
  if (reply.error() != 0) context_.LoseAttributes(request);
  if (!request.has_create() || !request.create().open()) return;
  const std::uint64_t inode = reply.entry().attr().inode();
  const FileRef file = context_.table.Find(inode);
  if (file == nullptr) return context_.TellClosed(inode, false);
  MutexLock lock(file->mutex);  // until it is posted: an open of from now on comes behind it
  if (reply.error() != 0) file->ReplayFailed();
  if (!file->opens.any()) return context_.TellClosed(inode, false);
  context_.RegisterOpens(*file);  // who has opened it since
}

void FileDataImpl::Close(std::uint64_t inode) {
  const FileRef file = context_.table.Find(inode);
  if (file == nullptr) return;
  FileState& f = *file;
  MutexLock lock(f.mutex);
  const Opens::Closed closed = f.opens.Close();
  if (!closed.last) return;
  f.read_ahead_chunks.Clear();
  f.frame_chunks.Close();
  f.memory.ForgetAll();
  f.write_error.AllClosed();
  // (A small file needs no blocks. One that is too large would outgrow blocks that others' follow,
  // and lie in pieces.)
  const std::uint64_t size = f.attr.size_bytes();
  const bool needs_room = size > context_.session->small_file_bytes() && size <= kMaxNewFileBytes;
  if (closed.was_to_write) context_.expected_bytes = needs_room ? size : 0;
  if (f.grant.tail_allocated()) committer_.NoteDirty(f);
  // What is dirty goes first; and with the token, that nobody has the file open any more.
  if (!f.untold()) committer_.TellClosed(f);
}

std::unique_ptr<FileData> FileData::Create(const FileDataOptions& options, const Clock& clock,
                                           InvalidatePages invalidate_pages,
                                           std::function<void(std::uint64_t)> forget_attributes) {
  return std::make_unique<FileDataImpl>(options, clock, std::move(invalidate_pages),
                                        std::move(forget_attributes));
}

}  // namespace reel::client
