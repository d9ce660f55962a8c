#include "client/base/attributes.h"

namespace reel::client {
namespace {

// (Times of the wire are shown as they come.)
WallTime FromWire(const v1::Time& time) {
  return {.seconds = time.seconds(), .nanoseconds = time.nanoseconds()};
}

void CopyTime(const WallTime& from, v1::Time& to) {
  to.set_seconds(from.seconds);
  to.set_nanoseconds(from.nanoseconds);
}

}  // namespace

Attributes::Attributes(const v1::Attr& attr)
    : inode(attr.inode()),
      generation(attr.generation()),
      mode(attr.mode()),
      nlink(attr.nlink()),
      uid(attr.uid()),
      gid(attr.gid()),
      rdev(attr.rdev()),
      size_bytes(attr.size_bytes()),
      allocated_bytes(attr.allocated_bytes()),
      atime(FromWire(attr.atime())),
      mtime(FromWire(attr.mtime())),
      ctime(FromWire(attr.ctime())),
      btime(FromWire(attr.btime())),
      change(attr.change()),
      flags(attr.flags()),
      project(attr.project()),
      xattrs(attr.xattrs()),
      directory(attr.directory()) {}

v1::Attr Attributes::ToProto() const {
  v1::Attr attr;
  CopyTo(attr);
  return attr;
}

void Attributes::CopyTo(v1::Attr& attr) const {
  attr.set_inode(inode);
  attr.set_generation(generation);
  attr.set_mode(mode);
  attr.set_nlink(nlink);
  attr.set_uid(uid);
  attr.set_gid(gid);
  attr.set_rdev(rdev);
  attr.set_size_bytes(size_bytes);
  attr.set_allocated_bytes(allocated_bytes);
  CopyTime(atime, *attr.mutable_atime());
  CopyTime(mtime, *attr.mutable_mtime());
  CopyTime(ctime, *attr.mutable_ctime());
  CopyTime(btime, *attr.mutable_btime());
  attr.set_change(change);
  attr.set_flags(flags);
  attr.set_project(project);
  attr.set_xattrs(xattrs);
  attr.set_directory(directory);
}

}  // namespace reel::client
