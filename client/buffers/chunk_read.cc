#include "client/buffers/chunk_read.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace reel::client {

ReadChunkRef BeginChunk(DataContext& context, FileState& f, const ByteRange& range,
                        ReadMemory& held) {
  if (context.stopping || f.recall.under_way() || !f.users.admits_shared()) return nullptr;
  if (!f.grant.Has(f.SpanOf(range.from, range.to), v1::TOKEN_SHARED)) return nullptr;
  if (f.memory.Overlaps(range) || f.grant.small().known()) return nullptr;
  auto chunk = std::make_shared<ReadChunk>();
  if (f.grant.Cover(range.from, range.to - range.from, chunk->extents)) return nullptr;
  if (held.bytes() == 0 || !f.users.EnterShared()) return nullptr;
  chunk->held = std::move(held);
  chunk->offset_bytes = range.from;
  chunk->length_bytes = range.to - range.from;
  chunk->session = f.grant.session();
  chunk->tree = f.attr.project();
  return chunk;
}

void GiveUpChunk(FileState& f) {
  f.users.LeaveShared();
  f.changed.NotifyAll();
}

bool ReadChunkNow(DataContext& context, const FileRef& file, const ReadChunkRef& chunk) {
  chunk->buffer = context.buffers.Take();
  const IoPermit permit{.session = chunk->session,
                        .yields_to = &context.recalls,
                        .inode = file->inode,
                        .tree = chunk->tree};
  const bool read = context.io
                        ->Read(chunk->extents, chunk->offset_bytes, chunk->length_bytes,
                               chunk->buffer.span(), permit)
                        .ok();
  MutexLock lock(file->mutex);
  file->users.LeaveShared();
  chunk->state = read ? ReadChunk::State::kRead : ReadChunk::State::kFailed;
  if (file->recall.under_way()) context.recalls.Moved(file->inode);
  file->changed.NotifyAll();
  return read;
}

bool AwaitChunks(DataContext& context, FileState& f, std::span<const ReadChunkRef> chunks,
                 const Interrupt* interrupt) {
  for (const ReadChunkRef& chunk : chunks) {
    while (chunk->state == ReadChunk::State::kReading) {
      if (!context.Wait(f, interrupt).ok()) return false;
    }
    if (!f.read_ahead_chunks.IsOfUse(*chunk)) return false;
  }
  return true;
}

void CopyFrom(std::span<const ReadChunkRef> chunks, std::uint64_t offset_bytes,
              std::span<std::byte> buffer) {
  const std::uint64_t end_bytes = offset_bytes + buffer.size();
  for (const ReadChunkRef& chunk : chunks) {
    const std::uint64_t from = std::max(offset_bytes, chunk->offset_bytes);
    const std::uint64_t to = std::min(end_bytes, chunk->end_bytes());
    std::memcpy(buffer.data() + (from - offset_bytes),
                chunk->buffer.data() + (from - chunk->offset_bytes), to - from);
  }
}

}  // namespace reel::client
