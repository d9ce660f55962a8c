// What the session's events do to all files, how many are kept, and the end.
#include "client/data/file_data_impl.h"
#include "proto/convert.h"
#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

constexpr int kReclaimEntries = 4'096;  // in one message

}  // namespace

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
    if (file->grant.empty()) context_.RegisterOpens(*file);
  }
}

void FileDataImpl::OnEvicted() {
  context_.gate.Drop();
  for (const FileRef& file : context_.table.All()) {
    MutexLock lock(file->mutex);
    dropper_.LoseToken(*file);
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
    if (file->opens.Reclaim()) {
      context_.session->Claims(file->inode);
      reclaim->add_opens(file->inode);
    }
    for (const TokenRanges::GrantedRange& granted_range : file->grant.token().granted()) {
      v1::HeldToken& token = *reclaim->add_tokens();
      token.set_inode(file->inode);
      token.set_mode(granted_range.mode);
      token.set_first_block(granted_range.span.first.value());
      token.set_length_blocks(LengthForMessage(granted_range.span));
    }
  }
  return reclaims;
}

// ---- bounds and end ---------------------------------------------------------------------------

// Every second: keeps within bounds what is held and known, and forgets the files of which nothing
// is held.
void FileDataImpl::Reap() {
  std::vector<FileRef> files = context_.table.All();
  access_times_.TellOld();
  const std::uint32_t now = context_.table.Tick();
  Uses holders;
  Uses unreported;
  Uses mapped;
  std::size_t known = 0;
  std::vector<std::uint64_t> empty;
  for (const FileRef& file : files) {
    const std::uint32_t last_use = file->last_use.load(std::memory_order_relaxed);
    MutexLock lock(file->mutex);
    if (file->grant.known_extents() > 0) mapped.emplace_back(last_use, file);
    known += file->grant.known_extents();
    if (now - last_use > 1) {
      file->read_ahead_chunks.Clear();
      file->frame_chunks.Clear();
      file->memory.ForgetAll();
    }
    if (file->opens.any() || file->recall.under_way()) continue;
    if (file->opens.registered() && !file->untold()) committer_.TellClosed(*file);
    if (!file->grant.empty()) {
      holders.emplace_back(last_use, file);
    } else if (file->write_error.unreported()) {
      unreported.emplace_back(last_use, file);
    } else if (now - last_use > 1) {
      empty.push_back(file->inode);
    }
  }
  files.clear();  // what is referred to is not dropped
  for (const std::uint64_t inode : empty) {
    context_.table.DropIf(inode, [](FileState& f) {
      f.mutex.AssertHeld();
      return f.unused() && f.grant.empty() && !f.grant.tail_allocated() && !f.access.any() &&
             !f.uncommitted.any() && f.memory.empty() && f.kernel_pages.empty() &&
             !f.write_error.unreported();
    });
  }
  for (const auto& use : Surplus(std::move(holders), context_.options.max_idle_tokens)) {
    MutexLock lock(use.second->mutex);
    recaller_.Recall(*use.second, {});
  }
  for (const auto& use : Surplus(std::move(unreported), context_.options.max_unreported_files)) {
    MutexLock lock(use.second->mutex);
    if (!use.second->opens.any()) use.second->write_error.Forget();
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
    if (!f.idle() || f.users.fetching()) continue;
    // (The controller would tell of a content that blocks have replaced, or are about to.)
    if (f.grant.small().at_controller() && !f.grant.small().known()) continue;
    known -= std::min(known, f.grant.known_extents());
    f.ForgetExtents();
  }
}

absl::Status FileDataImpl::Stop() {
  if (std::exchange(stopped_, true) || !started_) return absl::OkStatus();
  // What is left in memory is not held back: it would be lost after a while.
  context_.gate.Stop();
  access_times_.TellAll();
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
  context_.maps->Stop();
  traffic_->Stop();
  write_behind_.Stop();
  committer_.Stop();
  recaller_.Stop();
  dropper_.Stop();
  file_io_.Stop();
  context_.DropMemory();
  if (!context_.paths->End()) context_.session->NoteUnfinished();
  return status;
}

}  // namespace reel::client
