// What the core counts, for administration. Threads: the core thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "proto/mdc.pb.h"
#include "proto/records.pb.h"

namespace reel::mdc {

struct Counters {
  std::array<std::uint64_t, 64> operations{};  // by v1::Request::OpCase
  std::uint64_t errors = 0;
  std::uint64_t repetitions = 0;
  std::uint64_t misses = 0;
  std::uint64_t blocked = 0;
  std::uint64_t recalls = 0;
  std::uint64_t batches = 0;
  std::uint64_t inline_reads = 0;
  std::uint64_t evictions = 0;
  std::uint64_t reaped = 0;
  std::array<std::uint64_t, v1::JobKind_ARRAYSIZE> moved_blocks{};  // by the kind of job
  std::uint64_t broken_moves = 0;
  std::uint64_t refused = 0;
  std::uint64_t delegated = 0;
  std::uint64_t replayed = 0;

  // An operation has taken effect, or failed.
  void Ended(v1::Request::OpCase op) {
    ++operations[static_cast<std::size_t>(op) % operations.size()];
  }
};

}  // namespace reel::mdc
