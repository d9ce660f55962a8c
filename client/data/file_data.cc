// Wires the parts of the data path together, and keeps the opens.
#include "client/data/file_data.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "client/data/file_io.h"
#include "client/data/file_resize.h"
#include "client/file/data_context.h"
#include "client/tokens/access_times.h"
#include "client/tokens/committer.h"
#include "client/tokens/file_access.h"
#include "client/tokens/recaller.h"
#include "proto/convert.h"
#include "proto/status.h"
#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

constexpr int kReclaimEntries = 4'096;          // in one message
constexpr std::size_t kMostAccessesTold = 256;  // a second

class FileDataImpl : public FileData {
 public:
  FileDataImpl(const FileDataOptions& options, const Clock& clock, InvalidatePages invalidate_pages,
               std::function<void(std::uint64_t inode)> forget_attributes)
      : context_{.options = options,
                 .clock = clock,
                 .invalidate_pages = std::move(invalidate_pages),
                 .forget_attributes = std::move(forget_attributes)} {}
  ~FileDataImpl() override { (void)Stop(); }

  absl::Status Start(Session& session, OpenVolume& volume) override {
    context_.session = &session;
    context_.paths = std::make_unique<LunPaths>(
        volume, session, context_.clock,
        LunPaths::Options{.soft_timeout_ms = context_.options.soft_timeout_ms});
    context_.io = std::make_unique<LunIo>(volume, *context_.paths);
    context_.table.Begin(context_.io->block_bytes(), context_.options.stream_bytes);
    committer_.Start([this] { Reap(); });
    started_ = true;
    paths_.store(context_.paths.get());
    return context_.paths->Begin();
  }
  void Change(const Changed& changed) override {
    context_.atime.store(changed.atime);
    context_.flush_on_close.store(changed.flush_on_close);
    context_.max_read_ahead_bytes.store(changed.max_read_ahead_bytes);
    context_.behind_memory.SetLimit(changed.max_write_behind_bytes);
    context_.paths->SetSoftTimeout(changed.soft_timeout_ms);
  }

