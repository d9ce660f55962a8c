// Extended attributes: user., trusted. (root's alone), security., stored as given; and POSIX ACLs.
//
// Invariant: an access ACL that is stored says more than the mode could, and the mode shows it: its
// permission bits are Acl::PermissionBits(). Threads: the core thread.
#pragma once

#include "mdc/ops/acl.h"
#include "mdc/ops/operation.h"

namespace reel::mdc {

inline constexpr std::size_t kMaxXattrValueBytes = 64 * 1024;
inline constexpr std::uint32_t kMaxXattrListBytes = 64 * 1024;

absl::Status GetXattr(OpContext& ctx, const v1::Request& request, v1::Reply& reply);
absl::Status SetXattr(OpContext& ctx, const v1::Request& request, v1::Reply& reply);
absl::Status ListXattr(OpContext& ctx, const v1::Request& request, v1::Reply& reply);
absl::Status RemoveXattr(OpContext& ctx, const v1::Request& request, v1::Reply& reply);

// The permission bits of a new inode made in `parent` with the request's mode and umask, after its
// default ACL, if there is one; what the inode inherits is stored with it. REQUIRES: the inode is
// new, and its record has the mode that was asked for.
absl::Status InheritAcl(OpContext& ctx, InodeNumber parent, const v1::InodeRecord& parent_record,
                        std::uint32_t umask, InodeNumber inode, v1::InodeRecord& record);
// Empty when there is none.
absl::StatusOr<Acl> FindAccessAcl(OpContext& ctx, InodeNumber inode, const v1::InodeRecord& record);
// chmod(2) has changed the record's permission bits: the access ACL follows.
absl::Status FollowMode(OpContext& ctx, InodeNumber inode, v1::InodeRecord& record);

}  // namespace reel::mdc
