// fsck.reelfs: checks a volume that no MDC serves, and repairs it where asked to.
//
// Exit codes of fsck(8): 0 clean, 1 all errors corrected, 4 errors left, 8 operational error, 16
// usage.
#include <algorithm>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "tools/fsck/fsck_output.h"
#include "tools/fsck/fsck_volume.h"
#include "tools/lib/cli.h"
#include "volume/format/descriptor.h"
#include "volume/lun/lun.h"

namespace reel::tools {
namespace {

constexpr char kProgram[] = "fsck.reelfs";
constexpr int kClean = 0, kCorrected = 1, kErrorsLeft = 4, kUsage = 16;

struct Arguments {
  FsckOptions options;
  std::vector<std::string> luns;
  std::string config;
  bool look_only = false, repair = false, preen = false, force = false;
  bool json = false, verbose = false;
};

// fsck(8) hands on only what begins with a slash: a LUN stands for its volume then.
absl::StatusOr<std::string> VolumeOfLun(const std::string& path) {
  const auto lun = OpenLun(path, LunAccess::kReadOnly);
  if (!lun.ok()) return lun.status();
  const auto reading = ReadDescriptor(**lun);
  if (!reading.ok()) return reading.status();
  return reading->descriptor.name;
}

int Run(Arguments arguments) {
  const auto fail = [](const absl::Status& status, int code) {
    PrintError(kProgram, status);
    return code;
  };
  if (arguments.options.volume.starts_with('/')) {
    auto volume = VolumeOfLun(arguments.options.volume);
    if (!volume.ok()) return fail(volume.status(), kOperationalError);
    arguments.options.volume = *std::move(volume);
  }
  auto patterns = LunPatterns(arguments.luns, arguments.config);
  if (!patterns.ok()) return fail(patterns.status(), kOperationalError);
  arguments.options.patterns = *std::move(patterns);
  arguments.options.repair = arguments.repair || arguments.preen;
  arguments.options.rebuild = arguments.repair;
  arguments.options.program = "fsck.reelfs " REEL_VERSION;
  FsckOutput output(arguments.options.volume, arguments.json, arguments.verbose);
  const auto result = CheckAndRepair(arguments.options, output);
  if (!result.ok()) {
    return fail(result.status(),
                absl::IsDataLoss(result.status()) ? kErrorsLeft : kOperationalError);
  }
  if (result->left > 0) return kErrorsLeft;
  return result->repairs > 0 ? kCorrected : kClean;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  arguments.options.threads = std::max(1u, std::thread::hardware_concurrency());
  CLI::App app("Checks a ReelFS volume that no MDC serves, and repairs it where asked to.",
               kProgram);
  app.set_version_flag("-V,--version", "fsck.reelfs " REEL_VERSION);
  app.add_option("volume", arguments.options.volume,
                 "name of the volume, or the path of one of its LUNs")
      ->required();
  app.add_option("--luns", arguments.luns, "GLOB of paths where its LUNs are (repeatable)")
      ->expected(1)
      ->take_all();
  app.add_option(
      "-c,--config", arguments.config,
      absl::StrCat("file whose luns = [...] says where they are; default: ", kHostConfig));
  auto* look_only = app.add_flag("-n", arguments.look_only, "change nothing (the default)");
  auto* repair = app.add_flag("-y,--repair", arguments.repair,
                              "repair everything, and say what was done and what is lost");
  auto* preen = app.add_flag("-a,-p", arguments.preen,
                             "repair, but not a metadata store of which something is lost");
  look_only->excludes(repair)->excludes(preen);
  app.add_flag("-f", arguments.force, "check in any case (as it always does)");
  app.add_option("--threads", arguments.options.threads,
                 "so many threads check; default: one for each processor")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.add_flag("--json", arguments.json, "print the result as JSON");
  app.add_flag("-v,--verbose", arguments.verbose, "say more");
  if (const auto code = ParseArguments(app, argc, argv, kProgram)) return *code == 0 ? 0 : kUsage;
  LogToStderr(kProgram);
  return Run(std::move(arguments));
}

}  // namespace
}  // namespace reel::tools

int main(int argc, char** argv) {
  return reel::tools::Main(argc, argv);
}
