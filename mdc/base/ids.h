// What the core counts: numbers of different kinds, which do not mix. Threads: plain values.
#pragma once

#include "volume/base/types.h"

namespace reel::mdc {

using StreamId = StrongNumber<struct StreamTag>;  // one connection; made by the server
using TicketId = StrongNumber<struct TicketTag>;  // one fetch
using FenceId = StrongNumber<struct FenceTag>;    // one order to fence
using CopyId = StrongNumber<struct CopyTag>;      // one order to copy blocks
using JobId = StrongNumber<struct JobTag>;        // work that moves data; kept in the store

}  // namespace reel::mdc
