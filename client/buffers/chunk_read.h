// The reading of a chunk of a file before anybody asks for it, under the token that the file has:
// what read-ahead of streams and of frames have in common.
//
// It waits for nothing but the LUNs, and for its share of their bandwidth; where somebody recalls
// the file's token while a path is lost, it gives way. Threads: all may be called concurrently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "client/file/data_context.h"

namespace reel::client {

// A chunk of [from, to), with its extents, whose reader has entered the file; null where it cannot
// be read now: no token, unknown extents, a recall, somebody who works alone, or no memory (`held`
// is empty). What it is of use for is ReadAheadChunks::Stamp's to say.
ReadChunkRef BeginChunk(DataContext& context, FileState& f, const ByteRange& range,
                        ReadMemory& held) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
// It is not to be read after all: its reader leaves the file.
void GiveUpChunk(FileState& f) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
// Reads it and leaves the file. False: it could not be read. REQUIRES: no lock held.
bool ReadChunkNow(DataContext& context, const FileRef& file, const ReadChunkRef& chunk);
// True when all of them have been read, and are of use; waits for that, unless interrupted.
bool AwaitChunks(DataContext& context, FileState& f, std::span<const ReadChunkRef> chunks,
                 const Interrupt* interrupt) ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
// REQUIRES: the chunks are read, and cover what the buffer is to hold, from `offset_bytes` on.
void CopyFrom(std::span<const ReadChunkRef> chunks, std::uint64_t offset_bytes,
              std::span<std::byte> buffer);

}  // namespace reel::client
