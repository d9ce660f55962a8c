// Large buffers that are used again: the pages of a new one have to be made and cleared by the
// kernel, which takes about as long as a copy of all that they will hold.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "volume/base/aligned_buffer.h"
#include "volume/base/mutex.h"

namespace reel {

class BufferPool;

// A buffer that goes back to where it came from; or one of no pool, which is freed.
// Threads: as of any value.
class PooledBuffer {
 public:
  PooledBuffer() = default;
  explicit PooledBuffer(AlignedBuffer own) : buffer_(std::move(own)) {}
  PooledBuffer(PooledBuffer&& other) noexcept { *this = std::move(other); }
  PooledBuffer& operator=(PooledBuffer&& other) noexcept {
    std::swap(buffer_, other.buffer_);
    std::swap(pool_, other.pool_);
    return *this;
  }
  ~PooledBuffer();

  std::byte* data() const { return buffer_.data(); }
  std::size_t size() const { return buffer_.size(); }
  std::span<std::byte> span() const ABSL_ATTRIBUTE_LIFETIME_BOUND { return buffer_.span(); }

 private:
  friend class BufferPool;
  PooledBuffer(AlignedBuffer buffer, BufferPool& pool) : buffer_(std::move(buffer)), pool_(&pool) {}

  AlignedBuffer buffer_;
  BufferPool* pool_ = nullptr;
};

// Threads: all methods may be called concurrently. It outlives its buffers.
class BufferPool {
 public:
  // Buffers of `buffer_bytes` each; keeps at most `kept_bytes` that nobody uses.
  BufferPool(std::size_t buffer_bytes, std::size_t kept_bytes)
      : buffer_bytes_(buffer_bytes), most_kept_(kept_bytes / buffer_bytes) {}

  std::size_t buffer_bytes() const { return buffer_bytes_; }
  std::size_t kept_bytes() const;

  // Its contents are undefined: what another file had there, too.
  PooledBuffer Take();

 private:
  friend class PooledBuffer;
  void Give(AlignedBuffer buffer);

  const std::size_t buffer_bytes_;
  const std::size_t most_kept_;
  mutable Mutex mutex_;
  std::vector<AlignedBuffer> kept_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace reel
