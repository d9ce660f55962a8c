// Which flags of an inode are rules for those who change it.
//
// Threads: any.
#pragma once

#include <cstdint>

#include "proto/types.pb.h"

namespace reel {

// Whether a change of the inode, its name or its attributes may be refused, or done otherwise, for
// its flags: it is the controller's then. (It is not for those that say how a file's data are
// kept.)
inline bool HasRules(std::uint32_t flags) {
  constexpr std::uint32_t kOfData = v1::INODE_FLAG_INLINE | v1::INODE_FLAG_KEEP_PREALLOCATION;
  return (flags & ~kOfData) != 0;
}

}  // namespace reel
