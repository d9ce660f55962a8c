#include "tools/bench/report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "nlohmann/json.hpp"
#include "tools/bench/plot/svg_plot.h"
#include "tools/lib/table.h"

namespace reel::bench {
namespace {

std::size_t SideNamed(const std::vector<std::string>& sides, std::string_view name) {
  return static_cast<std::size_t>(std::find(sides.begin() + 1, sides.end(), name) - sides.begin());
}

std::string RateText(const Spread& rate, bool bytes) {
  const double unit = bytes ? 1e6 : 1;
  return absl::StrFormat("%.0f %s (%.0f-%.0f)", rate.median / unit, bytes ? "MB/s" : "/s",
                         rate.least / unit, rate.most / unit);
}

std::string ShareText(const Spread& share) {
  return absl::StrFormat("%.2f (%.2f-%.2f)", share.median, share.least, share.most);
}

nlohmann::ordered_json ToJsonValue(const Spread& spread) {
  return {{"median", spread.median}, {"least", spread.least}, {"most", spread.most}};
}

}  // namespace

Spread SpreadOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
  return {median, values.front(), values.back()};
}

std::vector<double> Row::RatesOf(std::size_t side) const {
  std::vector<double> rates;
  for (const Measure& measure : measures[side]) {
    rates.push_back((counts_bytes() ? measure.bytes : measure.operations) / measure.seconds);
  }
  return rates;
}

Spread Row::ShareOf(std::size_t side) const {
  std::vector<double> shares = RatesOf(0);
  const std::vector<double> others = RatesOf(side);
  for (std::size_t run = 0; run < shares.size(); ++run) shares[run] /= others[run];
  return SpreadOf(std::move(shares));
}

double Row::CpuOf(std::size_t side) const {
  std::vector<double> costs;
  for (const Measure& measure : measures[side]) {
    costs.push_back(measure.cpu_seconds /
                    (counts_bytes() ? measure.bytes / 1e9 : measure.operations / 1e6));
  }
  return SpreadOf(std::move(costs)).median;
}

bool Report::has_bound() const {
  return SideNamed(sides, "fuse") < sides.size() && SideNamed(sides, "raw") < sides.size();
}

Spread Report::ShareOfBound(const Row& row) const {
  std::vector<double> shares = row.RatesOf(0);
  const std::vector<double> fuse = row.RatesOf(SideNamed(sides, "fuse"));
  const std::vector<double> raw = row.RatesOf(SideNamed(sides, "raw"));
  for (std::size_t run = 0; run < shares.size(); ++run) {
    shares[run] *= 1 / fuse[run] + 1 / raw[run];
  }
  return SpreadOf(std::move(shares));
}

std::string Report::TitleOf(std::size_t side) const {
  if (ClientsOf(side) == 1) return sides[side];
  return absl::StrCat(sides[side], " (", ClientsOf(side), " clients)");
}

ReportTable Report::ToTable() const {
  using tools::Table;
  std::vector<Table::Column> columns = {{"work", Table::Align::kLeft}};
  for (std::size_t side = 0; side < sides.size(); ++side) {
    columns.push_back({TitleOf(side), Table::Align::kRight});
  }
  for (std::size_t side = 1; side < sides.size(); ++side) {
    columns.push_back({absl::StrCat("of ", sides[side]), Table::Align::kRight});
  }
  if (has_bound()) columns.push_back({"of the bound", Table::Align::kRight});
  columns.push_back({"CPU-s/GB or /M", Table::Align::kRight});
  ReportTable table{std::move(columns), {}};
  for (const Row& row : rows) {
    std::vector<std::string> cells = {row.name};
    for (std::size_t side = 0; side < sides.size(); ++side) {
      cells.push_back(RateText(SpreadOf(row.RatesOf(side)), row.counts_bytes()));
    }
    for (std::size_t side = 1; side < sides.size(); ++side) {
      cells.push_back(ShareText(row.ShareOf(side)));
    }
    if (has_bound()) cells.push_back(ShareText(ShareOfBound(row)));
    cells.push_back(absl::StrFormat("%.2f", row.CpuOf(0)));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

std::string Report::PlotOf(bool bytes) const {
  std::vector<std::string> categories;
  std::vector<PlotBars> series;
  for (std::size_t side = 0; side < sides.size(); ++side) series.push_back({TitleOf(side), {}});
  const double unit = bytes ? 1e6 : 1;
  for (const Row& row : rows) {
    if (row.counts_bytes() != bytes) continue;
    categories.push_back(row.name);
    for (std::size_t side = 0; side < sides.size(); ++side) {
      const Spread rate = SpreadOf(row.RatesOf(side));
      series[side].bars.push_back(PlotBar{rate.median / unit, rate.least / unit, rate.most / unit});
    }
  }
  if (categories.empty()) return "";
  return CategoryBars(
      {bytes ? "Rates of I/O" : "Rates of operations", "", bytes ? "MB/s" : "operations/s"},
      categories, series);
}

void Report::ToHtml(HtmlReport& html) const {
  html.Paragraph(
      "Medians of all runs, with the least and the most of them. \"of\" is the first directory's "
      "share of another one, taken run by run.");
  html.Table(ToTable());
  for (const bool bytes : {true, false}) {
    const std::string plot = PlotOf(bytes);
    if (!plot.empty()) html.Plot(plot);
  }
}

nlohmann::ordered_json Report::ToJson() const {
  nlohmann::ordered_json json = {{"command", command},
                                 {"sides", sides},
                                 {"clients", nlohmann::ordered_json::array()},
                                 {"rows", nlohmann::ordered_json::array()}};
  for (std::size_t side = 0; side < sides.size(); ++side) {
    json["clients"].push_back(ClientsOf(side));
  }
  for (const Row& row : rows) {
    nlohmann::ordered_json entry = {{"work", row.name},
                                    {"unit", row.counts_bytes() ? "bytes/s" : "operations/s"}};
    for (std::size_t side = 0; side < sides.size(); ++side) {
      nlohmann::ordered_json& one = entry["sides"][sides[side]];
      one["rate"] = ToJsonValue(SpreadOf(row.RatesOf(side)));
      one[row.counts_bytes() ? "cpu_seconds_per_gb" : "cpu_seconds_per_million"] = row.CpuOf(side);
      if (side > 0) one["share"] = ToJsonValue(row.ShareOf(side));
    }
    if (has_bound()) entry["share_of_bound"] = ToJsonValue(ShareOfBound(row));
    json["rows"].push_back(std::move(entry));
  }
  return json;
}

}  // namespace reel::bench
