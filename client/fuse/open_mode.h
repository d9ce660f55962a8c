// The policy that decides, per open, whether a file's reads and writes go past the kernel's page
// cache.
//
// Past it (FOPEN_DIRECT_IO) they are three to ten times as fast for large requests, and two hosts
// see each other's bytes without invalidations; but before kernel 6.6 such a file cannot be mapped
// shared, which sqlite's WAL and some linkers need. So older kernels get the page cache for what
// may be mapped. Threads: a pure function.
#pragma once

#include <cstdint>

namespace reel::client {

enum class CacheChoice {
  kAuto,       // by the table in open_mode.cc
  kDirect,     // never the page cache
  kPageCache,  // always, but for O_DIRECT and O_APPEND
};

struct OpenRequest {
  int flags = 0;  // of open(2)
  std::uint64_t size_bytes = 0;
};

// Larger files are streams: they gain nothing from the page cache.
inline constexpr std::uint64_t kStreamBytes = std::uint64_t{64} << 20;

// True: FOPEN_DIRECT_IO. `direct_io_mmap`: the kernel maps such files.
bool OpensDirect(CacheChoice choice, bool direct_io_mmap, const OpenRequest& request);

}  // namespace reel::client
