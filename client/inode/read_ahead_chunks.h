// What of a file was read before it is asked for, or is on its way, and how much of that there is
// to be.
//
// Invariants:
//   1. The chunks lie one behind the other, without gaps.
//   2. A chunk is of use only as long as nothing has made its bytes others than a read would return
//      now: each such change is counted, and a chunk knows the count from when it began.
//   3. There are more of them, the longer they are of use.
// Threads: externally synchronised, by the file's mutex.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "client/inode/read_chunk.h"

namespace reel::client {

class ReadAheadChunks {
 public:
  static constexpr std::size_t kMaxChunks = 16;

  // Those that hold [from, to), together; none where a part of that is in no chunk.
  std::vector<ReadChunkRef> Covering(std::uint64_t from_bytes, std::uint64_t to_bytes) const;
  bool IsOfUse(const ReadChunk& chunk) const {
    return chunk.state == ReadChunk::State::kRead && chunk.data_changes == changes_;
  }

  // The stream has come to `at_bytes`, by a read that takes `chunks_of_read` of them.
  void Pass(std::uint64_t at_bytes, std::size_t chunks_of_read = 1);
  bool full() const { return chunks_.size() >= wanted_; }
  // Where the next one begins, of a stream that has come there.
  std::uint64_t NextAt(std::uint64_t at_bytes) const {
    return chunks_.empty() ? at_bytes : chunks_.back()->end_bytes();
  }
  // Its reading begins. REQUIRES: it begins at NextAt.
  void Add(const ReadChunkRef& chunk) {
    Stamp(*chunk);
    chunks_.push_back(chunk);
  }
  // The reading of a chunk begins, which somebody else keeps.
  void Stamp(ReadChunk& chunk) const { chunk.data_changes = changes_; }
  // The last so many are not read after all.
  void TakeBack(std::size_t count) { chunks_.erase(chunks_.end() - count, chunks_.end()); }
  // The stream is elsewhere, or the file has changed.
  void Clear() { chunks_.clear(); }

  // Bytes that were read before are not those that would be read now.
  void NoteChange() { ++changes_; }

 private:
  std::deque<ReadChunkRef> chunks_;
  std::size_t wanted_ = 0;
  std::uint64_t changes_ = 0;
};

}  // namespace reel::client
