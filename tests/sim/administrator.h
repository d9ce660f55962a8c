// Somebody who moves data about and changes the volume's map while it is used, again and again: one
// thing at a time, whatever has become of the last one.
// Threads: fibers of host 0.
#pragma once

#include "tests/sim/daemon.h"
#include "tests/sim/random.h"
#include "tests/sim/volume.h"

namespace reel::sim {

// One job, or a change of one, of what the volume's shape lets.
void Administer(Daemon& daemon, Shape shape, Random& random);

// As by `reeladm scrub start`; some take a while.
void StartScrub(Daemon& daemon, Random& random);

}  // namespace reel::sim
