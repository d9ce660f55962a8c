// Whether a host's certificates hold, and until when.
//
// Threads: pure functions that read files.
#pragma once

#include <vector>

#include "tools/config/host_config.h"
#include "tools/doctor/finding.h"

namespace reel::tools {

// Of each program's certificate, and of the authority's.
std::vector<Finding> CertificateFindings(const HostConfig& config);

}  // namespace reel::tools
