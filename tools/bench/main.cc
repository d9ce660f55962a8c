// reel-bench: measures directories beside each other, a mount first, and says their ratios.
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "nlohmann/json.hpp"
#include "tools/bench/lun_capacity.h"
#include "tools/bench/runner.h"
#include "tools/lib/cli.h"
#include "volume/base/size.h"

namespace reel::bench {
namespace {

constexpr char kProgram[] = "reel-bench";
constexpr int kFailed = 1, kUsage = 2;

struct Arguments {
  std::vector<std::string> sides;
  std::string size = "1GiB";
  double seconds = 3;
  std::uint32_t runs = 3;
  std::uint32_t threads = 8;
  std::uint32_t files = 2000;
  bool json = false, quiet = false;
};

void AddCommonOptions(CLI::App& command, Arguments& arguments) {
  command
      .add_option("SIDE", arguments.sides,
                  "directories, each as NAME=DIRECTORY: first what is measured, then what it is "
                  "compared with")
      ->required();
  command.add_option("--runs", arguments.runs, "runs of each, in turns")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  command.add_flag("--json", arguments.json, "machine-readable");
  command.add_flag("--quiet", arguments.quiet, "no progress on stderr");
}

absl::StatusOr<IoOptions> IoOptionsOf(const Arguments& arguments) {
  auto size = ParseSize(arguments.size);
  if (!size.ok()) return size.status();
  constexpr std::uint64_t kLeast = 64ull << 20;
  if (*size < kLeast || *size % (1 << 20) != 0) {
    return absl::InvalidArgumentError("--size must be a multiple of 1 MiB, at least 64 MiB");
  }
  return IoOptions{*size, arguments.seconds};
}

absl::StatusOr<Report> Run(bool io, const Arguments& arguments) {
  auto sides = ParseSides(arguments.sides);
  if (!sides.ok()) return sides.status();
  const RunOptions options{arguments.runs, !arguments.quiet};
  if (!io) return RunMeta(*sides, arguments.threads, {arguments.files}, options);
  const auto io_options = IoOptionsOf(arguments);
  if (!io_options.ok()) return io_options.status();
  return RunIo(*sides, *io_options, options);
}

// What is to be printed.
absl::StatusOr<std::string> RunQos(const Arguments& arguments) {
  auto sides = ParseSides(arguments.sides);
  if (!sides.ok()) return sides.status();
  if (sides->size() != 1) return absl::InvalidArgumentError("name one directory, of a mount");
  const auto io_options = IoOptionsOf(arguments);
  if (!io_options.ok()) return io_options.status();
  const auto capacity = MeasureLuns(sides->front(), *io_options, !arguments.quiet);
  if (!capacity.ok()) return capacity.status();
  return arguments.json ? tools::JsonText(CapacityJson(*capacity)) : CapacityText(*capacity);
}

int Main(int argc, char** argv) {
  CLI::App app(
      "Measures directories beside each other, in turns, and says their ratios.\n"
      "Sides named fuse (a file system that moves no data) and raw (the file system of the LUN\n"
      "images) give the bound of any client in user space: 1 / (1/fuse + 1/raw).",
      kProgram);
  app.set_version_flag("-V,--version", "reel-bench " REEL_VERSION);
  app.require_subcommand(1);
  Arguments arguments;
  CLI::App* io = app.add_subcommand("io", "large and small I/O, direct and through the page cache");
  AddCommonOptions(*io, arguments);
  io->add_option("--size", arguments.size, "of the file in each directory")->capture_default_str();
  io->add_option("--seconds", arguments.seconds, "of each measurement")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  CLI::App* meta = app.add_subcommand("meta", "create, stat, open, list and unlink small files");
  AddCommonOptions(*meta, arguments);
  meta->add_option("--threads", arguments.threads, "beside the runs with one")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  meta->add_option("--files", arguments.files, "in each thread")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  CLI::App* qos = app.add_subcommand(
      "qos", "what the LUNs behind a directory carry, for \"reeladm qos capacity\"");
  qos->add_option("SIDE", arguments.sides, "a directory of a mount, on the pool to be measured")
      ->required();
  qos->add_option("--size", arguments.size, "of the file in it")->capture_default_str();
  qos->add_option("--seconds", arguments.seconds, "of each of four measurements")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  qos->add_flag("--json", arguments.json, "machine-readable");
  qos->add_flag("--quiet", arguments.quiet, "no progress on stderr");
  app.footer("Exit status: 0 measured, 1 failed, 2 wrong arguments.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  if (qos->parsed()) {
    const auto text = RunQos(arguments);
    if (text.ok()) std::cout << *text;
    if (text.ok()) return 0;
    tools::PrintError(kProgram, text.status());
    return absl::IsInvalidArgument(text.status()) ? kUsage : kFailed;
  }
  const auto report = Run(io->parsed(), arguments);
  if (!report.ok()) {
    tools::PrintError(kProgram, report.status());
    return absl::IsInvalidArgument(report.status()) ? kUsage : kFailed;
  }
  std::cout << (arguments.json ? tools::JsonText(report->ToJson()) : report->ToText());
  return 0;
}

}  // namespace
}  // namespace reel::bench

int main(int argc, char** argv) {
  return reel::bench::Main(argc, argv);
}
