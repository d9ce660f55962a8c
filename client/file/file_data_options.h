// What a mount's data path is made with, and what it calls. Threads: plain values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "client/base/byte_range.h"
#include "client/file/stream_pace.h"
#include "client/inode/atime_policy.h"
#include "client/luns/map_taker.h"
#include "volume/base/types.h"

namespace reel::client {

struct FileDataOptions {
  AtimePolicy atime = AtimePolicy::kRelative;
  std::uint32_t commit_age_ms = 1000;             // dirty metadata is committed when older, …
  static constexpr std::uint32_t kIdlePart = 10;  // … in that part of it where nobody writes on
  std::uint32_t max_idle_tokens = 65'536;  // beyond it the least recently used ones are returned
  // Of which lost writes are remembered until somebody is told: of the last ones used.
  std::uint32_t max_unreported_files = 65'536;
  // Known of all files together, about: 200 MB. Beyond it those of the files that were unused the
  // longest are forgotten, and asked for again when they are needed.
  std::size_t max_extents = 2'000'000;
  // How long a request waits for a LUN whose path is lost, before it ends with ETIMEDOUT. 0: for
  // ever.
  std::uint32_t soft_timeout_ms = 0;
  std::uint32_t stop_timeout_ms = 10'000;
  std::uint64_t max_read_ahead_bytes = 256 * kMiB;  // of all files together; 0: nothing is
  std::uint64_t max_frame_bytes = 256 * kMiB;       // likewise of sequences' next frames
  bool always_read_ahead = false;                   // also where the LUNs are fast
  std::uint64_t read_chunk_bytes = 1 * kMiB;        // at once; at most that, a power of two
  // What a file is read or written of in a row before that counts as a stream, and how far ahead of
  // any stream the controller is asked for blocks and extents.
  std::uint64_t stream_bytes = StreamPace::kStreamBytes;
  std::uint64_t least_prefetch_bytes = 8 * kMiB;
  // Small writes stay in memory for a while, of all files together about that much; 0: none does.
  std::uint64_t max_write_behind_bytes = 64 * kMiB;
  std::uint64_t max_behind_write_bytes = 512 * kKiB;  // larger ones go straight to the LUNs, …
  double behind_ms_per_mib = 4;                       // … unless those take longer for a stream
  // Flushed together; a power of two. At least kMaxSmallFileBytes where the volume has small files:
  // what takes a content's place is told at once.
  std::uint64_t write_behind_buffer_bytes = 1 * kMiB;
  std::uint32_t write_behind_age_ms = 2000;  // and at the latest when that old, about;
                                             // sooner where nobody writes on, as above
  bool flush_on_close = false;               // close(2) is an fsync(2), too
  bool notes_times = false;                  // of requests to LUNs
  // How LUNs are opened that come while it runs; null: a map that adds any cannot be taken.
  OpenMore open_more{};
};

// Drops the kernel's pages of the inode in that range, after it has written back those that were
// changed, and its attributes; with an empty range its attributes alone. Called from a thread of
// this object's own that holds no lock.
using InvalidatePages = std::function<void(std::uint64_t inode, const ByteRange& range)>;

}  // namespace reel::client
