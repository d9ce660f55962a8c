// sweep: which geometry blank LUNs want.
#include <cstdio>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "tools/bench/commands.h"
#include "tools/bench/progress.h"
#include "tools/bench/sweep/sweep_luns.h"
#include "tools/bench/sweep/sweep_report.h"
#include "tools/bench/sweep/sweep_run.h"
#include "tools/lib/text_file.h"
#include "tools/lib/volume_toml.h"
#include "volume/base/size.h"
#include "volume/format/lun_scan.h"
#include "volume/iscsi/iscsi_url.h"

namespace reel::bench {
namespace {

constexpr mode_t kTomlMode = 0644;

struct SweepArguments {
  std::vector<std::string> luns, metadata;
  std::string block_sizes = "4KiB,16KiB,64KiB,256KiB,1MiB";
  std::string breadths = "64KiB,256KiB,1MiB,4MiB";
  std::string io_sizes = "64KiB,1MiB,8MiB";
  std::vector<std::uint32_t> depths = {1, 4, 16};
  std::string area = "1GiB", purpose = "both", toml, volume = "reel";
  double scattered = 25;
  SweepOptions options;
  Output output;
};

absl::StatusOr<SweepOptions> OptionsOf(const SweepArguments& arguments) {
  SweepOptions options = arguments.options;
  for (const auto& [text, sizes] : {std::pair(&arguments.block_sizes, &options.block_sizes),
                                    {&arguments.breadths, &options.breadths},
                                    {&arguments.io_sizes, &options.io_sizes}}) {
    auto parsed = ParseSizes(*text);
    if (!parsed.ok()) return parsed.status();
    *sizes = *std::move(parsed);
  }
  const auto area = ParseSize(arguments.area);
  if (!area.ok()) return area.status();
  options.area_bytes = *area;
  options.depths = arguments.depths;
  options.progress = !arguments.output.quiet;
  if (absl::Status s = CheckSweep(options); !s.ok()) return s;
  return options;
}

// mkfs.reelfs takes what has no '/' for a label's name.
std::string ReferenceOf(const std::string& lun) {
  if (IsIscsiUrl(lun)) return LunNameForPeople(lun);
  std::error_code error;
  const std::filesystem::path path = std::filesystem::absolute(lun, error);
  return error ? lun : path.string();
}

void SayHowLong(const SweepOptions& options, std::size_t luns) {
  if (!options.progress) return;
  const double points = static_cast<double>(PointsOf(options).size() * options.runs);
  std::fprintf(stderr, "%.0f measurements on %zu LUNs, about %s, and what filling them takes\n",
               points, luns, DurationText(points * options.seconds).c_str());
}

absl::StatusOr<SweepReport> Measure(const SweepArguments& arguments, const SweepOptions& options,
                                    const std::vector<std::string>& names) {
  const auto luns = SweepLuns::Open(names, options.area_bytes);
  if (!luns.ok()) return luns.status();
  SayHowLong(options, luns->size());
  auto results = RunSweep(*luns, options);
  luns->Discard();
  if (!results.ok()) return results.status();
  SweepReport report{
      .area_bytes = luns->area_bytes(), .options = options, .results = *std::move(results)};
  AdvisedVolume volume{.name = arguments.volume, .metadata = arguments.metadata};
  for (const std::string& name : names) {
    report.luns.push_back(LunNameForPeople(name));
    volume.luns.push_back(ReferenceOf(name));
  }
  for (const Purpose purpose : {Purpose::kReading, Purpose::kWriting, Purpose::kBoth}) {
    report.advice.push_back(AdviseOn(report.results, purpose, arguments.scattered / 100));
    if (arguments.purpose != NameOf(purpose)) continue;
    report.purpose = purpose;
    report.toml = AdviceToml(report.advice.back(), volume);
  }
  return report;
}

absl::StatusOr<int> Run(const SweepArguments& arguments) {
  const auto options = OptionsOf(arguments);
  if (!options.ok()) return options.status();
  if (absl::Status s = tools::ValidateVolumeName(arguments.volume); !s.ok()) return s;
  const auto report = Measure(arguments, *options, ExpandLunPatterns(arguments.luns));
  if (!report.ok()) return report.status();
  std::string text = report->ToText();
  if (!arguments.toml.empty()) {
    if (absl::Status s = tools::WriteTextFile(arguments.toml, report->toml, kTomlMode); !s.ok()) {
      return s;
    }
    absl::StrAppend(&text, "\nmkfs.reelfs --config ", arguments.toml, " makes this volume.\n");
  }
  const Findings findings{.title = "reel-bench sweep",
                          .text = text,
                          .json = report->ToJson(),
                          .html = [&](HtmlReport& html) { report->ToHtml(html); }};
  if (absl::Status s = Print(arguments.output, findings); !s.ok()) return s;
  return 0;
}

}  // namespace

Command AddSweep(CLI::App& program) {
  const auto arguments = std::make_shared<SweepArguments>();
  CLI::App* app = program.add_subcommand(
      "sweep", "which block size and stripe breadth blank LUNs want, for mkfs.reelfs");
  app->footer(
      "LUNs that hold anything are refused, and there is no option against that. What it writes\n"
      "leaves the first and the last MiB alone: the LUNs are as blank afterwards as before.");
  app->add_option("LUN", arguments->luns, "paths, patterns or iscsi:// URLs of blank LUNs")
      ->required();
  app->add_option("--block-sizes", arguments->block_sizes, "to be measured")->capture_default_str();
  app->add_option("--stripe-breadths", arguments->breadths, "to be measured")
      ->capture_default_str();
  app->add_option("--io-sizes", arguments->io_sizes, "of a read or write")->capture_default_str();
  app->add_option("--depths", arguments->depths, "I/Os in flight")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->default_str("1,4,16");
  app->add_option("--area", arguments->area, "of each LUN that is written to")
      ->capture_default_str();
  app->add_option("--seconds", arguments->options.seconds, "of each point in each run")
      ->check(CLI::Range(0.001, 3600.0))
      ->capture_default_str();
  app->add_option("--runs", arguments->options.runs, "of all points")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app->add_option("--for", arguments->purpose, "what the description is for")
      ->check(CLI::IsMember({"reading", "writing", "both"}))
      ->capture_default_str();
  app->add_option("--scattered", arguments->scattered,
                  "percent of the I/O that goes to files of which each block lies elsewhere")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  app->add_option("--toml", arguments->toml, "write the description for mkfs.reelfs here");
  app->add_option("--volume", arguments->volume, "its name in that")->capture_default_str();
  app->add_option("--metadata", arguments->metadata,
                  "a LUN for metadata alone, for that: it is not looked at here")
      ->expected(1)
      ->take_all();
  arguments->output.AddTo(*app);
  return {app, [arguments] { return Run(*arguments); }};
}

}  // namespace reel::bench
