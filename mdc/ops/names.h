// The operations on names: lookup, create (file, directory, symlink, special), link, unlink,
// rename. Semantics and errno values are those of Linux's own file systems. Threads: the core
// thread.
#pragma once

#include "mdc/ops/operation.h"

namespace reel::mdc {

absl::Status Lookup(OpContext& ctx, const v1::Request& request, v1::Reply& reply);
absl::Status Create(OpContext& ctx, const v1::Request& request, v1::Reply& reply);
absl::Status Link(OpContext& ctx, const v1::Request& request, v1::Reply& reply);
absl::Status Unlink(OpContext& ctx, const v1::Request& request, v1::Reply& reply);
absl::Status Rename(OpContext& ctx, const v1::Request& request, v1::Reply& reply);

}  // namespace reel::mdc
