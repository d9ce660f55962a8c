// Memory that O_DIRECT accepts: page-aligned, owned, zero-filled on request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <span>

#include "absl/base/attributes.h"

namespace reel {

inline constexpr std::size_t kIoAlignment = 4096;

class AlignedBuffer {
 public:
  AlignedBuffer() = default;
  // Contents are undefined. Ends the process when memory is out, as operator new does.
  explicit AlignedBuffer(std::size_t size_bytes)
      : data_(static_cast<std::byte*>(::operator new (size_bytes, std::align_val_t{kIoAlignment}))),
        size_(size_bytes) {}

  static AlignedBuffer Zeroed(std::size_t size_bytes) {
    AlignedBuffer buffer(size_bytes);
    std::memset(buffer.data(), 0, size_bytes);
    return buffer;
  }

  std::byte* data() const { return data_.get(); }
  std::size_t size() const { return size_; }
  std::span<std::byte> span() const ABSL_ATTRIBUTE_LIFETIME_BOUND { return {data_.get(), size_}; }

 private:
  struct Free {
    void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{kIoAlignment}); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t size_ = 0;
};

}  // namespace reel
