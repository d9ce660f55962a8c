// Extended attributes: user., trusted. (root's alone), security. and system.posix_acl_*, stored as
// given. Threads: the core thread.
#pragma once

#include "mdc/operation.h"

namespace reel::mdc {

inline constexpr std::size_t kMaxXattrValueBytes = 64 * 1024;
inline constexpr std::uint32_t kMaxXattrListBytes = 64 * 1024;

absl::Status GetXattr(OpContext& ctx, const v1::Request& request, v1::Reply& reply);
absl::Status SetXattr(OpContext& ctx, const v1::Request& request, v1::Reply& reply);
absl::Status ListXattr(OpContext& ctx, const v1::Request& request, v1::Reply& reply);
absl::Status RemoveXattr(OpContext& ctx, const v1::Request& request, v1::Reply& reply);

}  // namespace reel::mdc
