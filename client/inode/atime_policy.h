// When a read moves an inode's access time: what mount(8) calls noatime, relatime and strictatime.
//
// The kernel does not keep access times for a FUSE file system, so the client tells the controller,
// later and without waiting. Threads: a value.
#pragma once

#include <cstdint>

namespace reel::client {

enum class AtimePolicy : std::uint8_t {
  kNone,      // never
  kRelative,  // when it was changed since the last read that was noted, or that is a day ago
  kStrict,    // at every read
};

}  // namespace reel::client
