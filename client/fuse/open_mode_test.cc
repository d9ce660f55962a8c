#include "client/fuse/open_mode.h"

#include <fcntl.h>
#include <gtest/gtest.h>

namespace reel::client {
namespace {

constexpr std::uint64_t kSmall = 4096;
constexpr std::uint64_t kLarge = kStreamBytes + 1;

TEST(OpenMode, Table) {
  constexpr bool kMmap = true, kNoMmap = false;
  constexpr bool kDirect = true, kCached = false;
  const struct {
    CacheChoice choice;
    bool direct_io_mmap;
    int flags;
    std::uint64_t size_bytes;
    bool direct;
    std::uint64_t unchanged_seconds = kSettledSeconds;
    bool read_in_pieces = false;
    bool played = true;
  } rows[] = {
      {CacheChoice::kAuto, kMmap, O_RDONLY, kSmall, kCached},
      {CacheChoice::kAuto, kMmap, O_RDONLY, kKeptBytes, kCached},
      {CacheChoice::kAuto, kMmap, O_RDONLY, kKeptBytes + 1, kDirect},
      {CacheChoice::kAuto, kMmap, O_RDONLY, kSmall, kDirect, kSettledSeconds - 1},
      {CacheChoice::kAuto, kMmap, O_RDONLY, kLarge, kCached, kSettledSeconds, true},
      {CacheChoice::kAuto, kMmap, O_RDONLY, kLarge, kDirect, kSettledSeconds - 1, true},
      {CacheChoice::kAuto, kMmap, O_RDONLY, kStreamBytes, kCached, kSettledSeconds, false, false},
      {CacheChoice::kAuto, kMmap, O_RDONLY, kStreamBytes, kDirect, kSettledSeconds - 1, false,
       false},
      {CacheChoice::kAuto, kMmap, O_RDONLY, kLarge, kDirect, kSettledSeconds, false, false},
      {CacheChoice::kAuto, kMmap, O_RDWR, kStreamBytes, kDirect, kSettledSeconds, false, false},
      {CacheChoice::kAuto, kMmap, O_RDWR, kLarge, kDirect, kSettledSeconds, true},
      {CacheChoice::kAuto, kMmap, O_RDONLY | O_DIRECT, kSmall, kDirect},
      {CacheChoice::kAuto, kMmap, O_RDWR, kSmall, kDirect},
      {CacheChoice::kAuto, kMmap, O_WRONLY, kSmall, kDirect},
      {CacheChoice::kAuto, kMmap, O_RDWR, kLarge, kDirect},
      {CacheChoice::kAuto, kNoMmap, O_RDONLY, kSmall, kCached},
      {CacheChoice::kAuto, kNoMmap, O_RDWR, kSmall, kCached},
      {CacheChoice::kAuto, kNoMmap, O_RDWR | O_DIRECT, kSmall, kDirect},
      {CacheChoice::kAuto, kNoMmap, O_WRONLY, kSmall, kDirect},
      {CacheChoice::kAuto, kNoMmap, O_RDONLY, kStreamBytes, kCached},
      {CacheChoice::kAuto, kNoMmap, O_RDONLY, kLarge, kDirect},
      {CacheChoice::kAuto, kNoMmap, O_RDWR | O_APPEND, kSmall, kDirect},
      {CacheChoice::kDirect, kNoMmap, O_RDWR, kSmall, kDirect},
      {CacheChoice::kDirect, kMmap, O_RDONLY, kSmall, kDirect},
      {CacheChoice::kPageCache, kMmap, O_WRONLY, kLarge, kCached},
      {CacheChoice::kPageCache, kMmap, O_RDWR | O_DIRECT, kSmall, kDirect},
      {CacheChoice::kPageCache, kMmap, O_WRONLY | O_APPEND, kSmall, kDirect},
  };
  for (const auto& row : rows) {
    const OpenRequest request{row.flags, row.size_bytes, row.unchanged_seconds, row.read_in_pieces,
                              row.played};
    EXPECT_EQ(OpensDirect(row.choice, row.direct_io_mmap, request), row.direct)
        << "choice " << static_cast<int>(row.choice) << ", mmap " << row.direct_io_mmap
        << ", flags " << row.flags << ", size " << row.size_bytes;
  }
}

}  // namespace
}  // namespace reel::client
