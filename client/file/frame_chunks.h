// What of a file was fetched ahead because it is the next frame of a sequence: its first bytes, in
// chunks, before any program has opened it.
//
// Invariants:
//   1. Chunks begin one after the other, from the file's first byte on, each at a multiple of the
//      chunk size. Where a program came first, and read for itself, there is a gap.
//   2. A chunk goes when all of it has been handed over.
//   3. As of those of a stream, whether one is of use ReadAheadChunks says.
// Threads: externally synchronised, by the file's mutex.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <vector>

#include "client/inode/read_chunk.h"

namespace reel::client {

class FrameChunks {
 public:
  // The first `to_bytes` are wanted: less than before changes nothing.
  void Want(std::uint64_t to_bytes) { wanted_to_bytes_ = std::max(wanted_to_bytes_, to_bytes); }
  std::uint64_t wanted_to_bytes() const { return wanted_to_bytes_; }
  // Where the next chunk begins; beyond what is wanted none does.
  std::uint64_t next_bytes() const { return next_bytes_; }
  bool done() const { return next_bytes_ >= wanted_to_bytes_; }
  // Whether some of it is wanted, or there, from `at_bytes` on.
  bool Leads(std::uint64_t at_bytes) const {
    return at_bytes < wanted_to_bytes_ && (!done() || !chunks_.empty());
  }

  // Its reading begins. REQUIRES: it begins at next_bytes.
  void Add(const ReadChunkRef& chunk) {
    chunks_.emplace(chunk->offset_bytes, chunk);
    next_bytes_ = chunk->end_bytes();
  }
  // Those that hold [from, to), together; none where a part of that is in no chunk.
  std::vector<ReadChunkRef> Covering(std::uint64_t from_bytes, std::uint64_t to_bytes) const;
  // [from, to) has been handed over.
  void Take(std::uint64_t from_bytes, std::uint64_t to_bytes);
  // A program reads that for itself: what has not begun before `to_bytes` need not.
  void Pass(std::uint64_t to_bytes, std::uint64_t chunk_bytes) {
    next_bytes_ = std::max(next_bytes_, RoundDown(to_bytes, chunk_bytes));
  }
  // The file has changed, or nobody will come for it.
  void Clear() {
    chunks_.clear();
    next_bytes_ = wanted_to_bytes_ = 0;
  }

  // How far programs have read the file since nobody had it open: what of the next frames is worth
  // fetching.
  void NoteRead(std::uint64_t to_bytes) { read_to_bytes_ = std::max(read_to_bytes_, to_bytes); }
  std::uint64_t read_to_bytes() const { return read_to_bytes_; }
  void Close() { *this = FrameChunks(); }

 private:
  struct Chunk {
    explicit Chunk(ReadChunkRef read) : chunk(std::move(read)) {}
    ReadChunkRef chunk;
    std::uint64_t taken_bytes = 0;
  };
  // The one that holds that byte, or the first one behind it.
  std::map<std::uint64_t, Chunk>::const_iterator FindAt(std::uint64_t at_bytes) const;

  std::map<std::uint64_t, Chunk> chunks_;  // by where they begin
  std::uint64_t next_bytes_ = 0;
  std::uint64_t wanted_to_bytes_ = 0;
  std::uint64_t read_to_bytes_ = 0;
};

}  // namespace reel::client
