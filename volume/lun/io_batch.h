// A set of requests to any LUNs that are in flight together, and the wait for all of them.
//
// The caller adds requests and runs the batch once. Requests to image files and block devices
// travel over the calling thread's own io_uring, so that depth costs one system call and no thread
// switch; other LUNs complete from threads of their own. A batch larger than the ring is fed as it
// drains. Threads: one thread builds and runs a batch; LUNs complete its requests from any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>

#include "absl/container/inlined_vector.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "volume/lun/lun.h"

namespace reel {

class IoBatch {
 public:
  // Longer requests are cut, and merging stops here: a bound on what one request may cost.
  static constexpr std::uint64_t kMaxRequestBytes = 16 << 20;
  static constexpr std::size_t kMaxParts = 1024;  // IOV_MAX

  IoBatch() = default;
  IoBatch(const IoBatch&) = delete;
  IoBatch& operator=(const IoBatch&) = delete;

  // Adds one request; adjacent requests of one kind on one LUN are merged into one vectored
  // request. `memory` (one contiguous piece) and `lun` outlive Run. REQUIRES: not yet run; aligned.
  void Add(Lun& lun, LunRequest::Kind kind, std::uint64_t offset_bytes, iovec memory);

  // Takes back what was added. REQUIRES: not yet run.
  void Clear() { entries_.clear(); }

  // How long its requests take will be known (ForEachTook). REQUIRES: not yet run.
  void NoteTimes() { notes_times_ = true; }
  // Each request that succeeded. REQUIRES: run, and it notes times.
  void ForEachTook(absl::FunctionRef<void(const Lun& lun, std::uint64_t us)> tell) const;

  // Starts all requests and waits for all of them, whatever fails. Returns the first error by order
  // of adding, naming LUN and offset.
  absl::Status Run();

  // Of the failures on this LUN the one that matters most (volume/lun/lun_fault.h), as the LUN said
  // it. REQUIRES: run.
  absl::Status FailureOn(const Lun& lun) const;

  // Whether something of it was done, or may be yet, whatever else failed: another LUN's part is
  // enough. REQUIRES: run.
  bool MayHaveLanded() const;

  bool empty() const { return entries_.empty(); }

 private:
  friend struct LunRequest;
  struct Entry {
    Lun* lun;
    LunRequest request;
    absl::InlinedVector<iovec, 2> parts;
  };
  bool MergeInto(Entry& entry, iovec memory);
  void Await();  // until nothing is outstanding

  absl::InlinedVector<Entry, 4> entries_;  // addresses are stable from Run on, when LUNs take them
  std::atomic<std::uint32_t> outstanding_{0};
  bool notes_times_ = false;
  std::chrono::steady_clock::time_point began_;  // where it notes times
};

}  // namespace reel
