// Answers the kernel's requests of a FUSE connection with an error, once nobody serves them.
//
// A program that waits for an answer cannot be killed, and whoever drops its pages waits for it.
// The kernel's control file system ends a connection, too, but need not be mounted (containers have
// none), and names connections by a number that is given out again. So the client ends its own by
// what nobody can take from it: an answer.
// Threads: externally synchronised.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>

namespace reel::client {

class FuseRefuser {
 public:
  // From now on requests of up to `request_bytes` are read from `dev_fuse` and refused. The
  // descriptor outlives this object, and nobody else reads from it. Where no thread can be started
  // nothing is refused, and the log says so.
  FuseRefuser(int dev_fuse, std::size_t request_bytes);
  FuseRefuser(const FuseRefuser&) = delete;
  FuseRefuser& operator=(const FuseRefuser&) = delete;
  ~FuseRefuser();

  // Refuses one request; does nothing where it has been answered.
  static void Refuse(int dev_fuse, std::uint64_t unique, int error = ENOTCONN);

 private:
  void Run();
  // False when the connection has ended.
  bool RefuseNext(std::span<std::byte> buffer) const;

  const int dev_fuse_;
  const std::size_t request_bytes_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace reel::client
