// io, meta and qos: directories beside each other, in turns.
#include <memory>

#include "absl/strings/str_cat.h"
#include "tools/bench/commands.h"
#include "tools/bench/lun_capacity.h"
#include "tools/bench/runner.h"
#include "tools/bench/start_times.h"
#include "volume/base/size.h"

namespace reel::bench {
namespace {

struct LoadArguments {
  std::vector<std::string> sides;
  std::string size = "1GiB";
  double seconds = 3;
  std::uint32_t runs = 3;
  std::uint32_t threads = 8;
  std::uint32_t files = 2000;
  bool shared = false;
  std::string start_at;
  double every = 10;
  Output output;

  absl::StatusOr<IoOptions> io() const {
    auto bytes = ParseSize(size);
    if (!bytes.ok()) return bytes.status();
    constexpr std::uint64_t kLeast = 64ull << 20;
    if (*bytes < kLeast || *bytes % (1 << 20) != 0) {
      return absl::InvalidArgumentError("--size must be a multiple of 1 MiB, at least 64 MiB");
    }
    return IoOptions{*bytes, seconds};
  }
};

void AddSides(CLI::App& command, LoadArguments& arguments) {
  command
      .add_option("SIDE", arguments.sides,
                  "directories, each as NAME=DIRECTORY: first what is measured, then what it is "
                  "compared with")
      ->required();
  command.add_option("--runs", arguments.runs, "runs of each, in turns")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
}

void AddFile(CLI::App& command, LoadArguments& arguments) {
  command.add_option("--size", arguments.size, "of the file in each directory")
      ->capture_default_str();
  command.add_option("--seconds", arguments.seconds, "of each measurement")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
}

absl::StatusOr<int> PrintReport(const Output& output, const absl::StatusOr<Report>& report) {
  if (!report.ok()) return report.status();
  const Findings findings{.title = absl::StrCat("reel-bench ", report->command),
                          .text = report->ToText(),
                          .json = report->ToJson(),
                          .html = [&](HtmlReport& html) { report->ToHtml(html); }};
  if (absl::Status s = Print(output, findings); !s.ok()) return s;
  return 0;
}

absl::StatusOr<int> RunIoCommand(const LoadArguments& arguments) {
  const auto sides = ParseSides(arguments.sides);
  if (!sides.ok()) return sides.status();
  for (const Side& side : *sides) {
    if (!side.more_clients.empty()) {
      return absl::InvalidArgumentError("several clients of a side: meta has them, io has not");
    }
  }
  const auto io = arguments.io();
  if (!io.ok()) return io.status();
  const RunOptions options{arguments.runs, !arguments.output.quiet};
  return PrintReport(arguments.output, RunIo(*sides, *io, options));
}

absl::StatusOr<int> RunMetaCommand(const LoadArguments& arguments) {
  const auto sides = ParseSides(arguments.sides);
  if (!sides.ok()) return sides.status();
  RunOptions options{arguments.runs, !arguments.output.quiet};
  std::unique_ptr<StartTimes> start;
  if (!arguments.start_at.empty()) {
    const auto at = ParseStartAt(arguments.start_at, SecondsNow());
    if (!at.ok()) return at.status();
    start = std::make_unique<StartTimes>(*at, arguments.every);
    options.start = start.get();
  }
  return PrintReport(arguments.output, RunMeta(*sides, arguments.threads,
                                               {arguments.files, arguments.shared}, options));
}

absl::StatusOr<int> RunQosCommand(const LoadArguments& arguments) {
  const auto sides = ParseSides(arguments.sides);
  if (!sides.ok()) return sides.status();
  if (sides->size() != 1) return absl::InvalidArgumentError("name one directory, of a mount");
  const auto io = arguments.io();
  if (!io.ok()) return io.status();
  const auto capacity = MeasureLuns(sides->front(), *io, !arguments.output.quiet);
  if (!capacity.ok()) return capacity.status();
  const Findings findings{
      .title = "reel-bench qos",
      .text = CapacityText(*capacity),
      .json = CapacityJson(*capacity),
      .html = [&](HtmlReport& html) { html.Preformatted(CapacityText(*capacity)); }};
  if (absl::Status s = Print(arguments.output, findings); !s.ok()) return s;
  return 0;
}

}  // namespace

Command AddIo(CLI::App& program) {
  const auto arguments = std::make_shared<LoadArguments>();
  CLI::App* app =
      program.add_subcommand("io", "large and small I/O, direct and through the page cache");
  app->footer(
      "Sides named fuse (a file system that moves no data) and raw (the file system of the LUN\n"
      "images) give the bound of any client in user space: 1 / (1/fuse + 1/raw).");
  AddSides(*app, *arguments);
  AddFile(*app, *arguments);
  arguments->output.AddTo(*app);
  return {app, [arguments] { return RunIoCommand(*arguments); }};
}

Command AddMeta(CLI::App& program) {
  const auto arguments = std::make_shared<LoadArguments>();
  CLI::App* app = program.add_subcommand("meta", "create, stat, open, list and unlink small files");
  app->footer(
      "A side may have several clients, which work at the same time: NAME=DIRECTORY,DIRECTORY\n"
      "with mounts of one volume. On several hosts, run it with one --start-at on each, and add\n"
      "the rates up.");
  AddSides(*app, *arguments);
  app->add_option("--threads", arguments->threads, "of each client, beside the runs with one")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app->add_option("--files", arguments->files, "in each thread")
      ->check(CLI::Range(1, 10'000'000))
      ->capture_default_str();
  app->add_flag("--shared", arguments->shared, "all threads and clients work in one directory");
  app->add_option("--start-at", arguments->start_at,
                  "begin at HH:MM[:SS] or @SECONDS, as other hosts do");
  app->add_option("--every", arguments->every,
                  "with --start-at: seconds from the begin of a measurement to that of the next")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  arguments->output.AddTo(*app);
  return {app, [arguments] { return RunMetaCommand(*arguments); }};
}

Command AddQos(CLI::App& program) {
  const auto arguments = std::make_shared<LoadArguments>();
  CLI::App* app = program.add_subcommand(
      "qos", "what the LUNs behind a directory carry, for \"reeladm qos capacity\"");
  app->add_option("SIDE", arguments->sides, "a directory of a mount, on the pool to be measured")
      ->required();
  AddFile(*app, *arguments);
  arguments->output.AddTo(*app);
  return {app, [arguments] { return RunQosCommand(*arguments); }};
}

}  // namespace reel::bench
