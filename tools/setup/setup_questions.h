// What `reeladm setup` asks who sits at a terminal: whatever the options have left open.
//
// Threads: one.
#pragma once

#include <iosfwd>

#include "tools/setup/setup_plan.h"

namespace reel::tools {

// Asks for what `plan` lacks, one line each, and again where an answer cannot be; CANCELLED at the
// end of the input.
absl::Status AskForPlan(SetupPlan& plan, std::istream& in, std::ostream& out);

}  // namespace reel::tools
