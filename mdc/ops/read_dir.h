// Reading a directory in the order of its cookies, which are stable and never reused: an entry that
// stays is returned exactly once, whatever comes and goes beside it. Threads: the core thread.
#pragma once

#include "mdc/ops/operation.h"

namespace reel::mdc {

// Attributes are left out of entries that another session may be changing (an exclusive token):
// reading a directory recalls nothing; the client looks those up.
absl::Status ReadDir(OpContext& ctx, const v1::Request& request, v1::Reply& reply);

}  // namespace reel::mdc
