// What a user chooses for a file, or for what will be made in a directory, by extended attributes
// of the volume's own: they are fields of the inode, no stored attributes, and listxattr(2) does
// not tell of them (so that copies do not take them along).
//
//   reelfs.writers   "many": hosts write the file at the same time; "single": while one has it open
//                    for writing, open(2) for writing is EBUSY on the others. New files and
//                    directories have what their directory has.
//   reelfs.affinity  the name of an affinity: the blocks that a file gets from now on come from the
//                    pools that have it, if there is room; those that it has stay where they are.
//                    New files and directories have what their directory has.
//   reelfs.space     how much space there is for what is made there: read only, for statfs(2).
//   reelfs.tree, reelfs.quota: mdc/ops/quota_settings.h; reelfs.rate: mdc/ops/bandwidth_settings.h.
// Threads: the core thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "mdc/ops/operation.h"
#include "mdc/ops/quota_settings.h"
#include "volume/base/types.h"

namespace reel::mdc {

bool IsSetting(std::string_view name);

// EOPNOTSUPP: no such setting, or none of such an inode; ENODATA: it has no affinity.
absl::Status GetSetting(OpContext& ctx, InodeNumber inode, std::string_view name,
                        std::string& value);
// Empty: back to the default. EPERM: the caller does not own the inode; EINVAL: no such value;
// the message names those that there are.
absl::Status ChangeSetting(OpContext& ctx, InodeNumber inode, std::string_view name,
                           std::string_view value);

// What files that are made in that directory, or that file, may use: of the pools that the
// allocator takes blocks of for it (Allocator::Order), within the limit of its tree.
absl::StatusOr<UsableSpace> SpaceFor(OpContext& ctx, const v1::InodeRecord& record);

// EBUSY when another host is the file's single writer; waits for its lock token first.
absl::Status RequireNoOtherWriter(OpContext& ctx, InodeNumber inode, const v1::InodeRecord& record);

}  // namespace reel::mdc
