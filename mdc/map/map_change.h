// What a change of a volume's map comes to: the descriptor that follows. A change appends stripe
// sets or pools, or says something else of a pool; no block's address ever changes.
// Threads: pure functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/admin.pb.h"
#include "volume/format/descriptor.h"
#include "volume/join/new_set.h"

namespace reel::mdc {

// Pools, LUNs or rows are added: clients have to know before that is used.
bool Grows(const v1::ChangeMapRequest& request);
// The LUNs that it adds, as they were named; none, where it only enlarges.
std::vector<std::string> AddedLuns(const v1::ChangeMapRequest& request);

// The next generation. `added`: the facts of the added LUNs, in their order; `now`: of all LUNs of
// the volume, by the stripe map's flat index, as their devices say now. NOT_FOUND: no such pool.
// INVALID_ARGUMENT or FAILED_PRECONDITION: why it cannot be.
absl::StatusOr<VolumeDescriptor> NextMap(const VolumeDescriptor& before,
                                         const v1::ChangeMapRequest& request,
                                         const std::vector<LunFacts>& added,
                                         const std::vector<LunFacts>& now);

// One line for people: what was done.
std::string TextOf(const v1::ChangeMapRequest& request);

}  // namespace reel::mdc
