#include "volume/base/buffer_pool.h"

#include <sanitizer/asan_interface.h>

namespace reel {

PooledBuffer::~PooledBuffer() {
  if (pool_ != nullptr) pool_->Give(std::move(buffer_));
}

PooledBuffer BufferPool::Take() {
  {
    MutexLock lock(mutex_);
    if (!kept_.empty()) {
      // The one that was used last: its bytes are the likeliest to be in a processor's cache.
      PooledBuffer buffer(std::move(kept_.back()), *this);
      kept_.pop_back();
      ASAN_UNPOISON_MEMORY_REGION(buffer.data(), buffer_bytes_);
      return buffer;
    }
  }
  return {AlignedBuffer(buffer_bytes_), *this};
}

std::size_t BufferPool::kept_bytes() const {
  MutexLock lock(mutex_);
  return kept_.size() * buffer_bytes_;
}

void BufferPool::Give(AlignedBuffer buffer) {
  MutexLock lock(mutex_);
  if (kept_.size() >= most_kept_) return;
  // Whoever uses it still is found out, as with memory that was freed.
  ASAN_POISON_MEMORY_REGION(buffer.data(), buffer_bytes_);
  kept_.push_back(std::move(buffer));
}

}  // namespace reel
