#include "tools/bench/plot/svg_plot.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>

#include "absl/strings/str_cat.h"
#include "tools/bench/plot/markup.h"
#include "tools/bench/plot/svg_frame.h"

namespace reel::bench {
namespace {

constexpr std::size_t kBins = 32;

template <typename Series>
std::vector<std::string> NamesOf(const std::vector<Series>& series) {
  std::vector<std::string> names;
  for (const Series& one : series) names.push_back(one.name);
  return names;
}

std::string Rect(const std::string& css, double x, double y, double width, double height) {
  return absl::StrCat("<rect class=\"", css, "\" x=\"", Coordinate(x), "\" y=\"", Coordinate(y),
                      "\" width=\"", Coordinate(std::max(0.0, width)), "\" height=\"",
                      Coordinate(std::max(0.0, height)), "\"/>\n");
}

std::string Dot(const std::string& css, double x, double y, double radius) {
  return absl::StrCat("<circle class=\"", css, "\" cx=\"", Coordinate(x), "\" cy=\"", Coordinate(y),
                      "\" r=\"", Coordinate(radius), "\"/>\n");
}

std::string Stroke(const std::string& css, double x1, double y1, double x2, double y2) {
  return absl::StrCat("<line class=\"", css, "\" x1=\"", Coordinate(x1), "\" y1=\"", Coordinate(y1),
                      "\" x2=\"", Coordinate(x2), "\" y2=\"", Coordinate(y2), "\"/>\n");
}

double MostOf(const std::vector<PlotBars>& series) {
  double most = 0;
  for (const PlotBars& one : series) {
    for (const auto& bar : one.bars) {
      if (bar) most = std::max({most, bar->value, bar->most});
    }
  }
  return most;
}

}  // namespace

std::string Timeline(const PlotTexts& texts, const std::vector<PlotSeries>& series,
                     const std::optional<PlotLimit>& limit) {
  SvgFrame frame(texts, NamesOf(series));
  double x_most = 0, y_most = limit ? limit->value : 0;
  for (const PlotSeries& one : series) {
    for (const PlotPoint& point : one.points) {
      x_most = std::max(x_most, point.x);
      y_most = std::max(y_most, point.y);
    }
  }
  const Axis x(0, x_most, frame.left(), frame.right());
  const Axis y(0, y_most, frame.bottom(), frame.top());
  frame.HorizontalGrid(y);
  frame.MarksBelow(x);
  for (std::size_t i = 0; i < series.size(); ++i) {
    std::map<long, double> columns;
    for (const PlotPoint& point : series[i].points) {
      double& highest = columns[std::lround(x.Place(point.x) * 2)];
      highest = std::max(highest, point.y);
    }
    for (const auto& [column, value] : columns) {
      const double radius = columns.size() > 300 ? 1.6 : 2.4;
      frame.Draw(Dot("fill " + SvgFrame::ClassOf(i), static_cast<double>(column) / 2,
                     y.Place(value), radius));
    }
  }
  if (limit) frame.Limit(y, *limit, true);
  return frame.ToString();
}

std::string Histogram(const PlotTexts& texts, const std::vector<PlotValues>& series,
                      const std::optional<PlotLimit>& limit) {
  SvgFrame frame(texts, NamesOf(series));
  double most = limit ? limit->value : 0;
  for (const PlotValues& one : series) {
    for (const double value : one.values) most = std::max(most, value);
  }
  const Axis x(0, most, frame.left(), frame.right());
  std::vector<std::vector<std::size_t>> counts(series.size(), std::vector<std::size_t>(kBins));
  std::size_t highest = 0;
  for (std::size_t i = 0; i < series.size(); ++i) {
    for (const double value : series[i].values) {
      const double share = std::isfinite(value) ? std::clamp(value / x.most(), 0.0, 1.0) : 0;
      const auto bin = std::min(kBins - 1, static_cast<std::size_t>(share * kBins));
      highest = std::max(highest, ++counts[i][bin]);
    }
  }
  const Axis y(0, static_cast<double>(highest), frame.bottom(), frame.top());
  frame.HorizontalGrid(y);
  frame.MarksBelow(x);
  const double bin_width = (frame.right() - frame.left()) / kBins;
  const double width =
      (bin_width - 2) / static_cast<double>(std::max<std::size_t>(1, series.size()));
  for (std::size_t i = 0; i < series.size(); ++i) {
    for (std::size_t bin = 0; bin < kBins; ++bin) {
      if (counts[i][bin] == 0) continue;
      // One of a thousand must be seen: it is what the plot is looked at for.
      const double place =
          std::min(y.Place(static_cast<double>(counts[i][bin])), frame.bottom() - 2);
      frame.Draw(Rect(
          "fill " + SvgFrame::ClassOf(i),
          frame.left() + bin_width * static_cast<double>(bin) + 1 + width * static_cast<double>(i),
          place, width, frame.bottom() - place));
    }
  }
  if (limit) frame.Limit(x, *limit, false);
  return frame.ToString();
}

std::string CategoryLines(const PlotTexts& texts, const std::vector<std::string>& categories,
                          const std::vector<PlotBars>& series) {
  SvgFrame frame(texts, NamesOf(series));
  const Axis y(0, MostOf(series), frame.bottom(), frame.top());
  frame.HorizontalGrid(y);
  frame.CategoriesBelow(categories);
  for (std::size_t i = 0; i < series.size(); ++i) {
    const std::string css = SvgFrame::ClassOf(i);
    std::string path, dots;
    for (std::size_t c = 0; c < categories.size() && c < series[i].bars.size(); ++c) {
      const auto& bar = series[i].bars[c];
      if (!bar) continue;
      const double x = frame.CategoryPlace(c, categories.size());
      absl::StrAppend(&path, path.empty() ? "M" : "L", Coordinate(x), " ",
                      Coordinate(y.Place(bar->value)));
      absl::StrAppend(&dots, Stroke("line " + css, x, y.Place(bar->least), x, y.Place(bar->most)),
                      Dot("fill " + css, x, y.Place(bar->value), 3.2));
    }
    // The second round of colours is dashed.
    const char* dashed = i >= kSeriesColours ? " stroke-dasharray=\"5 4\"" : "";
    if (!path.empty()) {
      frame.Draw(
          absl::StrCat("<path class=\"line ", css, "\"", dashed, " d=\"", path, "\"/>\n", dots));
    }
  }
  return frame.ToString();
}

std::string CategoryBars(const PlotTexts& texts, const std::vector<std::string>& categories,
                         const std::vector<PlotBars>& series) {
  SvgFrame frame(texts, NamesOf(series));
  const Axis y(0, MostOf(series), frame.bottom(), frame.top());
  frame.HorizontalGrid(y);
  frame.CategoriesBelow(categories);
  const auto count = static_cast<double>(std::max<std::size_t>(1, series.size()));
  const double room = (frame.right() - frame.left()) /
                      static_cast<double>(std::max<std::size_t>(1, categories.size())) * 0.8;
  const double width = std::min(40.0, room / count);
  for (std::size_t i = 0; i < series.size(); ++i) {
    for (std::size_t c = 0; c < categories.size() && c < series[i].bars.size(); ++c) {
      const auto& bar = series[i].bars[c];
      if (!bar) continue;
      const double x =
          frame.CategoryPlace(c, categories.size()) + width * (static_cast<double>(i) - count / 2);
      frame.Draw(Rect("fill " + SvgFrame::ClassOf(i), x, y.Place(bar->value), width - 2,
                      frame.bottom() - y.Place(bar->value)));
      frame.Draw(Stroke("whisker", x + width / 2 - 1, y.Place(bar->least), x + width / 2 - 1,
                        y.Place(bar->most)));
    }
  }
  return frame.ToString();
}

}  // namespace reel::bench
