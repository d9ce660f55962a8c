// Which flags of an inode are rules for those who change it.
//
// Threads: any.
#pragma once

#include <cstdint>

#include "proto/types.pb.h"

namespace reel {

// They say how a file's data are kept: for them no operation is refused, or done otherwise.
inline constexpr std::uint32_t kDataFlags =
    v1::INODE_FLAG_INLINE | v1::INODE_FLAG_KEEP_PREALLOCATION;

// Whether a change of the inode, its name or its attributes may be refused, or done otherwise, for
// its flags: it is the controller's then.
inline bool HasRules(std::uint32_t flags) {
  return (flags & ~kDataFlags) != 0;
}

}  // namespace reel
