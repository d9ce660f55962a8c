#include "proto/web/own_metrics.h"

namespace reel {

void WriteBuild(std::string_view program, const std::string& version, const std::string& host,
                MetricWriter& metrics) {
  metrics.Gauge("reelfs_build_info", "The release that a program is of; always 1.",
                {{"program", std::string(program)}, {"version", version}, {"host", host}}, 1);
}

void WriteCertificate(const TlsMaterial& own, MetricWriter& metrics) {
  metrics.Gauge("reelfs_certificate_expiry_timestamp_seconds",
                "When the program's own certificate ends.", {},
                static_cast<double>(own.until_seconds));
}

}  // namespace reel
