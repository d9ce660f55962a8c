#include "client/inode/read_ahead_chunks.h"

#include <algorithm>

namespace reel::client {

std::vector<ReadChunkRef> ReadAheadChunks::Covering(std::uint64_t from_bytes,
                                                    std::uint64_t to_bytes) const {
  std::vector<ReadChunkRef> parts;
  std::uint64_t at = from_bytes;
  for (const ReadChunkRef& chunk : chunks_) {
    if (chunk->offset_bytes > at || at >= to_bytes) break;
    if (chunk->end_bytes() <= at) continue;
    parts.push_back(chunk);
    at = chunk->end_bytes();
  }
  if (at < to_bytes) parts.clear();
  return parts;
}

void ReadAheadChunks::Pass(std::uint64_t at_bytes, std::size_t chunks_of_read) {
  while (!chunks_.empty() && chunks_.front()->end_bytes() <= at_bytes) {
    chunks_.pop_front();
    wanted_ = std::min(2 * wanted_, kMaxChunks);  // it was of use
  }
  // Enough for the next read, which takes all that it needs from here or nothing, and for one more.
  if (chunks_.empty()) wanted_ = std::max(wanted_, std::min(2 * chunks_of_read, kMaxChunks));
}

}  // namespace reel::client
