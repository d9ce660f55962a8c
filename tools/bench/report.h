// What was measured, as a table for people and as JSON: medians with their spread, and the first
// side's share of each other one, taken run by run (the sides ran next to each other in each run,
// so what the machine does meanwhile falls on both). Thread rule: a plain value.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "tools/bench/load.h"
#include "tools/bench/plot/html_report.h"

namespace reel::bench {

struct Spread {
  double median = 0, least = 0, most = 0;
};
// REQUIRES: not empty.
Spread SpreadOf(std::vector<double> values);

struct Row {
  std::string name;
  // [side][run]
  std::vector<std::vector<Measure>> measures;

  bool counts_bytes() const { return measures.front().front().bytes > 0; }
  // Bytes or operations a second.
  std::vector<double> RatesOf(std::size_t side) const;
  // The first side's rate over that of `side`.
  Spread ShareOf(std::size_t side) const;
  // CPU-seconds of the whole machine per 10^9 bytes, or per 10^6 operations.
  double CpuOf(std::size_t side) const;
};

struct Report {
  std::vector<std::string> sides;
  std::vector<Row> rows;
  std::vector<std::size_t> clients{};  // of each side, working at one time; none: one each
  std::string command{};               // that made it, for who reads the JSON

  // Where sides are named "fuse" (a file system that moves no data) and "raw" (the file system of
  // the LUN images), their costs add up on the CPU: no client in user space is faster than
  // 1 / (1/fuse + 1/raw). The first side's share of it; no value without both.
  bool has_bound() const;
  Spread ShareOfBound(const Row& row) const;

  ReportTable ToTable() const;
  std::string ToText() const { return ToTable().ToText(); }
  // docs/schema/reel-bench.json
  nlohmann::ordered_json ToJson() const;
  void ToHtml(HtmlReport& html) const;

 private:
  std::size_t ClientsOf(std::size_t side) const { return clients.empty() ? 1 : clients[side]; }
  std::string TitleOf(std::size_t side) const;
  std::string PlotOf(bool bytes) const;
};

}  // namespace reel::bench
