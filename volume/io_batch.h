// A set of requests to any LUNs that are in flight together, and the wait for all of them.
//
// The caller adds requests and runs the batch once. Requests to image files and block devices travel
// over the calling thread's own io_uring, so that depth costs one system call and no thread switch;
// other LUNs complete from threads of their own. A batch larger than the ring is fed as it drains.
// Threads: one thread builds and runs a batch; LUNs complete its requests from any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "volume/lun.h"

namespace reel {

class IoBatch {
 public:
  IoBatch() = default;
  IoBatch(const IoBatch&) = delete;
  IoBatch& operator=(const IoBatch&) = delete;

  // Adds one request; adjacent requests of one kind on one LUN are merged into one vectored request.
  // `memory` (one contiguous piece) and `lun` outlive Run. REQUIRES: not yet run; aligned.
  void Add(Lun& lun, LunRequest::Kind kind, std::uint64_t offset_bytes, iovec memory);

  // Starts all requests and waits for all of them, whatever fails. Returns the first error by order
  // of adding, naming LUN and offset.
  absl::Status Run();

  bool empty() const { return requests_.empty(); }

 private:
  friend struct LunRequest;
  struct Entry {
    Lun* lun;
    LunRequest request;
    std::vector<iovec> parts;
  };
  std::deque<Entry> requests_;  // stable addresses: LUNs hold pointers while in flight
  std::atomic<std::uint32_t> outstanding_{0};
};

}  // namespace reel
