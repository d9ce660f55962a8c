// The command line of `reeladm config`: what is wrong with the configuration of this host, and what
// holds in the end.
#pragma once

namespace reel::tools {

// `argv[0]` is "config". Returns the exit code: 0 nothing is wrong, 1 something is, 2 wrong
// arguments.
int RunConfigCommand(int argc, char** argv);

}  // namespace reel::tools
