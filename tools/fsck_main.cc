// fsck.reelfs: checks a volume that no MDC serves, and changes nothing.
//
// Exit codes of fsck(8): 0 clean, 4 errors left uncorrected, 8 operational error, 16 usage.
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "mdc/checker.h"
#include "mdc/store.h"
#include "nlohmann/json.hpp"
#include "tools/cli.h"
#include "volume/size.h"
#include "volume/lun_scan.h"

namespace reel::tools {
namespace {

constexpr char kProgram[] = "fsck.reelfs";
constexpr int kClean = 0, kErrorsLeft = 4, kOperational = 8, kUsage = 16;
// Enough to see what happened; a store that is damaged all over has millions.
constexpr std::uint64_t kMaxLines = 10'000;

struct Arguments {
  std::string volume;
  std::vector<std::string> luns;
  std::string config;
  bool json = false, verbose = false;
};

// Prints problems as they come, or gathers them for JSON.
class Output {
 public:
  explicit Output(const Arguments& arguments) : json_(arguments.json) {}

  void Phase(std::string_view name) {
    phase_ = name;
    ++phases_;
    if (!json_) std::cout << "Phase " << phases_ << ": " << phase_ << std::endl;
  }
  void Problem(const mdc::Problem& problem) {
    ++problems_;
    if (problems_ > kMaxLines) return;
    if (json_) {
      list_.push_back({{"phase", phase_},
                       {"code", problem.code},
                       {"where", problem.where},
                       {"what", problem.what}});
      return;
    }
    std::cout << "  " << problem.where << ": " << problem.what << "\n";
    if (problems_ == kMaxLines) std::cout << "  further problems are only counted\n";
  }
  std::uint64_t problems() const { return problems_; }
  nlohmann::ordered_json TakeList() { return std::move(list_); }

