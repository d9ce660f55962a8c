// The attributes of an inode, as the client keeps and shows them: what v1::Attr says, in fields of
// fixed size. A copy allocates nothing, and so none has to be avoided.
//
// The stream's messages become this where they are taken in, and this becomes a message where one
// is wanted. Invariant: nothing is lost either way; a time that is absent is the epoch, as it is in
// the message. Threads: a value.
#pragma once

#include <cstdint>

#include "proto/types.pb.h"
#include "volume/base/env.h"

namespace reel::client {

struct Attributes {
  std::uint64_t inode = 0;
  std::uint64_t generation = 0;
  std::uint32_t mode = 0;  // type and permission bits, as in st_mode
  std::uint32_t nlink = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint64_t rdev = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t allocated_bytes = 0;
  WallTime atime, mtime, ctime, btime;
  std::uint64_t change = 0;  // grows with every change of the inode
  std::uint32_t flags = 0;   // InodeFlag bits
  std::uint32_t project = 0;
  bool xattrs = false;  // it has extended attributes, perhaps an ACL
  // Of a regular file: the directory whose delegation others wait for who look at it.
  std::uint64_t directory = 0;

  Attributes() = default;
  // Implicit: it is the same value.
  Attributes(const v1::Attr& attr);  // NOLINT(google-explicit-constructor)

  v1::Attr ToProto() const;
  // Allocates nothing where the message has had times before.
  void CopyTo(v1::Attr& attr) const;
};

}  // namespace reel::client
