#include "client/buffers/read_ahead.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "client/buffers/chunk_read.h"

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
  std::vector<ReadChunkRef> parts;
  {
    MutexLock lock(f.mutex);
    parts = f.read_ahead_chunks.Covering(offset_bytes, offset_bytes + buffer.size());
    if (parts.empty() || !AwaitChunks(context_, f, parts, interrupt)) {
      f.read_ahead_chunks.Clear();  // the stream is elsewhere, or the file has changed
      return false;
    }
  }
  CopyFrom(parts, offset_bytes, buffer);
  context_.ahead.reads.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void ReadAhead::Continue(const FileRef& file, std::uint64_t at_bytes, std::uint64_t read_bytes) {
  {
    MutexLock lock(mutex_);
    if (!IsWorthwhile()) return;
  }
  FileState& f = *file;
  std::vector<ReadChunkRef> begun;
  {
    MutexLock lock(f.mutex);
    const std::uint64_t chunk_bytes = context_.options.read_chunk_bytes;
    f.read_ahead_chunks.Pass(
        at_bytes, DivideUp(at_bytes, chunk_bytes) - (at_bytes - read_bytes) / chunk_bytes);
    while (!f.read_ahead_chunks.full()) {
      ReadChunkRef chunk = Begin(f, f.read_ahead_chunks.NextAt(at_bytes));
      if (chunk == nullptr) break;
      f.read_ahead_chunks.Add(chunk);
      begun.push_back(std::move(chunk));
    }
    // The next read takes all of its bytes from there, or none.
    const std::uint64_t needed_to = std::min(at_bytes + read_bytes, f.attr.size_bytes());
    if (f.read_ahead_chunks.NextAt(at_bytes) < needed_to) {
      f.read_ahead_chunks.TakeBack(begun.size());
      for (; !begun.empty(); begun.pop_back()) GiveUpChunk(f);
    }
  }
  for (ReadChunkRef& chunk : begun) {
    pool_.Run([this, file, chunk = std::move(chunk)] { Read(file, chunk); });
  }
}

ReadChunkRef ReadAhead::Begin(FileState& f, std::uint64_t offset_bytes) {
  const std::uint64_t size_bytes = f.attr.size_bytes();
  if (offset_bytes >= size_bytes) return nullptr;
  // Up to a multiple of the chunk: then the LUNs get requests of whole ones.
  const std::uint64_t chunk_bytes = context_.options.read_chunk_bytes;
  const std::uint64_t end_bytes =
      std::min(RoundDown(offset_bytes, chunk_bytes) + chunk_bytes, size_bytes);
  ReadMemory held = ReadMemory::Take(context_.read_ahead_bytes, chunk_bytes,
                                     context_.max_read_ahead_bytes.load());
  return BeginChunk(context_, f, {offset_bytes, end_bytes}, held);
}

void ReadAhead::Read(const FileRef& file, const ReadChunkRef& chunk) {
  const std::uint64_t began_ms = context_.clock.NowMs();
  if (ReadChunkNow(context_, file, chunk)) NoteLunRead(chunk->length_bytes, began_ms);
}

}  // namespace reel::client
