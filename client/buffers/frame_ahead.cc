#include "client/buffers/frame_ahead.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "client/buffers/chunk_read.h"

namespace reel::client {
namespace {

// What has not begun is left to the player, and to the read-ahead of its stream.
void GiveUp(FileState& f, std::uint64_t chunk_bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex) {
  f.frame_chunks.Pass(f.frame_chunks.wanted_to_bytes() + chunk_bytes, chunk_bytes);
}

}  // namespace

void FrameAhead::Fetch(const FileRef& file, std::uint64_t bytes) {
  if (bytes == 0 || context_.max_frame_bytes.load() == 0) return;
  {
    MutexLock lock(file->mutex);
    const std::uint64_t before = file->frame_chunks.wanted_to_bytes();
    file->frame_chunks.Want(std::min(bytes, file->attr.size_bytes()));
    if (file->frame_chunks.wanted_to_bytes() == before) return;
  }
  bool taken = false;
  {
    MutexLock lock(mutex_);
    taken = files_.size() < kMaxFiles;
    if (taken) files_.push_back(file);
    waiting_.store(true);
  }
  if (taken) return Pump();
  MutexLock lock(file->mutex);
  GiveUp(*file, context_.options.read_chunk_bytes);
}

void FrameAhead::Drop(FileState& f) {
  MutexLock lock(f.mutex);
  if (!f.opens.any()) f.frame_chunks.Clear();
}

std::size_t FrameAhead::Limit() const {
  return demands_.load() > 0 || context_.gate.on() ? kYieldingReads : kMaxReads;
}

FrameAhead::Next FrameAhead::Begin(const FileRef& file, ReadChunkRef& chunk) {
  FileState& f = *file;
  MutexLock lock(f.mutex);
  // (Who opens it to write would have no use for its bytes, and change them.)
  if (f.frame_chunks.done() || f.opens.may_be_mapped_to_write()) return Next::kDone;
  const std::uint64_t chunk_bytes = context_.options.read_chunk_bytes;
  const std::uint64_t from = f.frame_chunks.next_bytes();
  const std::uint64_t to = std::min({RoundDown(from, chunk_bytes) + chunk_bytes,
                                     f.frame_chunks.wanted_to_bytes(), f.attr.size_bytes()});
  if (from >= to) return Next::kDone;
  ReadMemory held =
      ReadMemory::Take(context_.frame_bytes, chunk_bytes, context_.max_frame_bytes.load());
  if (held.bytes() == 0) return Next::kNoMemory;
  chunk = BeginChunk(context_, f, {from, to}, held);
  if (chunk == nullptr) {
    GiveUp(f, chunk_bytes);
    return Next::kDone;
  }
  f.read_ahead_chunks.Stamp(*chunk);
  f.frame_chunks.Add(chunk);
  return Next::kChunk;
}

void FrameAhead::Pump() {
  for (;;) {
    FileRef file;
    {
      MutexLock lock(mutex_);
      if (files_.empty() || running_ >= Limit()) return;
      file = files_.front();
      ++running_;
    }
    ReadChunkRef chunk;
    const Next next = Begin(file, chunk);
    if (next != Next::kChunk) {
      MutexLock lock(mutex_);
      --running_;
      if (next == Next::kNoMemory) return;  // Take gives some back
      const auto found = std::find(files_.begin(), files_.end(), file);
      if (found != files_.end()) files_.erase(found);
      waiting_.store(!files_.empty());
      continue;
    }
    pool_.Run([this, file = std::move(file), chunk = std::move(chunk)]() mutable {
      (void)ReadChunkNow(context_, file, chunk);
      chunk.reset();  // it may have been taken by now: then its memory is free
      {
        MutexLock lock(mutex_);
        --running_;
      }
      GoOn();
    });
  }
}

bool FrameAhead::Take(FileState& f, std::uint64_t offset_bytes, std::span<std::byte> buffer,
                      const Interrupt* interrupt) {
  const std::uint64_t end_bytes = offset_bytes + buffer.size();
  std::vector<ReadChunkRef> parts;
  {
    MutexLock lock(f.mutex);
    parts = f.frame_chunks.Covering(offset_bytes, end_bytes);
    if (parts.empty()) GiveUp(f, context_.options.read_chunk_bytes);  // the player was quicker
    if (parts.empty() || !AwaitChunks(context_, f, parts, interrupt)) return false;
  }
  CopyFrom(parts, offset_bytes, buffer);
  context_.ahead.frame_reads.fetch_add(1, std::memory_order_relaxed);
  parts.clear();
  {
    MutexLock lock(f.mutex);
    f.frame_chunks.Take(offset_bytes, end_bytes);
  }
  GoOn();
  return true;
}

}  // namespace reel::client
