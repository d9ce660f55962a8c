// What `reeladm setup` makes its directory from: the volume, the hosts and where the LUNs are. It
// is kept there as setup.toml, so that a later run adds hosts to the same set.
//
//   volume = "reel"
//   mdc = ["mdc1.lan:7440,10.0.0.1"]    controllers: HOST[:PORT], and what else they are dialled by
//   client = ["edit-1"]
//   admin = ["desk"]                    hosts of administrators, beside the controllers
//   luns = ["/dev/disk/by-id/wwn-*"]
//   metadata = ["meta1"]                LUNs of the volume, by label or path; none: data's are both
//   data = ["data1", "data2"]           none: the volume is there already, or described elsewhere
//   etc = "/etc/reelfs"                 where the files lie on the hosts
//
// The options of the command line have the same words and values. Threads: plain values and pure
// functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace reel::tools {

inline constexpr char kEtc[] = "/etc/reelfs";

struct PlannedController {
  std::string host;                // by which clients dial it
  std::string address;             // HOST:PORT
  std::vector<std::string> names;  // what else its certificate is for
  bool operator==(const PlannedController&) const = default;
};

struct SetupPlan {
  std::string volume;
  std::vector<PlannedController> controllers;
  std::vector<std::string> clients;
  std::vector<std::string> admins;
  std::vector<std::string> luns;
  std::vector<std::string> metadata_luns;
  std::vector<std::string> data_luns;
  std::string etc;

  bool operator==(const SetupPlan&) const = default;
  bool describes_volume() const { return !metadata_luns.empty() || !data_luns.empty(); }
};

// "HOST[:PORT][,NAME…]". INVALID_ARGUMENT.
absl::StatusOr<PlannedController> ParseController(std::string_view text);
// The name of a host, as certificates and directories can have it: INVALID_ARGUMENT.
absl::Status CheckHostName(std::string_view host);

std::string SetupPlanText(const SetupPlan& plan);
// INVALID_ARGUMENT: "SOURCE:LINE: what".
absl::StatusOr<SetupPlan> ParseSetupPlan(std::string_view text, std::string_view source);

// `stored` with what `wished` says beside it: more hosts, and values that were empty.
// FAILED_PRECONDITION: it says something else about what is there already, which only `force` lets
// it change.
absl::StatusOr<SetupPlan> ExtendPlan(const SetupPlan& stored, const SetupPlan& wished, bool force);

// INVALID_ARGUMENT: something is missing, stands there twice, or cannot be.
absl::Status CheckPlan(const SetupPlan& plan);

// A list or text as TOML has it.
std::string TomlQuoted(const std::string& text);
std::string TomlQuoted(const std::vector<std::string>& texts);

}  // namespace reel::tools
