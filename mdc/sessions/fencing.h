// What keeps a host off the LUNs that must not write any more: the keys that sessions are known by
// there, the orders to fence them, what this controller itself sees of the LUNs, and who was cut
// off for the others' sake.
//
// Each part keeps its own invariant, in its header. How a fence goes on is its session's
// (mdc/base/fence_run.h). Threads: the core thread.
#pragma once

#include <optional>

#include "mdc/sessions/cut_off_log.h"
#include "mdc/sessions/fence_orders.h"
#include "mdc/sessions/key_numbers.h"
#include "mdc/sessions/lun_sights.h"

namespace reel::mdc {

struct Fencing {
  std::optional<KeyNumbers> keys;  // once the epoch is known
  FenceOrders orders;
  LunSights luns;
  CutOffLog cut_off;
};

}  // namespace reel::mdc