 private:
  const bool json_;
  std::string phase_;
  int phases_ = 0;
  std::uint64_t problems_ = 0;
  nlohmann::ordered_json list_ = nlohmann::ordered_json::array();
};

void CheckLuns(const OpenVolume& volume, Output& output) {
  output.Phase("labels and descriptors");
  for (const std::string& warning : volume.warnings) {
    output.Problem({"lun", "LUN area", warning});
  }
}

// The totals of the records, or nullopt when the store cannot be read at all.
std::optional<mdc::CheckTotals> CheckStore(OpenVolume& volume, Output& output) {
  output.Phase("metadata store");
  for (const std::string& line : mdc::Store::Check(volume)) {
    output.Problem({"store", "metadata store", line});
  }
  auto store = mdc::Store::Open(volume, {.read_only = true, .cache_bytes = 64 * kMiB});
  if (!store.ok()) {
    output.Problem({"store", "metadata store", std::string(store.status().message())});
    return std::nullopt;
  }
  if (absl::Status status = (*store)->db().VerifyChecksums(); !status.ok()) {
    output.Problem({"store", "metadata store", std::string(status.message())});
  }
  const mdc::CheckSink sink{
      .on_phase = [&](std::string_view name) { output.Phase(name); },
      .on_problem = [&](const mdc::Problem& problem) { output.Problem(problem); }};
  return mdc::CheckVolume({(*store)->db(), volume.descriptor, (*store)->regions()}, sink);
}

void PrintJson(const Arguments& arguments, const std::optional<mdc::CheckTotals>& totals,
               Output& output) {
  nlohmann::ordered_json json = {{"volume", arguments.volume},
                                 {"clean", output.problems() == 0},
                                 {"problem_count", output.problems()},
                                 {"problems", output.TakeList()}};
  if (totals.has_value()) {
    json["totals"] = {{"inodes", totals->inodes},
                      {"files", totals->files},
                      {"directories", totals->directories},
                      {"entries", totals->entries},
                      {"extents", totals->extents},
                      {"orphans", totals->orphans},
                      {"sessions", totals->sessions},
                      {"data_blocks", totals->data_blocks},
                      {"file_blocks", totals->file_blocks},
                      {"free_blocks", totals->free_blocks},
                      {"stopped_in_order", totals->stopped_in_order}};
  }
  std::cout << JsonText(json) << "\n";
}

void PrintSummary(const Arguments& arguments, const OpenVolume& volume,
                  const std::optional<mdc::CheckTotals>& totals, const Output& output) {
  if (arguments.verbose && totals.has_value()) {
    const std::uint64_t block_bytes = volume.descriptor.block_bytes;
    std::cout << "\n"
              << totals->directories << " directories, " << totals->entries << " entries, "
              << totals->inodes << " inodes\n"
              << totals->extents << " extents, " << FormatSize(totals->file_blocks * block_bytes)
              << " in files, " << FormatSize(totals->free_blocks * block_bytes) << " free\n"
              << totals->orphans << " orphans, " << totals->sessions << " sessions, "
              << (totals->stopped_in_order ? "stopped in order\n" : "not stopped in order\n");
  }
  std::cout << arguments.volume << ": ";
  if (output.problems() == 0) {
    std::cout << "clean, ";
  } else {
    std::cout << output.problems() << (output.problems() == 1 ? " problem" : " problems")
              << " found, nothing was changed";
    if (totals.has_value()) std::cout << ", ";
  }
  if (totals.has_value()) {
    std::cout << totals->files << " files, " << totals->data_blocks - totals->free_blocks << "/"
              << totals->data_blocks << " blocks";
  }
  std::cout << "\n";
}

int Run(const Arguments& arguments) {
  const auto fail = [](const absl::Status& status, int code) {
    PrintError(kProgram, status);
    return code;
  };
  auto patterns = LunPatterns(arguments.luns, arguments.config);
  if (!patterns.ok()) return fail(patterns.status(), kOperational);
  auto volume = OpenVolumeByName(arguments.volume, *patterns, LunAccess::kReadOnly);
  if (!volume.ok()) {
    return fail(volume.status(), absl::IsDataLoss(volume.status()) ? kErrorsLeft : kOperational);
  }
  if (absl::Status status = volume->seat().ClaimForThisProcess(); !status.ok()) {
    return fail(status, kOperational);
  }
  Output output(arguments);
  CheckLuns(*volume, output);
  const std::optional<mdc::CheckTotals> totals = CheckStore(*volume, output);
  if (arguments.json) {
    PrintJson(arguments, totals, output);
  } else {
    PrintSummary(arguments, *volume, totals, output);
  }
  return output.problems() == 0 ? kClean : kErrorsLeft;
}

int Main(int argc, char** argv) {
  Arguments arguments;
  bool look_only = false, repair = false;
  CLI::App app("Checks a ReelFS volume that no MDC serves. Nothing is changed.", kProgram);
  app.set_version_flag("--version", REEL_VERSION);
  app.add_option("volume", arguments.volume, "name of the volume")->required();
  app.add_option("--luns", arguments.luns, "GLOB of paths where its LUNs are (repeatable)")
      ->expected(1)
      ->take_all();
  app.add_option(
      "-c,--config", arguments.config,
      absl::StrCat("file whose luns = [...] says where they are; default: ", kHostConfig));
  app.add_flag("-n", look_only, "change nothing (always so in this version)");
  app.add_flag("-a,-p,-y,--repair", repair, "refused: this version cannot mend");
  app.add_flag("--json", arguments.json, "print the result as JSON");
  app.add_flag("-v,--verbose", arguments.verbose, "say more");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    std::fprintf(stderr, "%s: %s; see %s --help\n", kProgram, e.what(), kProgram);
    return kUsage;
  }
  LogToStderr(kProgram);
  if (repair) {
    PrintError(kProgram, absl::UnimplementedError(
                             "this version only checks; call it without -a, -p, -y and --repair"));
    return kUsage;
  }
  return Run(arguments);
}

}  // namespace
}  // namespace reel::tools

int main(int argc, char** argv) {
  return reel::tools::Main(argc, argv);
}
