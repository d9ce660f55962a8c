// What Prometheus is told of one volume: what administrators are told, in numbers.
//
// docs/metrics.md lists every name that is written here; tests/metrics_test.py holds them together.
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "proto/admin.pb.h"
#include "proto/web/metric_writer.h"

namespace reel::mdc {

// As the core and the server of the active controller describe it, at one moment.
struct VolumeFacts {
  v1::ShowReply show;
  v1::StatReply stat;
  v1::WhoReply who;  // with LUNs
  v1::FreeReply free;
  v1::JobsReply jobs;
  v1::BandwidthReply bandwidth;
  struct Quotas {
    std::string kind;  // "user", "group", "tree"
    v1::QuotasReply reply;
  };
  std::vector<Quotas> quotas;  // of those that have limits
};

void WriteVolume(const std::string& volume, const VolumeFacts& facts, MetricWriter& metrics);

}  // namespace reel::mdc
