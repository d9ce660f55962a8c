// The command line of `reeladm doctor`: looks at this host from end to end, and says what to do.
#pragma once

namespace reel::tools {

// `argv[0]` is "doctor". Returns the exit code: 0 no failure (there may be warnings), 1 failures, 2
// wrong arguments.
int RunDoctorCommand(int argc, char** argv);

}  // namespace reel::tools
