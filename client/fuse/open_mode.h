// The policy that decides, per open, whether a file's reads and writes go past the kernel's page
// cache.
//
// Past it (FOPEN_DIRECT_IO) they are three to ten times as fast for large requests, and two hosts
// see each other's bytes without invalidations. Through it a small file that is read once more asks
// nobody. Before kernel 6.6 a file that was opened past it cannot be mapped shared, which sqlite's
// WAL and some linkers need; so older kernels get the page cache for what may be mapped. Threads: a
// pure function.
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
  std::uint64_t unchanged_seconds = 0;  // since its bytes were last changed
  bool read_in_pieces = false;          // by programs of this host, so far
  bool played = true;                   // a frame of a sequence that is being played, perhaps
};

// Larger files are streams: to be read once, and through the page cache at 0.6 of the rate. Of a
// smaller one that may be some 20 ms, once; by small pieces past the cache it would be 20 times as
// long as through it, and what is read again comes from there three times as fast. Which of these a
// program will do nobody knows at its open.
inline constexpr std::uint64_t kStreamBytes = std::uint64_t{64} << 20;
// Files up to that size are read again and again, by compilers, searches and scripts; larger ones
// may be frames, of which each 20 ms count.
inline constexpr std::uint64_t kKeptBytes = std::uint64_t{1} << 20;
// What was changed just now may be growing: a reader that keeps pages of it would have to give them
// up with each write.
inline constexpr std::uint64_t kSettledSeconds = 5;

// True: FOPEN_DIRECT_IO. `direct_io_mmap`: the kernel maps such files.
bool OpensDirect(CacheChoice choice, bool direct_io_mmap, const OpenRequest& request);

}  // namespace reel::client
