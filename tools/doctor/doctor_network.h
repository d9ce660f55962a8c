// Whether a host reaches the controllers, and whether both ends of each way agree on the size of
// frames.
//
// Threads: they wait for the network, some `timeout_ms` for each peer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/config/host_config.h"
#include "tools/doctor/finding.h"
#include "tools/doctor/frame_facts.h"
#include "tools/doctor/host_trees.h"

namespace reel::tools {

// Of each controller: by TCP, and by TLS with this host's certificate.
std::vector<Finding> ControllerFindings(const HostConfig& config, std::uint32_t timeout_ms);

// Whether both ends take the same frames.
Finding FrameFinding(const std::string& peer, const FrameFacts& facts);
// Of each controller and each iSCSI portal that this host uses, by URL or by the kernel.
std::vector<Finding> FrameFindings(const HostConfig& config, const HostTrees& trees,
                                   std::uint32_t timeout_ms);

}  // namespace reel::tools
