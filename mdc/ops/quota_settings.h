// What users see of quotas, by extended attributes of the volume's own (mdc/ops/settings.h).
//
//   reelfs.tree   the name of the directory tree that the inode is charged to. Root sets it on a
//                 directory, and what is made in that from then on belongs to the tree too.
//   reelfs.quota  read only: what the caller, the caller's group and the tree have and may have, a
//                 line each.
// Threads: the core thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "mdc/ops/operation.h"

namespace reel::mdc {

inline constexpr std::string_view kTreeSetting = "reelfs.tree";
inline constexpr std::string_view kQuotaSetting = "reelfs.quota";
inline bool IsQuotaSetting(std::string_view name) {
  return name == kTreeSetting || name == kQuotaSetting;
}

// ENODATA: it is in no tree, or nothing is counted.
absl::Status GetQuotaSetting(OpContext& ctx, const v1::InodeRecord& record, std::string_view name,
                             std::string& value);
// Empty: no tree. EPERM: the caller is not root, or it is read only. EINVAL: no such tree. Times
// are the caller's.
absl::Status ChangeQuotaSetting(OpContext& ctx, InodeNumber inode, v1::InodeRecord& record,
                                std::string_view name, std::string_view value);

// What statfs(2) shows in a tree that has a limit of space: no more than that one, as XFS does.
struct UsableSpace {
  std::uint64_t total_blocks = 0;
  std::uint64_t free_blocks = 0;
};
absl::Status NarrowToTree(OpContext& ctx, const v1::InodeRecord& record, UsableSpace& space);

}  // namespace reel::mdc
