// What a stream should ask the controller for before it gets there, so that it goes on without one
// for StreamPace::kPrefetchMs.
//
// As far as that is possible: a writer that has just begun gets no more blocks than it has written
// so far, and a reader cannot hold what is not written yet.
// Threads: externally synchronised, by the file's mutex.
#pragma once

#include <cstdint>
#include <optional>

#include "client/file/file_state.h"
#include "client/tokens/file_access.h"

namespace reel::client {

// Blocks for a writer that has come to `at_bytes`; nothing while it has enough. `least_bytes`: how
// far any stream looks ahead.
std::optional<FetchRange> BlocksToPrefetch(const FileState& f, std::uint64_t at_bytes,
                                           std::uint64_t least_bytes)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);
// Extents for a reader that has come there, or, where another host writes on, the token of what
// that one has written meanwhile.
std::optional<FetchRange> LayoutToPrefetch(FileState& f, std::uint64_t at_bytes,
                                           std::uint64_t least_bytes)
    ABSL_EXCLUSIVE_LOCKS_REQUIRED(f.mutex);

}  // namespace reel::client
