// The counters of "reeladm stat" as metrics. Threads: pure functions.
#pragma once

#include <string>

#include "proto/admin.pb.h"
#include "proto/web/metric_writer.h"

namespace reel::mdc {

// A counter that has no metric is left out (tests/metrics_test.py finds such).
void WriteCounters(const std::string& volume, const v1::StatReply& stat, MetricWriter& metrics);

}  // namespace reel::mdc
