// The command line of `reeladm pki`: it makes certificates, and asks no controller.
#pragma once

namespace reel::tools {

// `argv[0]` is "pki". Returns the exit code.
int RunPkiCommand(int argc, char** argv);

}  // namespace reel::tools
