// From a request of the kernel to its call: libfuse as the decoder, and what it does not know put
// right around it.
//
// Flags that libfuse 3.14 does not know are put into the INIT reply on its way to the kernel, and
// requests that it does not know are shown to it as others that begin alike. Invariants:
//   1. What a call answers goes to the request that it serves, and to no other: an answer of
//      another number (libfuse's, to an interrupt that came too early) goes to /dev/fuse.
// Threads: any number of threads may serve at once; Open is called before.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/fuse/request/awake_cpus.h"
#include "client/fuse/request/kernel_request.h"
#include "client/fuse/request/request_bytes.h"
#include "client/fuse/request/request_times.h"

struct fuse_conn_info;
struct fuse_lowlevel_ops;
struct fuse_session;
struct iovec;

namespace reel::client {

class FuseDispatcher {
 public:
  struct Options {
    std::uint32_t max_background = 0;
    std::uint32_t request_bytes = kUsualFuseRequestBytes;  // of a READ or WRITE, at most
    AwakeChoice awake = AwakeChoice::kOff;
    // Asks for shared mappings of FOPEN_DIRECT_IO files (kernel 6.6 and later).
    bool direct_io_mmap = true;
    // Called by the thread that answers the handshake, before and after it does. The former says
    // whether requests are to go through io_uring, where the kernel offers that.
    std::function<bool()> wants_uring = {};
    std::function<void()> on_handshake = {};
    RequestTimes* times = nullptr;  // outlives it; null: nothing is counted
  };

  explicit FuseDispatcher(Options options)
      : options_(std::move(options)), awake_cpus_(AwakeCpus::Create(options_.awake)) {}
  FuseDispatcher(const FuseDispatcher&) = delete;
  FuseDispatcher& operator=(const FuseDispatcher&) = delete;
  ~FuseDispatcher();

  // Mounts on `mount_point` with options for mount(2), and connects `ops` with `userdata`.
  // FAILED_PRECONDITION says why the mount was refused.
  absl::Status Open(const std::string& program, const std::vector<std::string>& mount_options,
                    const std::string& mount_point, const fuse_lowlevel_ops& ops, void* userdata);
  void Unmount();
  // /dev/fuse, as our own descriptor: libfuse closes its own when it unmounts, and we go on
  // answering.
  int fd() const { return fd_; }

  // Decodes and calls. When it returns, the request has been answered.
  void Serve(KernelRequest& request);
  // The request that this thread serves. REQUIRES: it does.
  static KernelRequest& Current();
  static const FuseDispatcher& CurrentDispatcher();

  // Tells the kernel to drop pages of an inode, and its attributes; attributes alone where
  // `first_byte` is negative. Waits as the kernel does. False: it does not know the inode.
  bool NotifyInode(std::uint64_t inode, std::int64_t first_byte, std::int64_t length_bytes);
  // False where the kernel cannot forget the names that it keeps.
  bool NotifyNames() const;

  // Fixed by the handshake.
  bool direct_io_mmap() const { return direct_io_mmap_.load(std::memory_order_acquire); }
  bool promised_uring() const { return promised_uring_.load(std::memory_order_acquire); }

 private:
  static void OnInit(void* userdata, fuse_conn_info* connection);
  static ssize_t WriteReply(int fd, iovec* parts, int count, void* userdata);
  // The errno that it was answered with; 0: with none.
  int Call(KernelRequest& request);
  ssize_t ReplyInit(KernelRequest& request, const iovec* parts);

  const Options options_;
  const std::unique_ptr<AwakeCpus> awake_cpus_;  // perhaps none
  fuse_session* session_ = nullptr;
  int fd_ = -1;
  std::atomic<bool> direct_io_mmap_{false};
  std::atomic<bool> promised_uring_{false};
};

}  // namespace reel::client
