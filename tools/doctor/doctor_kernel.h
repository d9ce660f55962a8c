// The kernel of a host, its clock and its limits, as ReelFS needs them.
//
// Threads: pure functions of what is handed in, but for those that say what they ask.
#pragma once

#include <sys/timex.h>

#include <string>
#include <string_view>
#include <vector>

#include "tools/doctor/finding.h"
#include "tools/doctor/host_trees.h"

namespace reel::tools {

// Which version, and what it cannot do for a mount. `release`: as uname(2) has it.
Finding KernelFinding(std::string_view release);
// /dev/fuse, fusectl, whether requests may come by io_uring, and how large they may be.
std::vector<Finding> FuseFindings(const HostTrees& trees);
// Of io_uring_setup(2), called without a place for its answer: EFAULT where it is allowed.
Finding UringFinding(int error);
int AskForUring();
// Of adjtimex(2): what it returns, and fills in.
Finding ClockFinding(int state, const timex& clock);
Finding ReadClock();
// Open files and locked memory of the programs that run, of this shell where none does.
std::vector<Finding> LimitFindings(const HostTrees& trees);

// The processes with that name, by /proc/PID/comm.
std::vector<std::string> ProcessesNamed(const HostTrees& trees, std::string_view name);

}  // namespace reel::tools
