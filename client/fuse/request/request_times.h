// How long the kernel's requests took here, by kind, and with which errors they ended.
//
// From when a thread of the client takes a request until it has answered: how long the kernel kept
// it before is not known here. Each thread counts in one of several places, so that they do not
// share a cache line all the time. Threads: all methods may be called concurrently.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "proto/time_histogram.h"

namespace reel::client {

class RequestTimes {
 public:
  static constexpr std::size_t kOpcodes = 64;

  RequestTimes() : places_(std::make_unique<std::array<Place, kPlaces>>()) {}

  // `opcode`: of <linux/fuse.h>; `error`: an errno, or 0.
  void Add(std::uint32_t opcode, int error, std::uint64_t us);

  struct Kind {
    std::string name;  // "lookup"; "other": a request that this release does not know
    TimeHistogram times;
    struct Errors {
      int error = 0;
      std::uint64_t count = 0;
    };
    std::vector<Errors> errors;
  };
  // Those that there were.
  std::vector<Kind> Kinds() const;

 private:
  static constexpr std::size_t kPlaces = 8, kErrors = 134;
  struct alignas(64) Place {
    std::array<SharedTimeHistogram, kOpcodes> times;
  };

  const std::unique_ptr<std::array<Place, kPlaces>> places_;
  std::array<std::array<std::atomic<std::uint64_t>, kErrors>, kOpcodes> errors_{};
};

}  // namespace reel::client
