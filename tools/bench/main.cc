// reel-bench: measures mounts, frame sequences, metadata and LUNs, and compares results.
#include <iostream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "tools/bench/commands.h"
#include "tools/lib/cli.h"

namespace reel::bench {
namespace {

int Main(int argc, char** argv) {
  CLI::App app("Measures mounts, frame sequences, metadata and LUNs, and compares results.",
               kProgram);
  app.set_version_flag("-V,--version", "reel-bench " REEL_VERSION);
  app.require_subcommand(1);
  const std::vector<Command> commands = {AddFrames(app), AddSweep(app), AddIo(app),
                                         AddMeta(app),   AddQos(app),   AddCompare(app)};
  app.footer(
      "Exit status: 0 measured, 1 failed, 2 wrong arguments, 3 not what was required, or slower.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : tools::kExitUsage;
  }
  for (const Command& command : commands) {
    if (!command.app->parsed()) continue;
    const auto status = command.run();
    if (status.ok()) return *status;
    tools::PrintError(kProgram, status.status());
    return absl::IsInvalidArgument(status.status()) ? tools::kExitUsage : tools::kExitFailed;
  }
  return tools::kExitUsage;
}

}  // namespace
}  // namespace reel::bench

int main(int argc, char** argv) {
  return reel::bench::Main(argc, argv);
}
