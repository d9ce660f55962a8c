// What all plots have around them: title, legend, axes, grid. Used by svg_plot.cc alone.
// Thread rule: one thread draws one picture.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "tools/bench/plot/axis.h"
#include "tools/bench/plot/svg_plot.h"

namespace reel::bench {

inline constexpr std::size_t kSeriesColours = 8;

class SvgFrame {
 public:
  SvgFrame(const PlotTexts& texts, const std::vector<std::string>& series);

  // The place of the plot itself.
  double left() const { return 70; }
  double right() const { return 744; }
  double top() const { return top_; }
  double bottom() const { return top_ + 220; }

  void HorizontalGrid(const Axis& y);
  void MarksBelow(const Axis& x);
  void CategoriesBelow(const std::vector<std::string>& categories);
  double CategoryPlace(std::size_t category, std::size_t categories) const;
  void Limit(const Axis& axis, const PlotLimit& limit, bool across);
  // "s0" to "s7": a colour of the page.
  static std::string ClassOf(std::size_t series);
  // Markup of elements, escaped by who draws.
  void Draw(const std::string& element) { body_ += element; }
  std::string ToString() const;

 private:
  const PlotTexts texts_;
  double top_ = 0;
  std::string body_;
};

}  // namespace reel::bench
