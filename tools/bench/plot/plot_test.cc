// Reports stay one harmless file, whatever names and numbers they are given.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <regex>

#include "gtest/gtest.h"
#include "tools/bench/plot/axis.h"
#include "tools/bench/plot/html_report.h"
#include "tools/bench/plot/markup.h"
#include "tools/bench/plot/svg_plot.h"

namespace reel::bench {
namespace {

const char* const kHostile[] = {"<script>alert(1)</script>",
                                "\"><img src=x onerror=alert(1)>",
                                "' onload='alert(1)",
                                "</svg></style><script>1</script>",
                                "]]>--><!--",
                                "&lt;b&gt;",
                                "\xff\xfe\x80 not UTF-8",
                                "\xc0\xbc over-long <",
                                "cut \xe2\x82",
                                "\xe2\x80\xae turned round",
                                "line\nline\ttab\x1b[2J\x7f"};

TEST(MarkupTest, NothingThatMeansAnythingIsLeft) {
  for (const char* text : kHostile) {
    const std::string escaped = EscapeMarkup(text);
    EXPECT_EQ(escaped.find_first_of("<>\"'"), std::string::npos) << escaped;
    EXPECT_EQ(std::count_if(escaped.begin(), escaped.end(),
                            [](char c) { return static_cast<unsigned char>(c) < 0x20; }),
              0)
        << escaped;
  }
  EXPECT_EQ(EscapeMarkup("&lt;b&gt;"), "&amp;lt;b&amp;gt;");
  EXPECT_EQ(EscapeMarkup("Größe × 4 €, 𝄞"), "Größe × 4 €, 𝄞");
  EXPECT_EQ(EscapeMarkup("\xe2\x80\xae"), "\xef\xbf\xbd");            // right to left
  EXPECT_EQ(EscapeMarkup("a\xe2\x82"), "a\xef\xbf\xbd\xef\xbf\xbd");  // cut short
  EXPECT_EQ(EscapeMarkup("\xc0\xbc"), "\xef\xbf\xbd\xef\xbf\xbd");    // an over-long '<'
}

TEST(MarkupTest, CoordinatesAreAlwaysNumbers) {
  EXPECT_EQ(Coordinate(1.5), "1.5");
  EXPECT_EQ(Coordinate(200), "200");
  EXPECT_EQ(Coordinate(-0.001), "0");
  EXPECT_EQ(Coordinate(std::nan("")), "0");
  EXPECT_EQ(Coordinate(std::numeric_limits<double>::infinity()), "0");
}

TEST(AxisTest, MarksAreRoundAndHoldAllValues) {
  const Axis axis(0, 93, 0, 100);
  const auto marks = axis.Marks();
  EXPECT_EQ(marks.front().text, "0");
  EXPECT_EQ(marks.back().text, "100");
  EXPECT_EQ(marks[1].text, "20");
  EXPECT_DOUBLE_EQ(axis.Place(50), 50);
  EXPECT_DOUBLE_EQ(axis.Place(1e9), 100);  // what lies outside lies at the end
  EXPECT_GE(Axis(0, 0, 0, 100).Marks().size(), 2u);
  EXPECT_GE(Axis(std::nan(""), std::numeric_limits<double>::infinity(), 0, 1).Marks().size(), 2u);
}

std::string ReportOf(const std::string& name) {
  HtmlReport report(name, name);
  report.Heading(name);
  report.Paragraph(name);
  report.Verdict(name, false);
  report.Facts({{name, name}});
  report.Preformatted(name);
  report.Table({{{name, tools::Table::Align::kLeft}}, {{name}}});
  const double odd = std::nan("");
  report.Plot(
      Timeline({name, name, name}, {{name, {{0, 1}, {odd, odd}}}, {name, {}}}, PlotLimit{1, name}));
  report.Plot(
      Histogram({name, name, name}, {{name, {1, odd, 3, -1}}, {name, {}}}, PlotLimit{2, name}));
  report.Plot(CategoryLines({name, name, name}, {name, name},
                            {{name, {PlotBar{1, 1, odd}, std::nullopt}}, {name, {}}}));
  report.Plot(CategoryBars({name, name, name}, {}, {{name, {}}}));
  return report.ToString();
}

TEST(HtmlReportTest, HostileNamesAddNoElementAndNoAttribute) {
  const auto elements = [](const std::string& html) {
    const std::regex tag("<[a-zA-Z/!][^>]*>");
    return std::distance(std::sregex_iterator(html.begin(), html.end(), tag), {});
  };
  const auto plain = elements(ReportOf("name"));
  for (const char* name : kHostile) {
    const std::string html = ReportOf(name);
    EXPECT_EQ(elements(html), plain) << name;
    EXPECT_EQ(html.find("<script"), std::string::npos);
    EXPECT_EQ(html.find("<img"), std::string::npos);
    EXPECT_EQ(html.find("nan"), std::string::npos);
  }
}

TEST(HtmlReportTest, StandsByItself) {
  const std::string html = ReportOf("name");
  for (const char* outside : {"http://", "https://", "//cdn", "src=", "href=", "@import", "url("}) {
    EXPECT_EQ(html.find(outside), std::string::npos) << outside;
  }
  EXPECT_NE(html.find("default-src 'none'"), std::string::npos);
  EXPECT_NE(html.find("prefers-color-scheme: dark"), std::string::npos);
}

TEST(TimelineTest, TheSlowFrameAmongMillionsIsDrawn) {
  PlotSeries series{"stream", {}};
  for (int i = 0; i < 100'000; ++i) series.points.push_back({i / 100.0, i == 5000 ? 90.0 : 1.0});
  const std::string svg = Timeline({"t", "x", "y"}, {series}, std::nullopt);
  EXPECT_LT(svg.size(), 400'000u);  // as many points as the picture has room for
  // Of all the dots, one is far above the others.
  const std::regex dot("<circle[^>]* cy=\"([0-9.]+)\"");
  std::map<std::string, int> heights;
  for (std::sregex_iterator it(svg.begin(), svg.end(), dot), end; it != end; ++it) {
    ++heights[(*it)[1]];
  }
  ASSERT_EQ(heights.size(), 2u);
  EXPECT_EQ(std::min(heights.begin()->second, heights.rbegin()->second), 1);
}

}  // namespace
}  // namespace reel::bench
