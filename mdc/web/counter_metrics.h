// The counters of "reeladm stat" as metrics. Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "mdc/web/metric_writer.h"
#include "proto/admin.pb.h"

namespace reel::mdc {

// A counter that has no place in the table below is left out; KnowsCounter: it has one.
void WriteCounters(const std::string& volume, const v1::StatReply& stat, MetricWriter& metrics);
bool KnowsCounter(std::string_view name);

}  // namespace reel::mdc
