#include "client/file/frame_chunks.h"

#include <iterator>

namespace reel::client {

std::map<std::uint64_t, FrameChunks::Chunk>::const_iterator FrameChunks::FindAt(
    std::uint64_t at_bytes) const {
  auto found = chunks_.upper_bound(at_bytes);
  if (found != chunks_.begin() && std::prev(found)->second.chunk->end_bytes() > at_bytes) --found;
  return found;
}

std::vector<ReadChunkRef> FrameChunks::Covering(std::uint64_t from_bytes,
                                                std::uint64_t to_bytes) const {
  std::vector<ReadChunkRef> parts;
  std::uint64_t at = from_bytes;
  for (auto it = FindAt(at); it != chunks_.end() && at < to_bytes; ++it) {
    const ReadChunkRef& chunk = it->second.chunk;
    if (chunk->offset_bytes > at) break;
    parts.push_back(chunk);
    at = chunk->end_bytes();
  }
  if (at < to_bytes) parts.clear();
  return parts;
}

void FrameChunks::Take(std::uint64_t from_bytes, std::uint64_t to_bytes) {
  for (auto it = FindAt(from_bytes); it != chunks_.end() && it->first < to_bytes;) {
    const std::uint64_t end = it->second.chunk->end_bytes();
    Chunk& chunk = chunks_.at(it->first);
    chunk.taken_bytes += std::min(end, to_bytes) - std::max(it->first, from_bytes);
    const bool all = chunk.taken_bytes >= end - it->first;
    it = all ? chunks_.erase(it) : std::next(it);
  }
}

}  // namespace reel::client
