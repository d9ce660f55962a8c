// What callers of a squashed host may do, checked here because its kernel has checked another
// identity (its own root's, which may do everything, and can say that it is any other user): modes
// and ACLs of files and directories, owners, sticky directories, with the errno values of Linux's
// own file systems.
//
// Not checked is what goes by a right that was checked when a file was opened: tokens, layouts and
// commits, whose requests also come from the kernel's write-back, on nobody's behalf. For the same
// reason the owner may always set a file's size. Threads: the core thread.
#pragma once

#include "mdc/ops/operation.h"

namespace reel::mdc {

// Before the operation itself, with the credentials as they were mapped. May miss, as operations
// do. EACCES, EPERM; what is not there is left to the operation to say.
absl::Status CheckAccess(OpContext& ctx, const v1::Request& request);
// The same of attributes that come along with something else.
absl::Status MaySetAttributes(OpContext& ctx, const v1::SetAttr& set,
                              const v1::InodeRecord& record);

}  // namespace reel::mdc
