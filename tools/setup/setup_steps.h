// What is to be done after `reeladm setup`: what to copy where, and what to run next.
//
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "nlohmann/json_fwd.hpp"
#include "tools/setup/setup_directory.h"

namespace reel::tools {

struct SetupStep {
  std::vector<std::string> hosts;
  std::string run;  // at a shell there, as root
  std::string why;
};

// The command that copies a host's files to it.
std::string CopyCommand(const SetupRequest& request, const std::string& host);

// In their order. Of a set that has grown: for what is new.
std::vector<SetupStep> NextSteps(const SetupRequest& request);

std::string SetupText(const SetupRequest& request, const SetupOutcome& outcome);
nlohmann::ordered_json SetupJson(const SetupRequest& request, const SetupOutcome& outcome);

}  // namespace reel::tools
