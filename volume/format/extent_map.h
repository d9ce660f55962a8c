// What is known of a file's blocks: a map of disjoint extents over file blocks, merged where they
// join. The client's layout cache and the MDC's view of an inode are both one of these.
//
// Invariants: extents are disjoint and sorted; neighbours that continue each other in file, pool
// and state are one extent. A file block that no extent covers is *unknown* (the client asks the
// MDC; the MDC treats it as a hole). Threads: externally synchronised.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "volume/base/types.h"

namespace reel {

// Beyond the last block of the largest file: "to the end" is kEndOfFileBlocks - start.
inline constexpr FileBlock kEndOfFileBlocks{std::uint64_t{1} << 50};

enum class ExtentState : std::uint8_t {
  kHole = 0,       // known to be absent: reads as zeros, needs allocation before a write
  kUnwritten = 1,  // allocated, reads as zeros
  kWritten = 2,    // holds the file's bytes
};

struct Extent {
  FileBlock file_block;
  std::uint64_t length_blocks = 0;
  ExtentState state = ExtentState::kHole;
  PoolId pool;           // meaningless for a hole
  PoolBlock pool_block;  // meaningless for a hole

  FileBlock end() const { return file_block + length_blocks; }
  friend bool operator==(const Extent&, const Extent&) = default;
};

class ExtentMap {
 public:
  // Makes [e.file_block, e.end()) what `e` says, replacing what was known of that range.
  void Set(const Extent& extent);
  // Forgets everything about the range: it becomes unknown.
  void Erase(FileBlock start, std::uint64_t length_blocks);
  void EraseFrom(FileBlock start);  // … to the end
  void Clear() { extents_.clear(); }
  // Unwritten blocks of the range become written; other states stay.
  void MarkWritten(FileBlock start, std::uint64_t length_blocks);

  // The extent that covers `block`, cut to nothing; nullopt when unknown.
  std::optional<Extent> Find(FileBlock block) const;
  // The known pieces of [start, start + length), cut to it, in order; gaps between them are
  // unknown.
  std::vector<Extent> Slice(FileBlock start, std::uint64_t length_blocks) const;
  // True when no block of the range is unknown.
  bool Covers(FileBlock start, std::uint64_t length_blocks) const;

  std::size_t size() const { return extents_.size(); }
  bool empty() const { return extents_.empty(); }
  std::vector<Extent> All() const;

 private:
  void SplitAt(FileBlock block);
  void MergeAround(FileBlock block);
  std::map<FileBlock, Extent> extents_;  // by file_block
};

}  // namespace reel
