// Whether requests of FUSE go through io_uring.
#pragma once

namespace reel::client {

enum class UringChoice {
  kAuto,  // where the kernel offers it
  kOn,    // or the mount fails
  kOff,
};

}  // namespace reel::client
