// One seat at the queue of the requests that one CPU makes: FUSE over io_uring (Linux 6.14).
//
// The kernel hands a request to the thread that waits at the seat, on the CPU that has asked, if
// that thread is bound to it; and an answer goes out with the wait for the next request, in one
// system call. So a request costs two switches on one CPU instead of two threads woken on others:
// half the time.
// What does not fit comes as ever through /dev/fuse: the handshake, FORGET and INTERRUPT, and what
// the kernel is told unasked.
// Source: Linux, Documentation/filesystems/fuse/fuse-io-uring.rst and include/uapi/linux/fuse.h
// (newer than this system's).
// Threads: the one that calls Join is the only one from then on.
#pragma once

#include <liburing.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

namespace reel::client {

class FuseRing {
 public:
  // Bit 41 of the INIT flags, of which `flags2` holds 32 and up.
  static constexpr std::uint32_t kOfferedFlags2 = 1u << (41 - 32);

  // How many queues a connection has; 0 where that is not known for sure, or too many to serve.
  static std::uint16_t CountQueues();
  // `payload`, page-aligned, takes a request's payload and the data of its reply, at most
  // `payload_bytes` each; kHeadBytes of memory lie before it, for what precedes the payload.
  static constexpr std::size_t kHeadBytes = 256;
  // UNAVAILABLE: io_uring is refused here.
  static absl::StatusOr<std::unique_ptr<FuseRing>> Make(int fd, std::uint16_t queue);
  ~FuseRing();
  FuseRing(const FuseRing&) = delete;
  FuseRing& operator=(const FuseRing&) = delete;

  // Takes the seat. After the handshake: 0 or an errno; the kernel's refusal comes from Next.
  //
  // A request that comes while no seat of its queue is free waits, and the kernel looks for such
  // only when a request of the queue is answered: not when a seat is taken. So after that somebody
  // has to make a request there.
  int Join(char* payload, std::size_t payload_bytes);

  // Answers the request before, if any, and waits for one: its length, and where it begins, as
  // read(2) of /dev/fuse would have it. 0 bytes: a signal came. A negative errno: the connection is
  // over (ENOTCONN), or the seat is refused.
  ssize_t Next(char*& request);
  // The answer to it, as writev(2) to /dev/fuse would have it: an errno or 0. What lies in the
  // payload already is not copied. It is sent by Next.
  int Reply(const iovec* parts, int count);
  // Sends the answer at once. Whether a request has waited for that.
  bool Drains();

 private:
  // As the kernel has them.
  struct InOut {
    std::uint64_t flags;
    std::uint64_t commit_id;
    std::uint32_t payload_bytes;
    std::uint32_t padding;
    std::uint64_t reserved;
  };
  struct Headers {
    std::array<char, 128> in_out;
    std::array<char, 128> op_in;
    InOut ring;
  };
  static_assert(sizeof(Headers) == 256 + 32);
  enum class State : std::uint8_t { kApart, kWaits, kServes, kAnswered };

  FuseRing(int fd, std::uint16_t queue) : fd_(fd), queue_(queue) {}
  io_uring_sqe* Command(std::uint32_t command);
  // 0 or a negative errno.
  int PrepareAnswer();
  ssize_t TakeRequest(char*& request);

  const int fd_;
  const std::uint16_t queue_;
  io_uring ring_{};
  bool ring_made_ = false;
  State state_ = State::kApart;
  Headers headers_{};
  std::array<iovec, 2> memory_{};
  char* payload_ = nullptr;
  std::size_t payload_bytes_ = 0;
};

}  // namespace reel::client
