// What the commands that begin jobs, or show them, have in common.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "tools/commands/command.h"

namespace reel::tools {

Json JobsOf(const std::string& volume, const v1::JobsReply& reply);
// The same for people: a table.
std::string JobsText(const Json& json);

// The words without "rate SIZE" at their end, which is in the request then. INVALID_ARGUMENT: it is
// no rate.
absl::StatusOr<Words> WithoutRate(const Words& given, v1::StartJobRequest& request);
// On the volume that was chosen: the job, as JobsOf has it.
absl::StatusOr<Json> StartJob(AdminContext& context, v1::StartJobRequest request);

}  // namespace reel::tools
