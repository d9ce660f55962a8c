// By which names files were looked up of late: what is opened is known by its inode alone.
//
// Threads: all methods may be called concurrently.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "volume/base/mutex.h"

namespace reel::client {

class LookedUpFiles {
 public:
  static constexpr std::size_t kMaxFiles = 8'192;  // the oldest go first

  struct File {
    std::uint64_t directory = 0;
    std::string name;
    std::uint64_t size_bytes = 0;  // when it was opened
    bool played = false;           // by that open: as a frame of a sequence
  };

  // A name leads to that regular file.
  void Note(std::uint64_t directory, std::string_view name, std::uint64_t inode);
  std::optional<File> Find(std::uint64_t inode) const;
  bool WasPlayed(std::uint64_t inode) const;
  // A program has opened it to read.
  void NoteOpen(std::uint64_t inode, std::uint64_t size_bytes, bool played);

 private:
  mutable Mutex mutex_;
  absl::flat_hash_map<std::uint64_t, File> files_ ABSL_GUARDED_BY(mutex_);  // by inode
  std::deque<std::uint64_t> order_ ABSL_GUARDED_BY(mutex_);                 // in that order
};

}  // namespace reel::client
