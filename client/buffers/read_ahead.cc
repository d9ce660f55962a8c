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

bool ReadAhead::IsWorthwhile() const {
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
    parts = f.read_ahead_chunks.Covering(offset_bytes, end_bytes);
    bool usable = !parts.empty();
    for (const ReadChunkRef& chunk : parts) {
      while (usable && chunk->state == ReadChunk::State::kReading) {
        usable = context_.Wait(f, interrupt).ok();
      }
      usable = usable && f.read_ahead_chunks.IsOfUse(*chunk);
    }
    if (!usable) {
      f.read_ahead_chunks.Clear();  // the stream is elsewhere, or the file has changed
      return false;
    }
  }
  for (const ReadChunkRef& chunk : parts) {
    const std::uint64_t from = std::max(offset_bytes, chunk->offset_bytes);
    const std::uint64_t to = std::min(end_bytes, chunk->end_bytes());
    std::memcpy(buffer.data() + (from - offset_bytes),
                chunk->buffer.data() + (from - chunk->offset_bytes), to - from);
  }
  context_.reads_from_memory.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void ReadAhead::Continue(const FileRef& file, std::uint64_t at_bytes) {
  {
    MutexLock lock(mutex_);
    if (!IsWorthwhile()) return;
  }
  FileState& f = *file;
  std::vector<ReadChunkRef> begun;
  {
    MutexLock lock(f.mutex);
    f.read_ahead_chunks.Pass(at_bytes);
    while (!f.read_ahead_chunks.full()) {
      ReadChunkRef chunk = Begin(f, f.read_ahead_chunks.NextAt(at_bytes));
      if (chunk == nullptr) break;
      f.read_ahead_chunks.Add(chunk);
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
  if (f.recall.under_way() || !f.users.admits_shared()) return nullptr;
  // Up to a multiple of the chunk: then the LUNs get requests of whole ones.
  const std::uint64_t chunk_bytes = context_.options.read_chunk_bytes;
  const std::uint64_t end_bytes =
      std::min(RoundDown(offset_bytes, chunk_bytes) + chunk_bytes, size_bytes);
  if (!f.grant.Has(f.SpanOf(offset_bytes, end_bytes), v1::TOKEN_SHARED)) return nullptr;
  if (f.memory.Overlaps({offset_bytes, end_bytes})) return nullptr;
  auto chunk = std::make_shared<ReadChunk>();
  if (f.grant.Cover(offset_bytes, end_bytes - offset_bytes, chunk->extents)) return nullptr;
  chunk->held = ReadMemory::Take(context_.read_ahead_bytes, chunk_bytes,
                                 context_.max_read_ahead_bytes.load());
  if (chunk->held.bytes() == 0) return nullptr;
  chunk->offset_bytes = offset_bytes;
  chunk->length_bytes = end_bytes - offset_bytes;
  chunk->session = f.grant.session();
  return f.users.EnterShared() ? chunk : nullptr;
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
  file->users.LeaveShared();
  chunk->state = read ? ReadChunk::State::kRead : ReadChunk::State::kFailed;
  file->changed.NotifyAll();
}

}  // namespace reel::client
