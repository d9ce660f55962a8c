// A report as one HTML file: no script, nothing from other hosts, light or dark as the reader's
// desk is, and fit for paper. All text that it is given is escaped; a policy in the page forbids
// scripts and loading anything, should that ever fail. Thread rule: one thread builds a report.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/bench/plot/report_table.h"

namespace reel::bench {

class HtmlReport {
 public:
  // `subtitle`: what was measured, in a line.
  HtmlReport(std::string title, std::string subtitle);

  void Heading(const std::string& text);
  void Paragraph(const std::string& text);
  // Set apart: what the reader came for. `good` colours it.
  void Verdict(const std::string& text, bool good);
  void Facts(const std::vector<std::pair<std::string, std::string>>& facts);
  void Table(const ReportTable& table);
  void Preformatted(const std::string& text);
  // Of svg_plot.h: markup that is taken as it is.
  void Plot(const std::string& svg) { body_ += "<figure>" + svg + "</figure>\n"; }

  std::string ToString() const;

 private:
  const std::string title_, subtitle_;
  std::string body_;
};

}  // namespace reel::bench
