// The inodes whose data this client uses or has a token on.
//
// Sharded, so that requests on different files meet on no lock. Threads: all methods may be called
// concurrently. Lock order: a shard, then a FileState.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "client/file/file_state.h"
#include "volume/base/mutex.h"

namespace reel::client {

class FileTable {
 public:
  // Once, before any use. `stream_bytes`: FileDataOptions'.
  void Begin(std::uint32_t block_bytes, std::uint64_t stream_bytes) {
    block_bytes_ = block_bytes;
    stream_bytes_ = stream_bytes;
  }
  // Made when it is not there. Counts as a use.
  FileRef Get(std::uint64_t inode);
  // Null when it is not there.
  FileRef Find(std::uint64_t inode) const;
  std::vector<FileRef> All() const;
  std::size_t size() const { return size_.load(std::memory_order_relaxed); }

  // Drops the entry if nobody else refers to it and `unused` says so of it, under its mutex.
  void DropIf(std::uint64_t inode, absl::FunctionRef<bool(FileState&)> unused);

  // What uses are stamped with; grows by one now and then.
  std::uint32_t Tick() { return ++tick_; }
  std::uint32_t tick() const { return tick_.load(std::memory_order_relaxed); }

 private:
  struct alignas(64) Shard {
    mutable Mutex mutex;
    absl::flat_hash_map<std::uint64_t, FileRef> files ABSL_GUARDED_BY(mutex);
  };
  static std::size_t IndexOf(std::uint64_t inode) { return inode % kShards; }

  static constexpr std::size_t kShards = 64;
  std::array<Shard, kShards> shards_;
  std::uint32_t block_bytes_ = 0;  // the volume's
  std::uint64_t stream_bytes_ = 0;
  std::atomic<std::size_t> size_{0};
  std::atomic<std::uint32_t> tick_{1};
};

}  // namespace reel::client
