// The command line of `reeladm setup`: it makes the files of a volume's hosts, and asks no
// controller.
#pragma once

namespace reel::tools {

// `argv[0]` is "setup". Returns the exit code: 0 done, 1 failed (nothing was overwritten), 2 wrong
// arguments.
int RunSetupCommand(int argc, char** argv);

}  // namespace reel::tools
