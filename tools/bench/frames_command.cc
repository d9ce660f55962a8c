// frames: streams of frames against the clock.
#include <memory>
#include <optional>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "tools/bench/commands.h"
#include "tools/bench/frames/frames_report.h"
#include "tools/bench/frames/frames_run.h"
#include "tools/bench/start_times.h"
#include "volume/base/aligned_buffer.h"
#include "volume/base/size.h"
#include "volume/base/types.h"

namespace reel::bench {
namespace {

struct FramesArguments {
  std::vector<std::string> directories;
  std::string format = "4k-dpx", fps = "24", pattern = "forward", space = "4GiB", io_size;
  bool cached = false, round = false;
  std::string start_at;
  std::optional<double> require;
  std::optional<std::uint64_t> late;
  FramesOptions options;
  Output output;
};

absl::StatusOr<double> FpsOf(const std::string& text) {
  constexpr double kMost = 10000;
  double fps = 0;
  if (text == "max") return 0;
  if (absl::SimpleAtod(text, &fps) && fps > 0 && fps <= kMost) return fps;
  return absl::InvalidArgumentError(
      absl::StrCat("--fps ", text, ": give frames a second, such as 24 or 23.976, or max"));
}

absl::StatusOr<FramesOptions> OptionsOf(const FramesArguments& arguments) {
  FramesOptions options = arguments.options;
  auto format = ParseFrameFormat(arguments.format);
  if (!format.ok()) return format.status();
  options.format = *std::move(format);
  if (arguments.round) options.format.bytes = RoundUp(options.format.bytes, kIoAlignment);
  const auto fps = FpsOf(arguments.fps);
  if (!fps.ok()) return fps.status();
  options.fps = *fps;
  const auto pattern = ParseFramePattern(arguments.pattern);
  if (!pattern.ok()) return pattern.status();
  options.pattern = *pattern;
  const auto space = ParseSize(arguments.space);
  if (!space.ok()) return space.status();
  options.space_bytes = *space;
  if (!arguments.io_size.empty()) {
    const auto io = ParseSize(arguments.io_size);
    if (!io.ok()) return io.status();
    if (*io == 0 || *io % kIoAlignment != 0) {
      return absl::InvalidArgumentError("--io-size must be a multiple of 4 KiB");
    }
    options.io_bytes = *io;
  }
  options.direct = !arguments.cached;
  options.progress = !arguments.output.quiet;
  if (*pattern != FramePattern::kForward && options.write && *pattern != FramePattern::kGrowing) {
    return absl::InvalidArgumentError("frames are written forward, or into a growing file");
  }
  if (*pattern == FramePattern::kGrowing && options.also_write > 0) {
    return absl::InvalidArgumentError("a growing file has its writer already: no --also-write");
  }
  return options;
}

absl::StatusOr<int> Run(const FramesArguments& arguments) {
  const auto options = OptionsOf(arguments);
  if (!options.ok()) return options.status();
  const auto sides = ParseSides(arguments.directories);
  if (!sides.ok()) return sides.status();
  for (const Side& side : *sides) {
    if (!side.more_clients.empty()) {
      return absl::InvalidArgumentError("give several directories as arguments of their own");
    }
  }
  if (!options->read_through.empty() && sides->size() != 1) {
    return absl::InvalidArgumentError("--read-through: of one directory");
  }
  std::optional<double> at;
  if (!arguments.start_at.empty()) {
    const auto parsed = ParseStartAt(arguments.start_at, SecondsNow());
    if (!parsed.ok()) return parsed.status();
    at = *parsed;
  }
  auto run = RunFrames(*sides, *options,
                       [&] { return at ? StartTimes(*at, 0).Await(0) : absl::OkStatus(); });
  if (!run.ok()) return run.status();
  const FramesReport report(*std::move(run), {arguments.require, arguments.late});
  const Findings findings{.title = "reel-bench frames",
                          .text = report.ToText(),
                          .json = report.ToJson(),
                          .html = [&](HtmlReport& html) { report.ToHtml(html); }};
  if (absl::Status s = Print(arguments.output, findings); !s.ok()) return s;
  return report.enough() ? 0 : kNotEnough;
}

void AddWork(CLI::App& app, FramesArguments& arguments) {
  FramesOptions& options = arguments.options;
  app.add_option("DIRECTORY", arguments.directories, "where the frames are, or NAME=DIRECTORY")
      ->required();
  app.add_option("--format", arguments.format,
                 "hd, 2k, 2k-full, uhd, 4k, 4k-full, 6k, uhd8k or 8k, with -dpx, -exr or -exra; "
                 "or the size of a frame")
      ->capture_default_str();
  app.add_flag("--round", arguments.round, "frames are padded to 4 KiB");
  app.add_option("--fps", arguments.fps, "frames a second of each stream, or max")
      ->capture_default_str();
  app.add_option("--pattern", arguments.pattern, "forward, reverse, pingpong, scrub or growing")
      ->capture_default_str();
  app.add_option("--streams", options.streams, "in each directory")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_flag("--write", options.write, "the streams are recorded, not played");
  app.add_option("--also-write", options.also_write, "streams that are recorded beside those")
      ->check(CLI::Range(0, 1000));
  app.add_option("--seconds", options.seconds, "of each stream")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  app.add_option("--space", arguments.space,
                 "that the files of all streams may take; a longer stream plays them again")
      ->capture_default_str();
}

void AddPlayer(CLI::App& app, FramesArguments& arguments) {
  FramesOptions& options = arguments.options;
  app.add_option("--buffers", options.buffers, "frames that a player has ahead")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "frames of a stream on their way at a time")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  app.add_option("--io-size", arguments.io_size, "of a read or write (default: the whole frame)");
  app.add_flag("--cached", arguments.cached, "through the page cache, not direct");
  app.add_flag("--sync", options.sync, "a recorded frame counts when it is on the medium");
  app.add_option("--read-through", options.read_through,
                 "read here, by another mount of the same directory")
      ->check(CLI::ExistingDirectory);
  app.add_option("--start-at", arguments.start_at,
                 "begin at HH:MM[:SS] or @SECONDS, as other hosts do");
  app.add_option("--require", arguments.require, "frames a second of each stream, or exit status 3")
      ->check(CLI::Range(0.001, 10000.0));
  app.add_option("--late", arguments.late,
                 "so many frames of each stream may be late or dropped, or exit status 3");
}

}  // namespace

Command AddFrames(CLI::App& program) {
  const auto arguments = std::make_shared<FramesArguments>();
  CLI::App* app =
      program.add_subcommand("frames", "frame sequences and growing files, against the clock");
  AddWork(*app, *arguments);
  AddPlayer(*app, *arguments);
  arguments->output.AddTo(*app);
  return {app, [arguments] { return Run(*arguments); }};
}

}  // namespace reel::bench
