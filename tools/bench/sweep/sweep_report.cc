#include "tools/bench/sweep/sweep_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "nlohmann/json.hpp"
#include "tools/bench/plot/svg_plot.h"
#include "tools/bench/report.h"
#include "volume/base/size.h"

namespace reel::bench {
namespace {

using tools::Table;

constexpr double kMB = 1e6;
// Where the runs differ by more, a recommendation leans on little.
constexpr double kLoudNoise = 0.1;

constexpr char kExplained[] =
    "Fresh: a file in one piece, whose requests are cut by the stripe breadth alone. Scattered: a "
    "file of which every block lies elsewhere, whose requests are cut by the block size alone. All "
    "files lie between the two.";

nlohmann::ordered_json ChoiceJson(const SizeChoice& choice) {
  nlohmann::ordered_json json = {
      {"bytes", choice.bytes}, {"why", choice.why}, {"shares", nlohmann::ordered_json::array()}};
  for (const SizeShare& one : choice.shares) {
    json["shares"].push_back({{"bytes", one.bytes}, {"share", one.share}});
  }
  return json;
}

const std::vector<std::uint64_t>& SizesOf(const SweepOptions& options, bool scattered) {
  return scattered ? options.block_sizes : options.breadths;
}

}  // namespace

ReportTable SweepReport::TableOf(bool scattered) const {
  const auto& sizes = SizesOf(options, scattered);
  ReportTable table{{{scattered ? "scattered, MB/s by block size" : "fresh, MB/s by stripe breadth",
                      Table::Align::kLeft}},
                    {}};
  for (const std::uint64_t size : sizes) {
    table.columns.push_back({FormatSize(size), Table::Align::kRight});
  }
  for (const SweepResult& result : results) {
    if (result.point.scattered != scattered) continue;
    if (result.point.geometry_bytes == sizes.front()) table.rows.push_back({WorkOf(result.point)});
    const Spread spread = SpreadOf(result.rates);
    table.rows.back().push_back(absl::StrFormat("%.0f (%.0f-%.0f)", spread.median / kMB,
                                                spread.least / kMB, spread.most / kMB));
  }
  return table;
}

ReportTable SweepReport::AdviceTable() const {
  ReportTable table{{{"for", Table::Align::kLeft},
                     {"stripe breadth", Table::Align::kRight},
                     {"of the best", Table::Align::kRight},
                     {"block size", Table::Align::kRight},
                     {"of the best", Table::Align::kRight}},
                    {}};
  const auto share = [](const SizeChoice& choice) {
    for (const SizeShare& one : choice.shares) {
      if (one.bytes == choice.bytes) return absl::StrFormat("%.1f %%", 100 * one.share);
    }
    return std::string("-");
  };
  for (const Advice& one : advice) {
    table.rows.push_back({NameOf(one.purpose), FormatSize(one.breadth.bytes), share(one.breadth),
                          FormatSize(one.block.bytes), share(one.block)});
  }
  return table;
}

std::string SweepReport::Warning() const {
  const double noise = NoiseOf(results);
  if (options.runs < 2) return "One run says nothing about how much runs differ: give more --runs.";
  if (noise < kLoudNoise) return "";
  return absl::StrFormat(
      "The runs differ by %.0f %%: something else was at work, or the time of a point is short. "
      "Give more --seconds or --runs.",
      100 * noise);
}

std::string SweepReport::ToText() const {
  std::string text = absl::StrCat(kExplained, "\n\n", TableOf(false).ToText(), "\n",
                                  TableOf(true).ToText(), "\n", AdviceTable().ToText());
  for (const Advice& one : advice) {
    absl::StrAppend(&text, "\nFor ", NameOf(one.purpose), ":\n  ", one.breadth.why, "\n  ",
                    one.block.why, "\n");
  }
  if (!Warning().empty()) absl::StrAppend(&text, "\n", Warning(), "\n");
  return text;
}

nlohmann::ordered_json SweepReport::ToJson() const {
  nlohmann::ordered_json json = {{"command", "sweep"},
                                 {"luns", luns},
                                 {"area_bytes", area_bytes},
                                 {"seconds", options.seconds},
                                 {"runs", options.runs},
                                 {"points", nlohmann::ordered_json::array()},
                                 {"advice", nlohmann::ordered_json::array()},
                                 {"noise", NoiseOf(results)},
                                 {"purpose", NameOf(purpose)},
                                 {"toml", toml}};
  for (const SweepResult& result : results) {
    const Spread spread = SpreadOf(result.rates);
    json["points"].push_back(
        {{"layout", result.point.scattered ? "scattered" : "fresh"},
         {result.point.scattered ? "block_bytes" : "breadth_bytes", result.point.geometry_bytes},
         {"io_bytes", result.point.io_bytes},
         {"depth", result.point.depth},
         {"write", result.point.write},
         {"rate", {{"median", spread.median}, {"least", spread.least}, {"most", spread.most}}}});
  }
  for (const Advice& one : advice) {
    json["advice"].push_back({{"purpose", NameOf(one.purpose)},
                              {"noise", one.noise},
                              {"stripe_breadth", ChoiceJson(one.breadth)},
                              {"block_size", ChoiceJson(one.block)}});
  }
  return json;
}

std::string SweepReport::PlotOf(bool scattered, bool write) const {
  const auto& sizes = SizesOf(options, scattered);
  std::vector<std::string> categories;
  for (const std::uint64_t size : sizes) categories.push_back(FormatSize(size));
  std::vector<PlotBars> series;
  for (const SweepResult& result : results) {
    if (result.point.scattered != scattered || result.point.write != write) continue;
    if (result.point.geometry_bytes == sizes.front()) {
      series.push_back(
          {absl::StrCat(FormatSize(result.point.io_bytes), " × ", result.point.depth), {}});
    }
    const Spread spread = SpreadOf(result.rates);
    series.back().bars.push_back(
        PlotBar{spread.median / kMB, spread.least / kMB, spread.most / kMB});
  }
  return CategoryLines({absl::StrCat(write ? "Writing" : "Reading", ", ",
                                     scattered ? "scattered" : "fresh", ": I/O size × depth"),
                        scattered ? "block size" : "stripe breadth", "MB/s"},
                       categories, series);
}

void SweepReport::ToHtml(HtmlReport& html) const {
  for (const Advice& one : advice) {
    if (one.purpose != purpose) continue;
    html.Verdict(absl::StrCat("For ", NameOf(one.purpose), ": stripe breadth ",
                              FormatSize(one.breadth.bytes), ", block size ",
                              FormatSize(one.block.bytes), "."),
                 true);
    html.Paragraph(one.breadth.why);
    html.Paragraph(one.block.why);
  }
  if (!Warning().empty()) html.Verdict(Warning(), false);
  html.Table(AdviceTable());
  html.Heading("What was measured");
  html.Facts({{"LUNs", absl::StrJoin(luns, ", ")},
              {"area on each", FormatSize(area_bytes)},
              {"runs", absl::StrFormat("%d of %.3g s a point", options.runs, options.seconds)}});
  html.Paragraph(kExplained);
  for (const bool scattered : {false, true}) {
    html.Heading(scattered ? "Scattered files, by block size" : "Fresh files, by stripe breadth");
    html.Plot(PlotOf(scattered, false));
    html.Plot(PlotOf(scattered, true));
    html.Table(TableOf(scattered));
  }
  html.Heading("The description for mkfs.reelfs");
  html.Preformatted(toml);
}

}  // namespace reel::bench
