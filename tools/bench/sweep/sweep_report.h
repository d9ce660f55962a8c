// What a sweep found, as tables, JSON (docs/schema/reel-bench.json) and HTML. Pure.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "tools/bench/plot/html_report.h"
#include "tools/bench/sweep/sweep_advice.h"
#include "tools/bench/sweep/sweep_grid.h"

namespace reel::bench {

struct SweepReport {
  std::vector<std::string> luns{};  // as people may see them
  std::uint64_t area_bytes = 0;
  SweepOptions options{};
  std::vector<SweepResult> results{};
  std::vector<Advice> advice{};      // for reading, writing and both
  Purpose purpose = Purpose::kBoth;  // that the description is for
  std::string toml{};

  std::string ToText() const;
  nlohmann::ordered_json ToJson() const;
  void ToHtml(HtmlReport& html) const;

 private:
  // A row a work, a column a size; MB a second.
  ReportTable TableOf(bool scattered) const;
  ReportTable AdviceTable() const;
  std::string PlotOf(bool scattered, bool write) const;
  // Empty: nothing to warn of.
  std::string Warning() const;
};

}  // namespace reel::bench