  AheadCounts ahead() const override {
    return {.reads = context_.reads_from_ahead.load(), .layouts = context_.layouts_ahead.load()};
  }
  absl::StatusOr<std::size_t> Read(std::uint64_t inode, std::uint64_t offset_bytes,
                                   std::span<std::byte> buffer, const IoContext& io) override {
    const FileRef file = context_.table.Get(inode);
    absl::StatusOr<std::size_t> length = file_io_.Read(file, offset_bytes, buffer, io);
    const bool noted = length.ok() && !buffer.empty() && !io.no_atime;
    if (noted) access_times_.Note(file, context_.atime.load());
    return length;
  }
  absl::StatusOr<std::uint64_t> Write(std::uint64_t inode, std::uint64_t offset_bytes,
                                      std::span<const std::byte> data,
                                      const IoContext& io) override {
    return file_io_.Write(context_.table.Get(inode), offset_bytes, data, io);
  }
  absl::Status Fsync(std::uint64_t inode, const IoContext& io) override {
    const FileRef file = context_.table.Find(inode);
    absl::Status status = MakeDurable(file, io);
    if (file == nullptr || (!status.ok() && ErrnoOf(status) != EIO)) return status;
    // What was lost in the meantime, or of the same loss, is told with it.
    status.Update(Committer::TellLoss(file, io.handle));
    return status;
  }
  absl::Status Flush(std::uint64_t inode, const IoContext& io) override {
    const FileRef file = context_.table.Find(inode);
    absl::Status status;
    if (context_.flush_on_close.load()) status = MakeDurable(file, io);
    if (status.ok() && file != nullptr) status = Committer::ShowLoss(file, io.handle);
    return status;
  }
  absl::Status SyncWritten(const IoContext& io) override {
    return committer_.SyncWritten(io.interrupt);
  }
  absl::StatusOr<v1::Attr> SetAttr(v1::SetAttr set, const IoContext& io) override {
    const FileRef file = context_.table.Get(set.inode());
    return resize_.SetAttr(file, std::move(set), io);
  }
  std::optional<v1::Attr> SetAhead(const v1::SetAttr& set, const v1::Attr& known) override {
    return resize_.SetAhead(set, known);
  }
  absl::Status TellAhead(std::uint64_t inode, const IoContext& io) override {
    return resize_.TellAhead(inode, io);
  }
  absl::Status Allocate(std::uint64_t inode, std::uint32_t mode, std::uint64_t offset_bytes,
                        std::uint64_t length_bytes, const IoContext& io) override {
    v1::Allocate allocate;
    allocate.set_inode(inode);
    allocate.set_mode(mode);
    allocate.set_offset_bytes(offset_bytes);
    allocate.set_length_bytes(length_bytes);
    return resize_.Allocate(context_.table.Get(inode), std::move(allocate), io);
  }
  absl::StatusOr<std::uint64_t> Seek(std::uint64_t inode, std::uint64_t offset_bytes, bool data,
                                     const IoContext& io) override {
    return resize_.Seek(context_.table.Get(inode), offset_bytes, data, io);
  }
  void Overlay(v1::Attr& attr) const override {
    const FileRef file = context_.table.Find(attr.inode());
    if (file == nullptr) return;
    MutexLock lock(file->mutex);
    // It came before what this client has told or heard since, whoever looks at it only now.
    if (attr.change() < file->attr.change()) attr = file->attr;
    file->Learn(attr);
    file->OverlayOn(attr);
  }
  bool IsOpen(std::uint64_t inode) const override {
    const FileRef file = context_.table.Find(inode);
    if (file == nullptr) return false;
    MutexLock lock(file->mutex);
    return file->opens > 0;
  }
  bool WroteUntold(std::uint64_t inode) const override {
    const FileRef file = context_.table.Find(inode);
    if (file == nullptr) return false;
    MutexLock lock(file->mutex);
    return file->dirty.wrote || file->committing_wrote;
  }
  void NoteAccess(const v1::Attr& attr, AtimePolicy policy) override {
    if (policy == AtimePolicy::kNone) return;
    const FileRef file = context_.table.Get(attr.inode());
    file->mutex.Lock();
    file->Learn(attr);
    file->mutex.Unlock();
    access_times_.Note(file, policy);
  }
  absl::StatusOr<v1::Attr> Open(std::uint64_t inode, bool write, const IoContext& io) override;
  void OpenDirectory(std::uint64_t inode) override;
  void RegisterOpens(std::uint64_t inode, std::function<void()> done) override;
  std::uint64_t ExpectedBytes() const override {
    return context_.first_write_bytes.load(std::memory_order_relaxed);
  }
  void Created(const v1::EntryReply& entry, std::uint64_t handle, std::uint64_t told) override;
  void Close(std::uint64_t inode) override;
  std::uint64_t RemoveLast(v1::Attr& removed,
                           absl::FunctionRef<std::uint64_t(bool lets_go)> send) override {
    const FileRef file = context_.table.Find(removed.inode());
    if (file == nullptr) return send(true);
    MutexLock lock(file->mutex);
    const bool lets_go = file->unused() && file->locks.empty();
    const std::uint64_t told = send(lets_go);
    if (told != 0 && lets_go) {
      file->OverlayOn(removed);
      file->Reset();
      file->accessed.reset();
      file->attr = removed;  // for who still holds the attributes from before
    }
    return told;
  }
  absl::Status Stop() override;

  void OnRecall(std::uint64_t inode, v1::TokenMode mode, const TokenSpan& span) override;
  void OnStreamLost() override;
  void OnRegistered(std::uint64_t session, std::uint64_t key) override {
    // (Before Start there are none, and Begin asks the session.)
    if (LunPaths* const paths = paths_.load()) paths->OnRegistered(session, key);
  }
  void OnRedone(const v1::Request& request, const v1::Reply& reply) override;
  void OnToldLost(std::uint64_t first) override { context_.LoseTold(first); }
  void OnEvicted() override;
  RecallWork LookAtRecalls() const override { return context_.LookAtRecalls(paths_.load()); }
  std::vector<v1::Reclaim> CollectReclaims() override;

