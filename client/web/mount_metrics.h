// What Prometheus is told of one mount.
//
// docs/metrics.md lists every name that is written here; tests/metrics_test.py holds them together.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/data/file_data.h"
#include "client/fuse/request/request_times.h"
#include "client/session/session.h"
#include "proto/session.pb.h"
#include "proto/web/metric_writer.h"
#include "volume/format/descriptor.h"

namespace reel::client {

// At one moment, about.
struct MountFacts {
  std::string volume, mount_point;
  bool connected = false;
  std::uint64_t lease_left_ms = 0;
  Session::Load session;
  FileData::Load data;
  FileData::PrefetchCounts prefetched;
  v1::Renew told;  // as the controller is told of LUNs, and of the way to the kernel
  std::vector<RequestTimes::Kind> requests;
};

// `descriptor`: of the volume as it was mounted, for the names of its LUNs.
void WriteMount(const MountFacts& facts, const VolumeDescriptor& descriptor, MetricWriter& metrics);

}  // namespace reel::client
