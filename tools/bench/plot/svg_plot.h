// Plots as SVG that stands within an HTML report: it has no styles of its own but the classes of
// html_report.cc, so that it is light or dark as the page is. Pure functions. Text is escaped here.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace reel::bench {

struct PlotTexts {
  std::string title, x_title, y_title;
};
// A line across the plot that means something.
struct PlotLimit {
  double value = 0;
  std::string text;
};

struct PlotPoint {
  double x = 0, y = 0;
};
struct PlotSeries {
  std::string name;
  std::vector<PlotPoint> points;
};
// Of many points that fall on one column of the picture the highest is drawn: what is slow is seen.
std::string Timeline(const PlotTexts& texts, const std::vector<PlotSeries>& series,
                     const std::optional<PlotLimit>& limit);

struct PlotValues {
  std::string name;
  std::vector<double> values;
};
// How many values are how large, in bins of one width; the series beside each other in each bin.
std::string Histogram(const PlotTexts& texts, const std::vector<PlotValues>& series,
                      const std::optional<PlotLimit>& limit);

// A value with its spread at each category. Values that are not there are left out.
struct PlotBar {
  double value = 0, least = 0, most = 0;
};
struct PlotBars {
  std::string name;
  std::vector<std::optional<PlotBar>> bars;  // by category
};
// Lines through the categories, which have an order.
std::string CategoryLines(const PlotTexts& texts, const std::vector<std::string>& categories,
                          const std::vector<PlotBars>& series);
// Bars from zero, which have none.
std::string CategoryBars(const PlotTexts& texts, const std::vector<std::string>& categories,
                         const std::vector<PlotBars>& series);

}  // namespace reel::bench