 private:
  // `file`: null where nothing of it is known. What was lost of it before is not said.
  absl::Status MakeDurable(const FileRef& file, const IoContext& io);
  absl::StatusOr<v1::Attr> OpenAtController(const FileRef& file, bool write, const IoContext& io);
  void CloseAtController(std::uint64_t inode, bool lowers_token = false);
  // Tells the controller whether the file is open here, whatever it thinks.
  void SettleOpens(FileState& f) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  void Reap();
  using Uses = std::vector<std::pair<std::uint32_t, FileRef>>;
  static Uses Surplus(Uses uses, std::size_t keep);
  void ForgetExtents(Uses files, std::size_t known);

  DataContext context_;
  std::atomic<LunPaths*> paths_{nullptr};  // context_'s, for the receiving thread
  WriteBehind write_behind_{context_};
  Committer committer_{context_, write_behind_};
  AccessTimes access_times_{context_};
  Recaller recaller_{context_, committer_};
  FileAccess access_{context_, recaller_};
  FileIo file_io_{context_, access_, write_behind_, committer_};
  FileResize resize_{context_, access_, file_io_, write_behind_, committer_};
  bool started_ = false;
  bool stopped_ = false;
};

// ---- opens ------------------------------------------------------------------------------------

absl::StatusOr<v1::Attr> FileDataImpl::Open(std::uint64_t inode, bool write, const IoContext& io) {
  const FileRef file = context_.table.Get(inode);
  FileState& f = *file;
  bool registered = false;
  {
    MutexLock lock(f.mutex);
    ++f.opens;
    f.newest_handle = std::max(f.newest_handle, io.handle);
    f.opened_to_write = f.opened_to_write || write;
    registered = f.registered;
    if (io.known != nullptr && !context_.session->checks_opens() &&
        f.token.Has(kWholeFile, v1::TOKEN_SHARED) && f.recall == FileState::Recall::kNone) {
      v1::Attr attr = *io.known;
      f.OverlayOn(attr);
      return attr;
    }
  }
  absl::StatusOr<v1::Attr> attr;
  if (registered) {
    v1::Request request;
    request.mutable_get_attr()->set_inode(inode);
    request.mutable_get_attr()->set_access(io.access);
    CallOptions options;
    options.credentials = io.credentials;
    options.interrupt = io.interrupt;
    const absl::StatusOr<v1::Reply> reply = context_.session->Call(std::move(request), options);
    attr = reply.ok() ? absl::StatusOr<v1::Attr>(reply->attr().attr()) : reply.status();
  } else {
    attr = OpenAtController(file, write, io);
  }
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
  if (status.ok()) status = session.Sync(session.last_told(), losses, io.interrupt);
  return status;
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
    if (!*waiting) return SettleOpens(f);
    f.registered = true;
    // A grant that comes at a bad moment is left aside: the controller may think that more is held.
    if (reply->has_layout() && f.recall == FileState::Recall::kNone && !f.exclusive_user) {
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

void FileDataImpl::SettleOpens(FileState& f) {
  f.registered = false;
  if (f.opens == 0) return CloseAtController(f.inode);
  context_.RegisterOpens(f);
}

void FileDataImpl::OpenDirectory(std::uint64_t inode) {
  const FileRef directory = context_.table.Get(inode);
  MutexLock lock(directory->mutex);
  ++directory->opens;
}

void FileDataImpl::RegisterOpens(std::uint64_t inode, std::function<void()> done) {
  const FileRef file = context_.table.Find(inode);
  if (file != nullptr) {
    MutexLock lock(file->mutex);
    if (file->token.empty()) return context_.RegisterOpens(*file, std::move(done));
  }
  done();
}

void FileDataImpl::Created(const v1::EntryReply& entry, std::uint64_t handle, std::uint64_t told) {
  const FileRef file = context_.table.Get(entry.attr().inode());
  FileState& f = *file;
  MutexLock lock(f.mutex);
  ++f.opens;
  f.newest_handle = std::max(f.newest_handle, handle);
  f.registered = true;
  f.opened_to_write = true;  // whoever creates a file writes it
  f.told = told;
  // (A repeated answer brings no layout.)
  if (!entry.has_layout() || !f.Install(entry.layout(), context_.session->session_id()).ok()) {
    f.TakeAttr(entry.attr());
    return;
  }
  const auto allocated = [](const v1::Extent& extent) { return extent.state() != v1::EXTENT_HOLE; };
  f.tail_allocated =
      std::any_of(entry.layout().extents().begin(), entry.layout().extents().end(), allocated);
}

void FileDataImpl::OnRedone(const v1::Request& request, const v1::Reply& reply) {
  if (reply.error() != 0) context_.LoseAttributes(request);
  if (!request.has_create() || !request.create().open()) return;
  const std::uint64_t inode = reply.entry().attr().inode();
  const FileRef file = context_.table.Find(inode);
  if (file == nullptr) return CloseAtController(inode);
  MutexLock lock(file->mutex);  // until it is posted: an open of from now on comes behind it
  if (reply.error() != 0) file->NotMadeAgain();
  if (file->opens == 0) return CloseAtController(inode);
  context_.RegisterOpens(*file);  // who has opened it since
}

void FileDataImpl::Close(std::uint64_t inode) {
  const FileRef file = context_.table.Find(inode);
  if (file == nullptr) return;
  FileState& f = *file;
  MutexLock lock(f.mutex);
  if (f.opens == 0 || --f.opens > 0) return;
  f.read_chunks.clear();
  f.memory.ForgetAll();
  f.write_error.AllClosed();
  if (f.opened_to_write && f.attr.size_bytes() == 0) context_.first_write_bytes = 0;
  f.opened_to_write = false;
  if (f.tail_allocated) committer_.NoteDirty(f);
  // What is dirty goes first, and the token with it.
  const bool lowers = f.done_writing();
  if (lowers) f.token.Lower(kWholeFile, v1::TOKEN_SHARED);
  if (std::exchange(f.registered, false) || lowers) CloseAtController(inode, lowers);
}

void FileDataImpl::CloseAtController(std::uint64_t inode, bool lowers_token) {
  v1::Request request;
  request.mutable_close()->set_inode(inode);
  request.mutable_close()->set_lowers_token(lowers_token);
  context_.session->Post(std::move(request));
}

// ---- session events ---------------------------------------------------------------------------

void FileDataImpl::OnRecall(std::uint64_t inode, v1::TokenMode mode, const TokenSpan& span) {
  const FileRef file = context_.table.Get(inode);
  MutexLock lock(file->mutex);
  recaller_.Recall(*file, {.span = span, .mode = mode});
}

// The attribute tokens are gone, which have kept the open directories.
void FileDataImpl::OnStreamLost() {
  for (const FileRef& file : context_.table.All()) {
    MutexLock lock(file->mutex);
    if (file->token.empty()) context_.RegisterOpens(*file);
  }
}

void FileDataImpl::OnEvicted() {
  for (const FileRef& file : context_.table.All()) {
    MutexLock lock(file->mutex);
    if (!file->token.empty()) recaller_.Invalidate(*file);
    file->Void();
    context_.recalls.End(file->inode);
    context_.RegisterOpens(*file);
  }
}

std::vector<v1::Reclaim> FileDataImpl::CollectReclaims() {
  std::vector<v1::Reclaim> reclaims(1);
  for (const FileRef& file : context_.table.All()) {
    MutexLock lock(file->mutex);
    v1::Reclaim* reclaim = &reclaims.back();
    if (reclaim->opens_size() + reclaim->tokens_size() >= kReclaimEntries) {
      reclaim = &reclaims.emplace_back();
    }
    file->registered = file->opens > 0;
    if (file->registered) {
      context_.session->Claims(file->inode);
      reclaim->add_opens(file->inode);
    }
    for (const TokenRanges::Piece& piece : file->token.pieces()) {
      v1::HeldToken& token = *reclaim->add_tokens();
      token.set_inode(file->inode);
      token.set_mode(piece.mode);
      token.set_first_block(piece.span.first.value());
      token.set_length_blocks(LengthForMessage(piece.span));
    }
  }
  return reclaims;
}

// ---- bounds and end ---------------------------------------------------------------------------

// Every second: keeps within bounds what is held and known, and forgets the files of which nothing
// is held.
void FileDataImpl::Reap() {
  std::vector<FileRef> files = context_.table.All();
  access_times_.Tell(files, kMostAccessesTold);
  const std::uint32_t now = context_.table.Tick();
  Uses holders;
  Uses untold;
  Uses mapped;
  std::size_t known = 0;
  std::vector<std::uint64_t> empty;
  for (const FileRef& file : files) {
    const std::uint32_t last_use = file->last_use.load(std::memory_order_relaxed);
    MutexLock lock(file->mutex);
    if (!file->extents.empty()) mapped.emplace_back(last_use, file);
    known += file->extents.size();
    if (now - last_use > 1) {
      file->read_chunks.clear();
      file->memory.ForgetAll();
    }
    if (file->opens > 0 || file->recall != FileState::Recall::kNone) continue;
    if (!file->token.empty()) {
      holders.emplace_back(last_use, file);
    } else if (file->write_error.untold()) {
      untold.emplace_back(last_use, file);
    } else if (now - last_use > 1) {
      empty.push_back(file->inode);
    }
  }
  files.clear();  // what is referred to is not dropped
  for (const std::uint64_t inode : empty) {
    context_.table.DropIf(inode, [](FileState& f) {
      f.mutex.AssertHeld();
      return f.opens == 0 && f.token.empty() && !f.accessed && !f.dirty.any() && f.memory.empty() &&
             f.idle() && !f.fetching && f.recall == FileState::Recall::kNone &&
             f.kernel_pages.empty() && !f.write_error.untold();
    });
  }
  for (const auto& use : Surplus(std::move(holders), context_.options.max_idle_tokens)) {
    MutexLock lock(use.second->mutex);
    recaller_.Recall(*use.second, {});
  }
  for (const auto& use : Surplus(std::move(untold), context_.options.max_untold_files)) {
    MutexLock lock(use.second->mutex);
    if (use.second->opens == 0) use.second->write_error.Forget();
  }
  if (known > context_.options.max_extents) ForgetExtents(std::move(mapped), known);
}

// Those that were unused the longest, when there are more than are kept.
FileDataImpl::Uses FileDataImpl::Surplus(Uses uses, std::size_t keep) {
  if (uses.size() <= keep) return {};
  const auto end = uses.end() - static_cast<std::ptrdiff_t>(keep);
  std::nth_element(uses.begin(), end, uses.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  uses.erase(end, uses.end());
  return uses;
}

// Until there is room for a while. What is dirty or being committed is marked again in what comes
// in (FileState::Install).
void FileDataImpl::ForgetExtents(Uses files, std::size_t known) {
  std::sort(files.begin(), files.end(),
            [](const auto& a, const auto& b) { return a.first < b.first; });
  const std::size_t keep = context_.options.max_extents / 4 * 3;
  for (const auto& use : files) {
    if (known <= keep) return;
    FileState& f = *use.second;
    MutexLock lock(f.mutex);
    if (!f.idle() || f.fetching) continue;
    known -= std::min(known, f.extents.size());
    f.ForgetExtents();
  }
}

absl::Status FileDataImpl::Stop() {
  if (std::exchange(stopped_, true) || !started_) return absl::OkStatus();
  access_times_.Tell(context_.table.All());
  context_.paths->GiveUpAt(context_.clock.NowMs() + context_.options.stop_timeout_ms / 2);
  absl::Status status = committer_.SyncAll(context_.options.stop_timeout_ms);
  if (!status.ok()) {
    spdlog::error("unmounting although not everything written could be committed: {}",
                  std::string(status.message()));
  }
  context_.stopping = true;
  for (const FileRef& file : context_.table.All()) {
    MutexLock lock(file->mutex);
    file->changed.NotifyAll();
  }
  context_.paths->Stop();
  write_behind_.Stop();
  committer_.Stop();
  recaller_.Stop();
  file_io_.Stop();
  context_.DropMemory();
  if (!context_.paths->End()) context_.session->NoteUnfinished();
  return status;
}

}  // namespace

std::unique_ptr<FileData> FileData::Create(const FileDataOptions& options, const Clock& clock,
                                           InvalidatePages invalidate_pages,
                                           std::function<void(std::uint64_t)> forget_attributes) {
  return std::make_unique<FileDataImpl>(options, clock, std::move(invalidate_pages),
                                        std::move(forget_attributes));
}

}  // namespace reel::client
