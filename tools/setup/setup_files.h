// The text of every file that a set has, from its plan alone: what two runs write for one plan is
// the same, byte for byte. Certificates are not among them. Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "proto/tls/certificate.h"
#include "tools/setup/setup_plan.h"

namespace reel::tools {

struct SetupFile {
  std::string path;  // below the set's directory
  std::string text;
  bool secret = false;  // for its owner's eyes only
};

// A host of the set, with all that it is.
struct SetupHost {
  std::string name;
  std::vector<TlsRole> roles{};                   // in the order mdc, client, admin
  const PlannedController* controller = nullptr;  // of the plan

  bool Has(TlsRole role) const;
};

// Each host once: controllers, then clients, then administrators. A controller's host is an
// administrator's as well.
std::vector<SetupHost> HostsOf(const SetupPlan& plan);

// Where a host's files lie in the set: it is copied to plan.etc of that host, whole.
std::string HostDirectory(const std::string& host);
// The program's certificate there, without its ending.
std::string CertificatePath(const std::string& host, TlsRole role);

// REQUIRES: CheckPlan(plan).ok().
std::vector<SetupFile> FilesOf(const SetupPlan& plan);

}  // namespace reel::tools
