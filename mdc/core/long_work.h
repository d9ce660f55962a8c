// Work that takes more than one turn of the core, so that everybody else is served meanwhile.
//
// Each part keeps what is left of its work, and how much of it a turn may do. Threads: the core
// thread.
#pragma once

#include <cstddef>

#include "mdc/moves/move_work.h"
#include "mdc/moves/scrub_work.h"
#include "mdc/qos/bandwidth_desk.h"
#include "mdc/sessions/dump_pins.h"
#include "mdc/sessions/orphan_queue.h"
#include "mdc/sessions/quota_desk.h"
#include "mdc/sessions/releases.h"
#include "mdc/sessions/resends.h"
#include "mdc/sessions/step_queue.h"
#include "mdc/tables/map_news.h"

namespace reel::mdc {

struct LongWork {
  // `most_released`: holdings in a turn; `most_reaped`: records of removed files, likewise.
  LongWork(std::size_t most_released, std::size_t most_reaped)
      : releases(most_released), orphans(most_reaped) {}

  Resends resends;          // of recalls, to sessions that have resumed
  Releases releases;        // of what sessions held
  StepQueue unfinished;     // operations in several steps
  OrphanQueue orphans;      // removals
  DumpPins dumps;           // blocks that have waited for a dump
  MapNews map;              // a map that sessions are told of
  QuotaDesk quotas;         // the count of what there was when that was switched on
  MoveWork moves;           // jobs
  BandwidthDesk bandwidth;  // guaranteed, and dealt out in rounds
  SpaceWatch space;         // free space that runs out
  ScrubWork scrub;          // the one of the jobs that checks metadata
};

}  // namespace reel::mdc
