// A set on disk: DIR/setup.toml (its plan), DIR/pki (the authority) and DIR/hosts/HOST, which is
// copied to the host's /etc/reelfs.
//
// Invariants:
//   1. Before anything is written it is known that nothing is lost: a file that is there is
//      overwritten only if it is, byte for byte, what the stored plan made of it, or by `force`.
//   2. There is one authority, for ever; a certificate that holds is not issued again.
// Threads: one a directory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/setup/setup_plan.h"

namespace reel::tools {

inline constexpr std::uint32_t kAuthorityDays = 3650;
inline constexpr std::uint32_t kCertificateDays = 825;

struct SetupRequest {
  std::string directory;
  SetupPlan stored;                // what the directory holds; empty: nothing yet
  SetupPlan plan;                  // what it shall hold
  std::vector<std::string> renew;  // hosts whose certificates are issued again
  std::uint32_t days = kCertificateDays;
  bool force = false;
};

struct SetupOutcome {
  struct File {
    enum class State { kNew, kChanged, kUnchanged };
    std::string path;  // below the directory
    State state = State::kUnchanged;
  };
  std::vector<File> files;

  // Whether this run has written something for the host.
  bool Touches(const std::string& host) const;
};

// nullopt: there is no set yet. FAILED_PRECONDITION: the directory holds something else.
absl::StatusOr<std::optional<SetupPlan>> ReadSetupPlan(const std::string& directory);

// FAILED_PRECONDITION: something would be lost, see invariant 1. INVALID_ARGUMENT: the plan does
// not make a volume.
absl::StatusOr<SetupOutcome> WriteSetup(const SetupRequest& request);

}  // namespace reel::tools
