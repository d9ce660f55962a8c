// The authority and the certificates of a set: which are due, and their issue.
//
// Threads: one a directory.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "tools/pki/pki.h"
#include "tools/setup/setup_directory.h"

namespace reel::tools {

struct PlannedCertificate {
  PkiRequest request;
  bool exists = false;  // in one of its files
  bool due = false;     // to be issued
};

// All certificates of the plan. FAILED_PRECONDITION: one does not hold any more, or is for other
// names, and neither `force` nor `renew` says that it may be replaced.
absl::StatusOr<std::vector<PlannedCertificate>> PlanCertificates(const SetupRequest& request);

// Makes the authority if need be and what is due, and gives each host the authority's certificate;
// notes in `outcome` what was written. REQUIRES: the hosts' directories are there.
absl::Status IssueCertificates(const SetupRequest& request,
                               const std::vector<PlannedCertificate>& certificates,
                               SetupOutcome& outcome);

}  // namespace reel::tools
