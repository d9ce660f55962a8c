// What is opened next: tokens and layouts that nobody has asked for yet, and bytes.
#include <cerrno>
#include <utility>
#include <vector>

#include "client/data/file_data_impl.h"
#include "proto/status.h"

namespace reel::client {

void FileData::LookAhead(v1::Request /*lookup*/, std::uint64_t /*bytes*/,
                         std::function<void(const absl::StatusOr<v1::Attr>&)> done) {
  done(ErrnoStatus(EOPNOTSUPP));
}

void FileData::ListAhead(v1::Request /*read_dir*/, std::uint64_t /*most_bytes*/, Listed done) {
  done(ErrnoStatus(EOPNOTSUPP), {});
}

absl::StatusOr<FileDataImpl::SentAhead> FileDataImpl::SendAhead() const {
  const SentAhead sent{.session = context_.session->session_id(),
                       .removals = context_.removals.load()};
  if (sent.session == 0 || context_.stopping) return ErrnoStatus(ESTALE);
  // One that is sent before this, and has been counted already, would not be seen later on.
  if (context_.removing.load() > 0) return ErrnoStatus(EAGAIN);
  return sent;
}

void FileDataImpl::LookAhead(v1::Request lookup, std::uint64_t bytes,
                             std::function<void(const absl::StatusOr<v1::Attr>&)> done) {
  const absl::StatusOr<SentAhead> sent = SendAhead();
  if (!sent.ok()) return done(sent.status());
  context_.session->Start(
      std::move(lookup),
      [this, bytes, sent = *sent, done = std::move(done)](const absl::StatusOr<v1::Reply>& reply) {
        if (!reply.ok()) return done(reply.status());
        if (!reply->has_entry()) return done(ErrnoStatus(EIO));
        const v1::EntryReply& entry = reply->entry();
        if (entry.has_layout() && TakeAhead(entry.attr().inode(), entry.layout(), sent)) {
          context_.ahead.frames.fetch_add(1, std::memory_order_relaxed);
        }
        (void)FetchAhead(entry.attr().inode(), bytes);
        done(entry.attr());
      },
      sent->session);
}

void FileDataImpl::ListAhead(v1::Request read_dir, std::uint64_t most_bytes, Listed done) {
  const absl::StatusOr<SentAhead> sent = SendAhead();
  if (!sent.ok()) return done(sent.status(), {});
  context_.session->Start(
      std::move(read_dir),
      [this, most_bytes, sent = *sent,
       done = std::move(done)](const absl::StatusOr<v1::Reply>& reply) {
        const v1::ReadDirReply none;
        std::vector<std::uint64_t> taken;
        for (const auto& entry : (reply.ok() ? reply->read_dir() : none).entries()) {
          if (!entry.has_layout() || !TakeAhead(entry.inode(), entry.layout(), sent)) continue;
          taken.push_back(entry.inode());
          context_.ahead.files.fetch_add(1, std::memory_order_relaxed);
          const std::uint64_t bytes = entry.attr().size_bytes();
          if (entry.layout().has_content() || bytes == 0 || bytes > most_bytes) continue;
          (void)FetchAhead(entry.inode(), bytes);
        }
        done(reply, std::move(taken));
      },
      sent->session);
}

// A grant that comes at a bad moment is left aside: the controller may think that more is held. So
// it is where anything is held already, which is newer; and where a removal may have taken it away
// again, by name, while it was on its way.
bool FileDataImpl::TakeAhead(std::uint64_t inode, const v1::LayoutReply& layout,
                             const SentAhead& sent) {
  const FileRef file = context_.table.Get(inode);
  FileState& f = *file;
  MutexLock lock(f.mutex);
  if (!f.grant.empty() || f.recall.under_way() || f.users.exclusive() ||
      context_.removals.load() != sent.removals) {
    return false;
  }
  return f.Install(layout, sent.session).ok();
}

bool FileDataImpl::Holds(std::uint64_t inode) const {
  const FileRef file = context_.table.Find(inode);
  if (file == nullptr) return false;
  MutexLock lock(file->mutex);
  return file->grant.Has(kWholeFile, v1::TOKEN_SHARED) && !file->recall.under_way();
}

bool FileDataImpl::FetchAhead(std::uint64_t inode, std::uint64_t bytes) {
  if (!Holds(inode)) return false;
  const FileRef file = context_.table.Get(inode);  // it is used: what is read lies there a moment
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
