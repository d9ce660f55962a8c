// What a job is to do, from what an administrator has asked for. Threads: pure functions.
#pragma once

#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "mdc/moves/restripe.h"
#include "mdc/space/allocator.h"
#include "proto/admin.pb.h"
#include "proto/records.pb.h"
#include "volume/format/descriptor.h"

namespace reel::mdc {

struct NewJob {
  v1::JobRecord record;
  std::uint64_t unit_blocks = 0;  // JOB_ALIGN: the pool's unit from now on
  std::vector<Run> closes;        // nothing is to be allocated in these areas from now on
};

// `instead`: the LUN that takes the place of the request's. NOT_FOUND: no such pool or LUN.
// FAILED_PRECONDITION: its data cannot be moved. INVALID_ARGUMENT.
absl::StatusOr<NewJob> MakeJob(const v1::StartJobRequest& request,
                               const VolumeDescriptor& descriptor, const Allocator& allocator,
                               const std::optional<Replacement>& instead = std::nullopt);

// A job has come to its end. True: it begins once more, as there is more to be done: a rebalance
// whose sets differ still.
bool LooksAgain(v1::JobRecord& job, const Allocator& allocator);

}  // namespace reel::mdc
