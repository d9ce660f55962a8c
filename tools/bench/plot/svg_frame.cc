#include "tools/bench/plot/svg_frame.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "tools/bench/plot/markup.h"

namespace reel::bench {
namespace {

constexpr double kCharacterWidth = 6.6;  // about, of 12 px
constexpr double kLegendRow = 18;
constexpr double kWidth = 760;
constexpr std::size_t kMostText = 48;

// Names may be longer than any picture.
std::string Short(const std::string& text, std::size_t most = kMostText) {
  if (text.size() <= most) return text;
  std::size_t end = most;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end) + "…";
}

std::string TextAt(double x, double y, const char* anchor, const std::string& text,
                   const char* more = "") {
  return absl::StrCat("<text x=\"", Coordinate(x), "\" y=\"", Coordinate(y), "\" text-anchor=\"",
                      anchor, "\"", more, ">", EscapeMarkup(Short(text)), "</text>\n");
}

std::string LineAt(double x1, double y1, double x2, double y2, const char* css) {
  return absl::StrCat("<line class=\"", css, "\" x1=\"", Coordinate(x1), "\" y1=\"", Coordinate(y1),
                      "\" x2=\"", Coordinate(x2), "\" y2=\"", Coordinate(y2), "\"/>\n");
}

}  // namespace

SvgFrame::SvgFrame(const PlotTexts& texts, const std::vector<std::string>& series) : texts_(texts) {
  double x = left(), y = 40;
  for (std::size_t i = 0; i < series.size() && series.size() > 1; ++i) {
    const double width =
        30 + kCharacterWidth * static_cast<double>(std::min(series[i].size(), kMostText + 3));
    if (x > left() && x + width > right()) {
      x = left();
      y += kLegendRow;
    }
    Draw(absl::StrCat("<rect class=\"fill ", ClassOf(i), "\" x=\"", Coordinate(x), "\" y=\"",
                      Coordinate(y - 9), "\" width=\"12\" height=\"10\" rx=\"2\"/>\n"));
    Draw(TextAt(x + 17, y, "start", series[i]));
    x += width;
  }
  top_ = y + (series.size() > 1 ? 16 : -6);
}

std::string SvgFrame::ClassOf(std::size_t series) {
  return absl::StrCat("s", series % kSeriesColours);
}

void SvgFrame::HorizontalGrid(const Axis& y) {
  for (const Axis::Mark& mark : y.Marks()) {
    Draw(LineAt(left(), mark.place, right(), mark.place, "grid"));
    Draw(TextAt(left() - 8, mark.place + 4, "end", mark.text));
  }
}

void SvgFrame::MarksBelow(const Axis& x) {
  Draw(LineAt(left(), bottom(), right(), bottom(), "axis"));
  for (const Axis::Mark& mark : x.Marks()) {
    Draw(LineAt(mark.place, bottom(), mark.place, bottom() + 4, "axis"));
    Draw(TextAt(mark.place, bottom() + 18, "middle", mark.text));
  }
}

double SvgFrame::CategoryPlace(std::size_t category, std::size_t categories) const {
  const double width =
      (right() - left()) / static_cast<double>(std::max<std::size_t>(1, categories));
  return left() + width * (static_cast<double>(category) + 0.5);
}

void SvgFrame::CategoriesBelow(const std::vector<std::string>& categories) {
  Draw(LineAt(left(), bottom(), right(), bottom(), "axis"));
  const double room =
      (right() - left()) / static_cast<double>(std::max<std::size_t>(1, categories.size()));
  // Two rows of them where one would not do; and not every one where there are very many.
  constexpr double kLeastRoom = 40;
  const auto step = static_cast<std::size_t>(std::ceil(kLeastRoom / std::min(room, kLeastRoom)));
  const auto characters =
      static_cast<std::size_t>(room * static_cast<double>(step) / kCharacterWidth);
  for (std::size_t i = 0; i < categories.size(); i += step) {
    const bool long_one = categories[i].size() > characters;
    const std::string text = long_one ? Short(categories[i], 2 * characters - 4) : categories[i];
    const double half = kCharacterWidth * static_cast<double>(text.size()) / 2;
    const double x = std::min(CategoryPlace(i, categories.size()), kWidth - half);
    const double down = long_one && i / step % 2 == 1 ? 14 : 0;
    Draw(TextAt(std::max(x, half), bottom() + 18 + down, "middle", text));
  }
}

void SvgFrame::Limit(const Axis& axis, const PlotLimit& limit, bool across) {
  const double place = axis.Place(limit.value);
  if (across) {
    Draw(LineAt(left(), place, right(), place, "limit"));
    Draw(TextAt(right() - 4, place - 5, "end", limit.text, " class=\"limit-text\""));
  } else {
    Draw(LineAt(place, top(), place, bottom(), "limit"));
    Draw(TextAt(place - 5, top() + 12, "end", limit.text, " class=\"limit-text\""));
  }
}

std::string SvgFrame::ToString() const {
  const double height = bottom() + 56;
  std::string svg = absl::StrCat("<svg class=\"plot\" viewBox=\"0 0 ", Coordinate(kWidth), " ",
                                 Coordinate(height), "\" role=\"img\" aria-label=\"",
                                 EscapeMarkup(texts_.title), "\">\n");
  absl::StrAppend(&svg, TextAt(left(), 18, "start", texts_.title, " class=\"title\""));
  absl::StrAppend(&svg, TextAt((left() + right()) / 2, height - 6, "middle", texts_.x_title,
                               " class=\"axis-title\""));
  const double middle = (top() + bottom()) / 2;
  absl::StrAppend(
      &svg, "<text class=\"axis-title\" text-anchor=\"middle\" transform=\"translate(14 ",
      Coordinate(middle), ") rotate(-90)\">", EscapeMarkup(texts_.y_title), "</text>\n");
  return absl::StrCat(svg, body_, "</svg>\n");
}

}  // namespace reel::bench
