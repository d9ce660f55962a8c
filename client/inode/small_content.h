// The bytes of a small file, which the controller keeps instead of blocks
// (docs/internals/small-files.md).
//
// It *has* them until blocks that were written take their place, or the file is cut to nothing.
// What it has is *known* here, or has become dirty memory again (client/buffers/write_behind.h), or
// is to be asked for. Invariants:
//   1. What is known is held by a token, and is what the controller has.
//   2. While it is known, nothing of the blocks that it stands for is dirty.
// Threads: externally synchronised, by the file's mutex.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "client/base/byte_range.h"

namespace reel::client {

class SmallContent {
 public:
  bool known() const { return !bytes_.empty(); }
  bool at_controller() const { return at_controller_; }
  std::uint64_t size_bytes() const { return bytes_.size(); }
  const std::string& bytes() const { return bytes_; }

  // REQUIRES: not empty.
  void Take(std::string bytes) {
    bytes_ = std::move(bytes);
    at_controller_ = true;
  }
  // They become dirty memory.
  std::string MoveOut() { return std::exchange(bytes_, {}); }
  // The controller has some, which memory holds, too.
  void NoteAtController() { at_controller_ = true; }
  // It has none any more, or what it has is to be asked for.
  void Forget() {
    bytes_.clear();
    at_controller_ = false;
  }

  // Blocks were asked for: it is not to be a small file.
  bool keeps_blocks() const { return keeps_blocks_; }
  void SetKeepsBlocks(bool keeps) { keeps_blocks_ = keeps; }

  // What a read of the range finds, as far as it lies before `end_bytes`, that of the blocks that
  // this stands for: zeros follow the bytes. REQUIRES: known.
  std::string Read(const ByteRange& range, std::uint64_t end_bytes) const {
    const std::uint64_t to = std::min(range.to, end_bytes);
    if (range.from >= to) return {};
    std::string found(to - range.from, '\0');
    if (range.from < bytes_.size()) {
      bytes_.copy(found.data(), std::min<std::uint64_t>(found.size(), bytes_.size() - range.from),
                  range.from);
    }
    return found;
  }

 private:
  std::string bytes_;
  bool at_controller_ = false;
  bool keeps_blocks_ = false;
};

}  // namespace reel::client
