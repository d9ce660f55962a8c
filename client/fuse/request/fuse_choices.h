// What a mount may say of how its requests come.
#pragma once

#include <cstdint>

namespace reel::client {

// By io_uring.
enum class UringChoice : std::uint8_t {
  kAuto,  // where the kernel offers it
  kOn,    // or the mount fails
  kOff,
};

// Idle CPUs wait awake while requests come close together (awake_cpus.h).
enum class AwakeChoice : std::uint8_t {
  kAuto,  // in a virtual machine that can have them wait so
  kOn,
  kOff,
};

}  // namespace reel::client
