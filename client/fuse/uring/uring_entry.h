// One entry of a queue: the place for a request that comes by io_uring, and for its answer.
//
// Its memory is a page of headers and a payload buffer. The kernel fills three pieces; header and
// first argument are moved up to the payload, so that libfuse finds one request, and the payload
// stays where it is: a WRITE goes to the LUNs out of it, a READ comes into it.
// Threads: of whoever has it: a ring's thread, then whoever serves its request.
#pragma once

#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "client/fuse/request/kernel_request.h"
#include "client/fuse/uring/uring_protocol.h"

struct fuse_in_header;

namespace reel::client {

class UringResident;

class UringEntry final : public KernelRequest {
 public:
  // `memory`: as UringMemory has it.
  void Place(std::span<std::byte> memory, std::uint16_t queue, UringResident* home);

  std::uint16_t queue() const { return queue_; }
  // The resident whose entry this is; null: a spare one. Adopt: it has one from now on; null: none
  // after all. REQUIRES: the caller has the entry, with an answer.
  UringResident* home() const { return home_; }
  void Adopt(UringResident* home) { home_ = home; }
  // The two pieces, to be registered.
  const std::array<iovec, 2>& pieces() const { return pieces_; }
  std::uint64_t commit_id() const { return commit_id_; }

  // The kernel has put a request here. False where it makes no sense; it has been answered then.
  bool Take();
  bool over_uring() const override { return true; }
  // Puts the answer here; the kernel gets it with the entry's next command.
  ssize_t Reply(const iovec* parts, int count) override;
  // Does nothing where it has been answered.
  void ReplyError(int error);

  // Whether request or answer left much memory behind. GiveBack takes that from the entry.
  // REQUIRES: the kernel has the entry, and the thread of its ring calls.
  bool is_large() const { return large_; }
  void GiveBack();

 private:
  bool HasItsBytes(const fuse_in_header& header, std::uint32_t payload_bytes) const;
  UringHeader& head() const { return *static_cast<UringHeader*>(pieces_[0].iov_base); }
  char* payload() const { return static_cast<char*>(pieces_[1].iov_base); }
  std::size_t most_payload_bytes() const { return pieces_[1].iov_len; }

  std::array<iovec, 2> pieces_{};
  UringResident* home_ = nullptr;
  std::uint64_t unique_ = 0;
  std::uint64_t commit_id_ = 0;
  std::uint16_t queue_ = 0;
  bool large_ = false;
  bool waits_ = false;  // for an answer
};

}  // namespace reel::client
