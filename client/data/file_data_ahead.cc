// The next frames of a sequence: tokens and layouts that nobody has asked for yet, and their bytes.
#include <cerrno>

#include "client/data/file_data_impl.h"
#include "proto/status.h"

namespace reel::client {

void FileData::LookAhead(v1::Request /*lookup*/, std::uint64_t /*bytes*/,
                         std::function<void(const absl::StatusOr<v1::Attr>&)> done) {
  done(ErrnoStatus(EOPNOTSUPP));
}

void FileDataImpl::LookAhead(v1::Request lookup, std::uint64_t bytes,
                             std::function<void(const absl::StatusOr<v1::Attr>&)> done) {
  const std::uint64_t session = context_.session->session_id();
  if (session == 0 || context_.stopping) return done(ErrnoStatus(ESTALE));
  const std::uint64_t removals = context_.removals.load();
  // One that is sent before this, and has been counted already, would not be seen later on.
  if (context_.removing.load() > 0) return done(ErrnoStatus(EAGAIN));
  context_.session->Start(
      std::move(lookup),
      [this, bytes, session, removals,
       done = std::move(done)](const absl::StatusOr<v1::Reply>& reply) {
        if (!reply.ok()) return done(reply.status());
        if (!reply->has_entry()) return done(ErrnoStatus(EIO));
        const v1::EntryReply& entry = reply->entry();
        if (entry.has_layout()) TakeAhead(entry, session, removals);
        (void)FetchAhead(entry.attr().inode(), bytes);
        done(entry.attr());
      },
      session);
}

// A grant that comes at a bad moment is left aside: the controller may think that more is held. So
// it is where anything is held already, which is newer; and where a removal may have taken it away
// again, by name, while it was on its way.
void FileDataImpl::TakeAhead(const v1::EntryReply& entry, std::uint64_t session,
                             std::uint64_t removals) {
  const FileRef file = context_.table.Get(entry.attr().inode());
  FileState& f = *file;
  MutexLock lock(f.mutex);
  if (!f.grant.empty() || f.recall.under_way() || f.users.exclusive() ||
      context_.removals.load() != removals) {
    return;
  }
  if (f.Install(entry.layout(), session).ok()) {
    context_.ahead.frames.fetch_add(1, std::memory_order_relaxed);
  }
}

bool FileDataImpl::FetchAhead(std::uint64_t inode, std::uint64_t bytes) {
  FileRef file = context_.table.Find(inode);
  if (file == nullptr) return false;
  {
    MutexLock lock(file->mutex);
    if (!file->grant.Has(kWholeFile, v1::TOKEN_SHARED) || file->recall.under_way()) return false;
  }
  file = context_.table.Get(inode);  // it is used: what is read lies there for a moment
  file_io_.frame_ahead().Fetch(file, bytes);
  return true;
}

void FileDataImpl::DropAhead(std::uint64_t inode) {
  if (const FileRef file = context_.table.Find(inode)) FrameAhead::Drop(*file);
}

std::uint64_t FileDataImpl::ReadTo(std::uint64_t inode) const {
  const FileRef file = context_.table.Find(inode);
  if (file == nullptr) return 0;
  MutexLock lock(file->mutex);
  return file->frame_chunks.read_to_bytes();
}

}  // namespace reel::client
