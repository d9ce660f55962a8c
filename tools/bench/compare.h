// Two results of reel-bench (its --json) beside each other: what is faster, what is slower, and
// whether the runs differ by more than that anyway. Pure.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"
#include "tools/bench/plot/html_report.h"
#include "tools/bench/report.h"

namespace reel::bench {

// A figure that can be compared.
struct Figure {
  std::string name;  // the same in both results
  std::string unit;
  bool more_is_better = true;
  Spread value;
};
// Of the result of any command but `compare`. INVALID_ARGUMENT when it is none. Safe on any JSON.
absl::StatusOr<std::vector<Figure>> FiguresIn(const nlohmann::ordered_json& result);

struct Difference {
  enum class Kind {
    kEqual,   // within the tolerance
    kFaster,  // beyond it, and the spreads do not meet
    kSlower,
    kUnclear,  // beyond it, but the runs of the two overlap
  };
  Figure before, after;
  double change = 0;  // of what is better: 0.1 is a tenth better, -0.1 a tenth worse
  Kind kind = Kind::kEqual;
};

class Comparison {
 public:
  // By name; `tolerance`: 0.1 is a tenth.
  Comparison(const std::vector<Figure>& before, const std::vector<Figure>& after, double tolerance);

  bool any_slower() const;
  bool empty() const { return differences_.empty(); }
  std::string ToText() const;
  nlohmann::ordered_json ToJson() const;
  void ToHtml(HtmlReport& html) const;
  const std::vector<Difference>& differences() const { return differences_; }

 private:
  ReportTable ToTable() const;
  std::string Verdict() const;

  const double tolerance_;
  std::vector<Difference> differences_;
  std::vector<std::string> only_before_, only_after_;
};

}  // namespace reel::bench
