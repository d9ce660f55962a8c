#include "tools/bench/plot/html_report.h"

#include "absl/strings/str_cat.h"
#include "tools/bench/plot/markup.h"

namespace reel::bench {
namespace {

constexpr char kHead[] = R"(<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<style>
:root { --page: #fbfbfa; --card: #fff; --ink: #1c1d1f; --soft: #5d6269; --edge: #dedfe1;
 --grid: #e8e9eb; --limit: #c02626; --good: #14713d; --bad: #b42318;
 --c0: #2a63d4; --c1: #c96a04; --c2: #16855b; --c3: #b4307e; --c4: #6f49c8; --c5: #0d859c;
 --c6: #9a5b2e; --c7: #62752b; }
@media (prefers-color-scheme: dark) { :root { --page: #16181b; --card: #1e2125; --ink: #e7e8ea;
 --soft: #a2a8b0; --edge: #34383e; --grid: #2d3137; --limit: #ff7b72; --good: #57c785;
 --bad: #ff8a80; --c0: #7aa7ff; --c1: #f5a64b; --c2: #5fcf9f; --c3: #f08ac4; --c4: #b59cff;
 --c5: #5ccbe0; --c6: #d8a27a; --c7: #b6c870; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 74rem; padding: 2rem 1.25rem 4rem; background: var(--page);
 color: var(--ink); font: 15px/1.55 system-ui, sans-serif; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.15rem; margin: 2.2rem 0 .6rem; }
.subtitle { color: var(--soft); margin: .2rem 0 1.4rem; }
p { max-width: 46rem; }
.verdict { border-left: 4px solid var(--bad); background: var(--card); padding: .7rem 1rem;
 margin: 1rem 0; max-width: none; } .verdict.good { border-color: var(--good); }
.scroll { overflow-x: auto; border: 1px solid var(--edge); border-radius: 8px;
 background: var(--card); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .4rem .75rem; text-align: left; white-space: nowrap; }
th { white-space: normal; color: var(--soft); font-weight: 600; font-size: .85rem;
 border-bottom: 1px solid var(--edge); }
tbody tr + tr td { border-top: 1px solid var(--grid); } .right { text-align: right; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1.25rem; margin: 0; }
dt { color: var(--soft); } dd { margin: 0; overflow-wrap: anywhere; }
figure { margin: 1rem 0; padding: .75rem; background: var(--card); border: 1px solid var(--edge);
 border-radius: 8px; }
pre { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 1rem;
 overflow-x: auto; font-size: 13px; }
svg { display: block; width: 100%; height: auto; } svg text { fill: var(--soft); font-size: 12px; }
svg .title { fill: var(--ink); font-size: 14px; font-weight: 600; }
svg .grid { stroke: var(--grid); } svg .axis { stroke: var(--soft); }
svg .limit { stroke: var(--limit); stroke-dasharray: 6 4; } svg .limit-text { fill: var(--limit); }
svg .line { fill: none; stroke-width: 2; } svg .whisker { stroke: var(--ink); stroke-width: 1.2; }
)";

constexpr char kSeries[] = R"(svg .fill.s0 { fill: var(--c0); } svg .line.s0 { stroke: var(--c0); }
svg .fill.s1 { fill: var(--c1); } svg .line.s1 { stroke: var(--c1); }
svg .fill.s2 { fill: var(--c2); } svg .line.s2 { stroke: var(--c2); }
svg .fill.s3 { fill: var(--c3); } svg .line.s3 { stroke: var(--c3); }
svg .fill.s4 { fill: var(--c4); } svg .line.s4 { stroke: var(--c4); }
svg .fill.s5 { fill: var(--c5); } svg .line.s5 { stroke: var(--c5); }
svg .fill.s6 { fill: var(--c6); } svg .line.s6 { stroke: var(--c6); }
svg .fill.s7 { fill: var(--c7); } svg .line.s7 { stroke: var(--c7); }
@media print { body { max-width: none; } figure, tr { break-inside: avoid; } }
</style>
)";

std::string Element(const char* name, const std::string& text) {
  return absl::StrCat("<", name, ">", EscapeMarkup(text), "</", name, ">");
}

std::string Cell(const char* name, const std::string& text, tools::Table::Align align) {
  const char* css = align == tools::Table::Align::kRight ? " class=\"right\"" : "";
  return absl::StrCat("<", name, css, ">", EscapeMarkup(text), "</", name, ">");
}

}  // namespace

HtmlReport::HtmlReport(std::string title, std::string subtitle)
    : title_(std::move(title)), subtitle_(std::move(subtitle)) {}

void HtmlReport::Heading(const std::string& text) {
  body_ += Element("h2", text) + "\n";
}

void HtmlReport::Paragraph(const std::string& text) {
  body_ += Element("p", text) + "\n";
}

void HtmlReport::Verdict(const std::string& text, bool good) {
  absl::StrAppend(&body_, "<p class=\"verdict", good ? " good" : "", "\">", EscapeMarkup(text),
                  "</p>\n");
}

void HtmlReport::Facts(const std::vector<std::pair<std::string, std::string>>& facts) {
  body_ += "<dl>\n";
  for (const auto& [name, value] : facts) {
    absl::StrAppend(&body_, Element("dt", name), Element("dd", value), "\n");
  }
  body_ += "</dl>\n";
}

void HtmlReport::Table(const ReportTable& table) {
  body_ += "<div class=\"scroll\"><table>\n<thead><tr>";
  for (const auto& column : table.columns) body_ += Cell("th", column.title, column.align);
  body_ += "</tr></thead>\n<tbody>\n";
  for (const auto& row : table.rows) {
    body_ += "<tr>";
    for (std::size_t i = 0; i < row.size() && i < table.columns.size(); ++i) {
      body_ += Cell("td", row[i], table.columns[i].align);
    }
    body_ += "</tr>\n";
  }
  body_ += "</tbody></table></div>\n";
}

void HtmlReport::Preformatted(const std::string& text) {
  // Line by line: escaping takes control characters away, line ends too.
  body_ += "<pre>";
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    body_ += EscapeMarkup(text.substr(begin, end - begin)) + "\n";
    begin = end + 1;
  }
  body_ += "</pre>\n";
}

std::string HtmlReport::ToString() const {
  return absl::StrCat("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n", kHead, kSeries,
                      Element("title", title_), "\n</head>\n<body>\n", Element("h1", title_),
                      "\n<p class=\"subtitle\">", EscapeMarkup(subtitle_), "</p>\n", body_,
                      "</body>\n</html>\n");
}

}  // namespace reel::bench
