// Areas: blocks of a pool that follow each other. What a stripe set is in the addresses of its
// pool, and lists of areas in records. Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "mdc/space/allocator.h"
#include "proto/records.pb.h"
#include "volume/format/descriptor.h"

namespace reel::mdc {

using Areas = google::protobuf::RepeatedPtrField<v1::Area>;

// NOT_FOUND: there is none of that name.
absl::StatusOr<PoolId> PoolNamed(const VolumeDescriptor& descriptor, const std::string& name);

// The areas of the pool's stripe sets, in their order; gaps too.
std::vector<Run> SetsOf(const VolumeDescriptor& descriptor, PoolId pool);

// Those of them that are gaps; and the others.
std::vector<Run> GapsOf(const VolumeDescriptor& descriptor, PoolId pool);
std::vector<Run> LiveSetsOf(const VolumeDescriptor& descriptor, PoolId pool);

// What is in none of the runs that `run` is: they, without it.
std::vector<Run> Without(const std::vector<Run>& runs, const Run& run);

Run ToRun(const v1::Area& area);
// In the order of the list.
std::vector<Run> ToRuns(const Areas& areas);
// All of the run lies in areas of the list.
bool Covers(const Areas& areas, const Run& run);
// Adds the run, or takes it out; the list stays ordered and disjoint, neighbours joined.
void AddTo(Areas& areas, const Run& run);
void RemoveFrom(Areas& areas, const Run& run);

}  // namespace reel::mdc
