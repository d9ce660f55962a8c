#include "client/buffers/read_ahead.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace reel::client {
namespace {

// Milliseconds for a MiB from which on it pays.
constexpr double kSlowMsPerMib = 0.3;

}  // namespace

void ReadAhead::NoteLunRead(std::uint64_t bytes, std::uint64_t began_ms) {
  const std::uint64_t now_ms = context_.clock.NowMs();
  MutexLock lock(mutex_);
  pace_.Note(bytes, now_ms - began_ms);
}

bool ReadAhead::Pays() const {
  if (context_.max_read_ahead_bytes.load() == 0) return false;
  if (context_.options.always_read_ahead) return true;
  return pace_.SlowerThan(kSlowMsPerMib);
}

bool ReadAhead::Take(FileState& f, std::uint64_t offset_bytes, std::span<std::byte> buffer,
                     const Interrupt* interrupt) {
  const std::uint64_t end_bytes = offset_bytes + buffer.size();
  std::vector<ReadChunkRef> parts;
  {
    MutexLock lock(f.mutex);
    std::uint64_t at = offset_bytes;
    for (const ReadChunkRef& chunk : f.read_chunks) {
      if (chunk->offset_bytes > at || at >= end_bytes) break;
      if (chunk->end_bytes() <= at) continue;
      parts.push_back(chunk);
      at = chunk->end_bytes();
    }
    bool usable = at >= end_bytes;
    for (const ReadChunkRef& chunk : parts) {
      while (usable && chunk->state == ReadChunk::State::kReading) {
        usable = context_.Wait(f, interrupt).ok();
      }
      usable = usable && chunk->state == ReadChunk::State::kRead &&
               chunk->data_changes == f.data_changes;
    }
    if (!usable) {
      f.read_chunks.clear();  // the stream is elsewhere, or the file has changed
      return false;
    }
  }
  for (const ReadChunkRef& chunk : parts) {
    const std::uint64_t from = std::max(offset_bytes, chunk->offset_bytes);
    const std::uint64_t to = std::min(end_bytes, chunk->end_bytes());
    std::memcpy(buffer.data() + (from - offset_bytes),
                chunk->buffer.data() + (from - chunk->offset_bytes), to - from);
  }
  context_.reads_from_ahead.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void ReadAhead::Continue(const FileRef& file, std::uint64_t at_bytes) {
  {
    MutexLock lock(mutex_);
    if (!Pays()) return;
  }
  FileState& f = *file;
  std::vector<ReadChunkRef> begun;
  {
    MutexLock lock(f.mutex);
    auto& chunks = f.read_chunks;
    while (!chunks.empty() && chunks.front()->end_bytes() <= at_bytes) {
      chunks.pop_front();
      f.read_chunks_wanted = std::min(2 * f.read_chunks_wanted, kMaxChunks);  // it was of use
    }
    if (chunks.empty()) f.read_chunks_wanted = std::max<std::size_t>(f.read_chunks_wanted, 2);
    while (chunks.size() < f.read_chunks_wanted) {
      const std::uint64_t next = chunks.empty() ? at_bytes : chunks.back()->end_bytes();
      ReadChunkRef chunk = Begin(f, next);
      if (chunk == nullptr) break;
      chunks.push_back(chunk);
      begun.push_back(std::move(chunk));
    }
  }
  for (ReadChunkRef& chunk : begun) {
    pool_.Run([this, file, chunk = std::move(chunk)] { Read(file, chunk); });
  }
}

ReadChunkRef ReadAhead::Begin(FileState& f, std::uint64_t offset_bytes) {
  const std::uint64_t size_bytes = f.attr.size_bytes();
  if (offset_bytes >= size_bytes || context_.stopping) return nullptr;
  if (f.recall != FileState::Recall::kNone || f.exclusive_user || f.exclusive_waiters > 0) {
    return nullptr;
  }
  // Up to a multiple of the chunk: then the LUNs get requests of whole ones.
  const std::uint64_t chunk_bytes = context_.options.read_chunk_bytes;
  const std::uint64_t end_bytes =
      std::min(RoundDown(offset_bytes, chunk_bytes) + chunk_bytes, size_bytes);
  if (!f.token.Has(f.SpanOf(offset_bytes, end_bytes), v1::TOKEN_SHARED)) return nullptr;
  if (f.memory.Overlaps({offset_bytes, end_bytes})) return nullptr;
  auto chunk = std::make_shared<ReadChunk>();
  if (f.Cover(offset_bytes, end_bytes - offset_bytes, chunk->extents)) return nullptr;
  chunk->held = ReadMemory::Take(context_.read_ahead_bytes, chunk_bytes,
                                 context_.max_read_ahead_bytes.load());
  if (chunk->held.bytes() == 0) return nullptr;
  chunk->offset_bytes = offset_bytes;
  chunk->length_bytes = end_bytes - offset_bytes;
  chunk->data_changes = f.data_changes;
  chunk->session = f.session;
  ++f.shared_users;
  return chunk;
}

void ReadAhead::Read(const FileRef& file, const ReadChunkRef& chunk) {
  chunk->buffer = context_.buffers.Take();
  const std::uint64_t began_ms = context_.clock.NowMs();
  const bool read = context_.io
                        ->Read(chunk->extents, chunk->offset_bytes, chunk->length_bytes,
                               chunk->buffer.span(), {.session = chunk->session})
                        .ok();
  if (read) NoteLunRead(chunk->length_bytes, began_ms);
  MutexLock lock(file->mutex);
  --file->shared_users;
  chunk->state = read ? ReadChunk::State::kRead : ReadChunk::State::kFailed;
  file->changed.NotifyAll();
}

}  // namespace reel::client
