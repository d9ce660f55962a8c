// The face of the data path, made of its parts: most calls go to one of them. What opens, sessions
// and the end do to all files is in file_data.cc and file_data_session.cc.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "client/buffers/write_behind.h"
#include "client/data/file_data.h"
#include "client/data/file_io.h"
#include "client/data/file_resize.h"
#include "client/file/data_context.h"
#include "client/luns/traffic_reporter.h"
#include "client/tokens/access_times.h"
#include "client/tokens/committer.h"
#include "client/tokens/file_access.h"
#include "client/tokens/recaller.h"
#include "proto/status.h"

namespace reel::client {

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
        LunPaths::Options{.soft_timeout_ms = context_.options.soft_timeout_ms,
                          .notes_times = context_.options.notes_times});
    context_.io = std::make_unique<LunIo>(volume, *context_.paths, &context_.gate);
    context_.maps =
        std::make_unique<MapTaker>(MapTaker::Parts{session, volume, *context_.paths, *context_.io},
                                   context_.options.open_more);
    context_.table.Begin(context_.io->block_bytes(), context_.options.stream_bytes);
    traffic_ = std::make_unique<TrafficReporter>(
        session, context_.gate, [this](std::uint64_t inode) { return IsOpen(inode); });
    committer_.Start([this] { Reap(); }, [this](const FileRef& file) { access_.FetchTail(file); });
    started_ = true;
    paths_.store(context_.paths.get());
    reports_traffic_.store(true);
    {
      MutexLock lock(maps_mutex_);
      takes_maps_ = true;
      if (early_map_) context_.maps->OnNewMap(*std::move(early_map_));
    }
    return context_.paths->Begin();
  }
  void Change(const Changed& changed) override {
    context_.atime.store(changed.atime);
    context_.flush_on_close.store(changed.flush_on_close);
    context_.max_read_ahead_bytes.store(changed.max_read_ahead_bytes);
    context_.max_frame_bytes.store(changed.max_frame_bytes);
    context_.behind_memory.SetLimit(changed.max_write_behind_bytes);
    context_.paths->SetSoftTimeout(changed.soft_timeout_ms);
  }

  PrefetchCounts prefetch_counts() const override {
    return {.reads = context_.ahead.reads.load(),
            .layouts = context_.ahead.layouts.load(),
            .frames = context_.ahead.frames.load(),
            .frame_reads = context_.ahead.frame_reads.load(),
            .files = context_.ahead.files.load(),
            .frame_bytes = context_.frame_bytes.load()};
  }
  Load load() const override {
    const LunPaths* const paths = paths_.load();
    return {
        .write_behind = {context_.behind_memory.used_bytes(), context_.behind_memory.limit_bytes()},
        .read_ahead = {context_.read_ahead_bytes.load(), context_.max_read_ahead_bytes.load()},
        .sequence_ahead = {context_.frame_bytes.load(), context_.max_frame_bytes.load()},
        .files = context_.table.size(),
        .luns = paths == nullptr ? std::vector<LunPaths::LunTimes>() : paths->Times()};
  }
  std::uint64_t max_frame_bytes() const override { return context_.max_frame_bytes.load(); }
  void LookAhead(v1::Request lookup, std::uint64_t bytes,
                 std::function<void(const absl::StatusOr<v1::Attr>&)> done) override;
  void ListAhead(v1::Request read_dir, std::uint64_t most_bytes, Listed done) override;
  bool Holds(std::uint64_t inode) const override;
  bool FetchAhead(std::uint64_t inode, std::uint64_t bytes) override;
  void DropAhead(std::uint64_t inode) override;
  std::uint64_t ReadTo(std::uint64_t inode) const override;
  absl::StatusOr<std::size_t> Read(std::uint64_t inode, std::uint64_t offset_bytes,
                                   std::span<std::byte> buffer, const IoContext& io) override {
    const FileRef file = context_.table.Get(inode);
    if (!io.page_cache) file->read_sizes.Note(buffer.size());
    absl::StatusOr<std::size_t> length = file_io_.Read(file, offset_bytes, buffer, io);
    const bool noted = length.ok() && !buffer.empty() && !io.no_atime;
    if (noted) access_times_.Note(file, context_.atime.load());
    return length;
  }
  absl::StatusOr<ByteRange> Write(std::uint64_t inode, std::uint64_t offset_bytes,
                                  std::span<const std::byte> data, const IoContext& io) override {
    return file_io_.Write(context_.table.Get(inode), offset_bytes, data, io);
  }
  absl::Status Fsync(std::uint64_t inode, const IoContext& io) override {
    const FileRef file = context_.table.Find(inode);
    absl::Status status = MakeDurable(file, io);
    if (file == nullptr || (!status.ok() && ErrnoOf(status) != EIO)) return status;
    // What was lost in the meantime, or of the same loss, is told with it.
    status.Update(Committer::ReportLoss(file, io.handle));
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
  std::optional<v1::Attr> DelayAttributes(const v1::SetAttr& set, const v1::Attr& known) override {
    return resize_.DelayAttributes(set, known);
  }
  absl::Status SendDelayed(std::uint64_t inode, const IoContext& io) override {
    return resize_.SendDelayed(inode, io);
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
    return file->opens.any();
  }
  bool IsSettled(std::uint64_t inode) const override {
    const FileRef file = context_.table.Find(inode);
    if (file == nullptr) return true;
    MutexLock lock(file->mutex);
    return !file->opens.may_be_mapped_to_write() && !file->untold() &&
           !file->grant.tail_allocated() && !file->users.changes_attributes();
  }
  bool PagesAreGood(std::uint64_t inode) const override {
    const FileRef file = context_.table.Find(inode);
    if (file == nullptr) return false;
    MutexLock lock(file->mutex);
    // (A recall may be answered ahead of a drop that waits for a page: Recaller::Bypass.)
    return !file->recall.under_way() && !file->kernel_pages.dropping() &&
           !file->kernel_pages.IsStale({0, kMaxFileBytes}) &&
           file->grant.Has(kWholeFile, v1::TOKEN_SHARED);
  }
  bool IsReadInPieces(std::uint64_t inode) const override {
    const FileRef file = context_.table.Find(inode);
    return file != nullptr && file->read_sizes.small();
  }
  bool HasUncommittedWrites(std::uint64_t inode) const override {
    const FileRef file = context_.table.Find(inode);
    if (file == nullptr) return false;
    MutexLock lock(file->mutex);
    return file->uncommitted.wrote();
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
    return context_.expected_bytes.load(std::memory_order_relaxed);
  }
  void Created(const v1::EntryReply& entry, std::uint64_t handle,
               std::uint64_t early_number) override;
  void Close(std::uint64_t inode) override;
  std::uint64_t RemoveLast(v1::Attr& removed, bool only_here,
                           absl::FunctionRef<std::uint64_t(bool lets_go)> send) override {
    // Whatever asks ahead meanwhile, or takes in what it has asked for, sees it (LookAhead).
    context_.removing.fetch_add(1);
    context_.removals.fetch_add(1);
    const absl::Cleanup sent = [this] { context_.removing.fetch_sub(1); };
    const FileRef file = context_.table.Find(removed.inode());
    if (file == nullptr) return send(true);
    MutexLock lock(file->mutex);
    const bool lets_go = file->unused() && file->locks.empty() && (only_here || !file->untold());
    // (It was to be told with what is not worth telling any more.)
    if (lets_go && file->opens.Unregister()) context_.TellClosed(file->inode, false);
    const std::uint64_t early_number = send(lets_go);
    if (early_number != 0 && lets_go) {
      file->TakeRemoved(removed);
    }
    return early_number;
  }
  std::uint64_t Move(std::uint64_t inode, absl::FunctionRef<std::uint64_t()> send) override {
    const FileRef file = context_.table.Find(inode);
    if (file == nullptr) return send();
    MutexLock lock(file->mutex);
    return file->uncommitted.running() ? 0 : send();
  }
  absl::Status Stop() override;

  void OnRecall(std::uint64_t inode, v1::TokenMode mode, const TokenSpan& span) override;
  void OnStreamLost() override;
  void OnRegistered(std::uint64_t session, std::uint64_t key) override {
    // (Before Start there are none, and Begin asks the session.)
    if (LunPaths* const paths = paths_.load()) paths->OnRegistered(session, key);
  }
  void OnNewMap(const VolumeDescriptor& map) override {
    MutexLock lock(maps_mutex_);
    if (takes_maps_) return context_.maps->OnNewMap(map);
    early_map_ = map;
  }
  void OnDeal(const v1::Deal& deal) override {
    // (It comes again, some seconds later.)
    if (reports_traffic_.load()) traffic_->OnDeal(deal);
  }
  void OnReplayed(const v1::Request& request, const v1::Reply& reply) override;
  void OnEarlyLost(std::uint64_t first) override { context_.LoseEarly(first); }
  void OnEvicted() override;
  RecallWork LookAtRecalls() const override { return context_.LookAtRecalls(paths_.load()); }
  void Describe(v1::Renew& renewal) const override {
    const LunPaths* const paths = paths_.load();
    if (paths == nullptr) return;
    for (v1::LunReport& report : paths->Report()) *renewal.add_luns() = std::move(report);
  }
  std::vector<v1::Reclaim> CollectReclaims() override;

 private:
  // When a request that brings grants of files was sent, of which nobody knows here yet.
  struct SentAhead {
    std::uint64_t session = 0;
    std::uint64_t removals = 0;  // as DataContext counts them
  };
  absl::StatusOr<SentAhead> SendAhead() const;
  // False: it is left aside.
  bool TakeAhead(std::uint64_t inode, const v1::LayoutReply& layout, const SentAhead& sent);
  // `file`: null where nothing of it is known. What was lost of it before is not said.
  absl::Status MakeDurable(const FileRef& file, const IoContext& io);
  absl::StatusOr<v1::Attr> AttrAtController(std::uint64_t inode, const IoContext& io);
  absl::StatusOr<v1::Attr> OpenAtController(const FileRef& file, bool write, const IoContext& io);
  // Tells the controller whether the file is open here, whatever it thinks.
  void UnregisterOpens(FileState& f) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
  void Reap();
  using Uses = std::vector<std::pair<std::uint32_t, FileRef>>;
  static Uses Surplus(Uses uses, std::size_t keep);
  void ForgetExtents(Uses files, std::size_t known);

  DataContext context_;
  std::atomic<LunPaths*> paths_{nullptr};  // context_'s, for the receiving thread
  Mutex maps_mutex_;
  bool takes_maps_ ABSL_GUARDED_BY(maps_mutex_) = false;
  std::optional<VolumeDescriptor> early_map_ ABSL_GUARDED_BY(maps_mutex_);  // before Start
  WriteBehind write_behind_{context_};
  PageDropper dropper_{context_};
  Committer committer_{context_, write_behind_, dropper_};
  AccessTimes access_times_{context_};
  Recaller recaller_{context_, committer_, dropper_};
  FileAccess access_{context_, committer_, recaller_};
  FileIo file_io_{context_, access_, write_behind_, committer_};
  FileResize resize_{context_, access_, file_io_, committer_};
  std::unique_ptr<TrafficReporter> traffic_;
  std::atomic<bool> reports_traffic_{false};  // `traffic_` is there, for the receiving thread
  bool started_ = false;
  bool stopped_ = false;
};

}  // namespace reel::client
