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

void ReadAheadChunks::Pass(std::uint64_t at_bytes) {
  while (!chunks_.empty() && chunks_.front()->end_bytes() <= at_bytes) {
    chunks_.pop_front();
    wanted_ = std::min(2 * wanted_, kMaxChunks);  // it was of use
  }
  if (chunks_.empty()) wanted_ = std::max<std::size_t>(wanted_, 2);
}

}  // namespace reel::client
