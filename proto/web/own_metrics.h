// What every program says of itself on its page of metrics. Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "proto/tls/tls.h"
#include "proto/web/metric_writer.h"

namespace reel {

// "reelfs_build_info".
void WriteBuild(std::string_view program, const std::string& version, const std::string& host,
                MetricWriter& metrics);
// "reelfs_certificate_expiry_timestamp_seconds".
void WriteCertificate(const TlsMaterial& own, MetricWriter& metrics);

}  // namespace reel
