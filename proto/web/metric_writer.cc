#include "proto/web/metric_writer.h"

#include <algorithm>
#include <array>
#include <limits>

#include "prometheus/text_serializer.h"

namespace reel {

prometheus::ClientMetric& MetricWriter::Add(std::string_view name, std::string_view help,
                                            prometheus::MetricType type, const Labels& labels) {
  const auto [place, is_new] = places_.try_emplace(std::string(name), families_.size());
  if (is_new) families_.push_back({std::string(name), std::string(help), type, {}});
  prometheus::ClientMetric& metric = families_[place->second].metric.emplace_back();
  for (const auto& [label, value] : labels) metric.label.push_back({std::string(label), value});
  return metric;
}

void MetricWriter::Gauge(std::string_view name, std::string_view help, const Labels& labels,
                         double value) {
  Add(name, help, prometheus::MetricType::Gauge, labels).gauge.value = value;
}

void MetricWriter::Counter(std::string_view name, std::string_view help, const Labels& labels,
                           double value) {
  Add(name, help, prometheus::MetricType::Counter, labels).counter.value = value;
}

void MetricWriter::Histogram(std::string_view name, std::string_view help, const Labels& labels,
                             std::span<const double> bounds, std::span<const std::uint64_t> counts,
                             double sum) {
  prometheus::ClientMetric::Histogram& histogram =
      Add(name, help, prometheus::MetricType::Histogram, labels).histogram;
  std::uint64_t so_far = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    so_far += counts[i];
    const double bound = i < bounds.size() ? bounds[i] : std::numeric_limits<double>::infinity();
    histogram.bucket.push_back({so_far, bound});
  }
  histogram.sample_count = so_far;
  histogram.sample_sum = sum;
}

void MetricWriter::Times(std::string_view name, std::string_view help, const Labels& labels,
                         const TimeHistogram& times) {
  std::array<double, TimeHistogram::kBoundsUs.size()> bounds;
  std::ranges::transform(TimeHistogram::kBoundsUs, bounds.begin(),
                         [](std::uint64_t us) { return static_cast<double>(us) / 1e6; });
  Histogram(name, help, labels, bounds, times.counts, static_cast<double>(times.sum_us) / 1e6);
}

std::string MetricWriter::Text() const {
  return prometheus::TextSerializer().Serialize(families_);
}

}  // namespace reel
