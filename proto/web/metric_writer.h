// Metrics as Prometheus reads them, gathered by name: each name has one line of help, one type, and
// any number of samples with labels. (Prometheus's text format, version 0.0.4.)
//
// Names follow Prometheus's conventions: base units (bytes, seconds), "_total" for counters.
// Threads: externally synchronised.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "prometheus/metric_family.h"
#include "proto/time_histogram.h"

namespace reel {

class MetricWriter {
 public:
  // Of the page that shows them.
  static constexpr std::string_view kType = "text/plain; version=0.0.4; charset=utf-8";
  using Labels = std::vector<std::pair<std::string_view, std::string>>;

  // All samples of a name have one help and one type: REQUIRES.
  void Gauge(std::string_view name, std::string_view help, const Labels& labels, double value);
  void Counter(std::string_view name, std::string_view help, const Labels& labels, double value);
  // `counts`: of each bucket alone; one more than there are bounds, for what lies above all.
  void Histogram(std::string_view name, std::string_view help, const Labels& labels,
                 std::span<const double> bounds, std::span<const std::uint64_t> counts, double sum);

  // Likewise, in seconds.
  void Times(std::string_view name, std::string_view help, const Labels& labels,
             const TimeHistogram& times);

  // In the order in which they came.
  std::string Text() const;

 private:
  prometheus::ClientMetric& Add(std::string_view name, std::string_view help,
                                prometheus::MetricType type, const Labels& labels);

  std::vector<prometheus::MetricFamily> families_;
  absl::flat_hash_map<std::string, std::size_t> places_;  // there, by name
};

}  // namespace reel
