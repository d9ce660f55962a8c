// What `reel-bench frames` found, as a table, JSON (docs/schema/reel-bench.json) and HTML. Pure.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "tools/bench/frames/frame_figures.h"
#include "tools/bench/frames/frames_run.h"
#include "tools/bench/plot/html_report.h"

namespace reel::bench {

class FramesReport {
 public:
  FramesReport(FramesRun run, const Required& required);

  bool enough() const { return shortfalls_.empty(); }
  std::string ToText() const;
  nlohmann::ordered_json ToJson() const;
  void ToHtml(HtmlReport& html) const;

 private:
  ReportTable StreamTable() const;
  ReportTable SlowTable() const;
  std::string Subject() const;  // "4k-dpx, 35.4 MB a frame, 24 frames a second, …"
  std::string Verdict() const;

  const FramesRun run_;
  const Required required_;
  std::vector<FrameFigures> figures_;  // by stream
  std::vector<std::string> shortfalls_;
};

}  // namespace reel::bench
