// A part of a file in memory, read before it is asked for (client/buffers/read_ahead.h).
// Threads: as each class says.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "client/luns/lun_io.h"
#include "volume/base/buffer_pool.h"

namespace reel::client {

// The memory that chunks read ahead take, counted for all files together; given back with them.
class ReadMemory {
 public:
  ReadMemory() = default;
  // Nothing when `all` would pass `limit_bytes`.
  static ReadMemory Take(std::atomic<std::uint64_t>& all, std::uint64_t bytes,
                         std::uint64_t limit_bytes) {
    if (all.fetch_add(bytes, std::memory_order_relaxed) + bytes <= limit_bytes) {
      return ReadMemory(&all, bytes);
    }
    all.fetch_sub(bytes, std::memory_order_relaxed);
    return ReadMemory();
  }
  ReadMemory(ReadMemory&& other) noexcept { *this = std::move(other); }
  ReadMemory& operator=(ReadMemory&& other) noexcept {
    std::swap(all_, other.all_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~ReadMemory() {
    if (all_ != nullptr) all_->fetch_sub(bytes_, std::memory_order_relaxed);
  }
  std::uint64_t bytes() const { return bytes_; }

 private:
  ReadMemory(std::atomic<std::uint64_t>* all, std::uint64_t bytes) : all_(all), bytes_(bytes) {}
  std::atomic<std::uint64_t>* all_ = nullptr;
  std::uint64_t bytes_ = 0;
};

// A part of a file that is read before it is asked for. Its state is under
// the file's mutex; the rest is its reader's alone until it is kRead, and nobody changes it then.
struct ReadChunk {
  enum class State : std::uint8_t { kReading, kRead, kFailed };
  State state = State::kReading;
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;
  std::uint64_t data_changes = 0;  // ReadAheadChunks's, when it began
  std::uint64_t session = 0;       // under which it is read
  std::uint32_t tree = 0;          // of the file then
  ExtentList extents;
  PooledBuffer buffer;
  ReadMemory held;
  std::uint64_t end_bytes() const { return offset_bytes + length_bytes; }
};
using ReadChunkRef = std::shared_ptr<ReadChunk>;

}  // namespace reel::client
