// A LUN: a flat array of bytes that several hosts may share, addressed in logical blocks.
//
// This is the one seam behind which image files, block devices and iSCSI LUNs hide, and where tests
// put faulty ones. Invariants:
//   1. Offsets, lengths and memory of every request are multiples of logical_block_bytes().
//   2. A request completes exactly once, by LunRequest::Complete, with its final status; a short
//      transfer is an error. Nothing is resent behind the caller's back.
//   3. A completed write is durable only after a Flush that began after its completion.
//   4. A path that was lost stays lost: it never logs in, registers or resends by itself
//      (volume/lun/lun_fault.h says what is known of its requests). Reopen is the caller's word.
// Threads: all methods may be called concurrently, on overlapping ranges too (their outcome is then
// any order of the logical blocks).
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace reel {

class IoBatch;
class Reservations;

// One vectored read or write. Owned by an IoBatch; the memory behind `parts` is the caller's and
// outlives the completion.
struct LunRequest {
  enum class Kind { kRead, kWrite };
  Kind kind = Kind::kRead;
  std::uint64_t offset_bytes = 0;
  std::uint64_t length_bytes = 0;  // the sum of the parts
  std::span<const iovec> parts;
  IoBatch* batch = nullptr;
  absl::Status status;        // valid once completed
  std::uint64_t took_us = 0;  // likewise, where the batch notes it

  // Records the outcome and tells the batch. Called once, from any thread, by the LUN.
  void Complete(absl::Status outcome);
};

class Lun {
 public:
  virtual ~Lun() = default;

  // The path or URL that it was opened by, for messages and lists (LunNameForPeople).
  virtual const std::string& name() const = 0;
  virtual std::uint64_t size_bytes() const = 0;  // as it was opened, or by Grow
  // As the device says now; it may have been enlarged meanwhile. Asks it, and waits.
  virtual absl::StatusOr<std::uint64_t> SizeNow() { return size_bytes(); }
  // Lets requests reach what the device was enlarged by: it is asked, and size_bytes() says so from
  // then on. It never says less than before.
  virtual absl::Status Grow() { return absl::OkStatus(); }
  // The unit that the device reads and writes whole, and the alignment of all requests.
  virtual std::uint32_t logical_block_bytes() const = 0;
  // The request size that the device asks for; 0 when it does not say.
  virtual std::uint32_t optimal_io_bytes() const { return 0; }
  // Null where the LUN cannot fence a host (image files): safety then rests on clocks alone. Lives
  // as long as the LUN, and speaks for the path that carries its I/O.
  virtual Reservations* reservations() const { return nullptr; }
  bool has_reservations() const { return reservations() != nullptr; }
  // What was sent may be executed although its sender is gone, up to QuarantineMs later: a target,
  // or the kernel of the host, still has it. False for image files: this machine writes them.
  virtual bool executes_late() const { return false; }
  virtual bool read_only() const { return false; }

  // Starts a request and returns without waiting; it may complete before Start returns.
  virtual void Start(LunRequest& request) = 0;

  // Makes every write that completed before the call durable on the device.
  virtual absl::Status Flush() = 0;

  // Tells the device that the range holds nothing of use; its content is undefined afterwards.
  // Only the MDC may call it, on metadata space that it owns. UNIMPLEMENTED where the device
  // cannot.
  virtual absl::Status Discard(std::uint64_t offset_bytes, std::uint64_t length_bytes) = 0;

  // Claims the LUN against other processes of this host until this object is destroyed:
  // FAILED_PRECONDITION when another one holds it. (Between hosts: the arbitration block and
  // reservations.)
  virtual absl::Status ClaimForThisProcess() = 0;

  // After a lost path: a new one to the same LUN, with no registration. OK at once where the path
  // still stands, or where there is none to lose. FAILED_PRECONDITION when another LUN answers;
  // else the error of connecting, and the path stays lost. On a block device, whose path the kernel
  // keeps: whether it answers, or else what has its name by now, if that is the same LUN.
  virtual absl::Status Reopen() { return absl::OkStatus(); }

  // One blocking request. `buffer` is aligned as invariant 1 says.
  absl::Status Read(std::uint64_t offset_bytes, std::span<std::byte> buffer);
  absl::Status Write(std::uint64_t offset_bytes, std::span<const std::byte> buffer);
};

// Whether a request for the range can be started on `lun`: INVALID_ARGUMENT or OUT_OF_RANGE unless
// it is aligned and lies on the LUN.
absl::Status CheckLunRange(const Lun& lun, std::uint64_t offset_bytes, std::uint64_t length_bytes);
// FAILED_PRECONDITION on one opened read-only.
absl::Status CheckLunWritable(const Lun& lun);

enum class LunAccess { kReadOnly, kReadWrite };

// Opens an image file, a block device or an iscsi:// URL (volume/iscsi/iscsi_url.h), whichever
// `name` is. NOT_FOUND, PERMISSION_DENIED, INVALID_ARGUMENT (neither a file nor a block device, or
// a URL that is none), UNAVAILABLE (no target answers), each naming `name` and what to do.
absl::StatusOr<std::unique_ptr<Lun>> OpenLun(const std::string& name, LunAccess access);

// What messages and lists show of a LUN's name: the name, without the secret that an iscsi:// URL
// may carry.
std::string LunNameForPeople(const std::string& name);

}  // namespace reel
