// A mounted FUSE connection: the mount itself, the handshake with the kernel, and the workers that
// read requests and hand them to a libfuse call table.
//
// The read loop is our own: each worker reads a request into a buffer laid so that a WRITE's
// payload falls on a page, which lets it go to the LUNs without a copy, and libfuse only decodes
// it. Flags that libfuse 3.14 does not know are put into the INIT reply on its way to the kernel.
// Invariants:
//   1. A request is answered by the worker that read it, before that worker reads another; but for
//      direct ones that are parked, which another worker serves later.
//   2. While requests wait there is a worker to read them: the last idle worker that takes one
//      starts another, up to max_threads. (A request may wait for a second one that the kernel
//      sends on its behalf, such as the write-back of a page that a recall drops.) At the limit
//      they wait in the kernel.
//   3. Direct requests, which may wait for other hosts, take not all workers (DirectGate).
// Threads: what tells the kernel, and ended, come from any thread; the others from the owner's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/base/wait_limits.h"
#include "client/fuse/direct_gate.h"
#include "client/fuse/fuse_refuser.h"
#include "volume/base/mutex.h"

struct fuse_conn_info;
struct fuse_lowlevel_ops;
struct fuse_session;
struct iovec;

namespace reel::client {

// The largest READ and WRITE: what libfuse 3.14 negotiates at most, and the kernel's default limit.
inline constexpr std::uint32_t kMaxFuseRequestBytes = 1 << 20;

class FuseSession {
 public:
  struct Options {
    std::string source;   // shown as the device, e.g. the volume's name
    std::string subtype;  // shown as fuse.SUBTYPE
    std::string mount_point;
    std::vector<std::string> mount_options;  // for mount(2): "ro", "allow_other", …
    std::uint32_t threads = 16;              // idle workers kept
    std::uint32_t max_threads = kMaxFuseWorkers;
    std::uint32_t max_background = kMaxFuseBackground;
    DirectGate::Options direct{
        .max_served = kMaxDirectServed, .max_parked = kMaxDirectParked, .stall_ms = kDirectStallMs};
    // Asks for shared mappings of FOPEN_DIRECT_IO files (kernel 6.6 and later).
    bool direct_io_mmap = true;
    // Called once, by a worker, when somebody has unmounted the file system or broken the
    // connection.
    std::function<void()> on_end;
  };

  // Mounts and starts the workers; `ops` (but for init) get `userdata`, which outlives the session.
  // Returns when the kernel has accepted the handshake: the mount is usable. FAILED_PRECONDITION
  // says why the mount was refused.
  static absl::StatusOr<std::unique_ptr<FuseSession>> Mount(const Options& options,
                                                            const fuse_lowlevel_ops& ops,
                                                            void* userdata);
  // Unmounts (lazily if it must) and waits for the workers.
  ~FuseSession();

  // Whether files opened with FOPEN_DIRECT_IO can be mapped shared. Fixed by the handshake.
  bool direct_io_mmap() const { return direct_io_mmap_.load(std::memory_order_acquire); }

  // Drops the kernel's pages of an inode in that range (a length of 0: to its end), and its
  // attributes. Waits for page-cache requests in flight: never from a worker, nor under a lock that
  // a request needs.
  void Invalidate(std::uint64_t inode, std::uint64_t from_bytes, std::uint64_t length_bytes);
  // Its attributes alone. Waits for an inode that the kernel is about to forget, and so perhaps for
  // its pages: from a worker only for one that its request holds.
  void InvalidateAttributes(std::uint64_t inode);

  // Names that the kernel keeps, of all directories; those in replies that are on their way, too.
  // False where it cannot (before Linux 6.16). Takes none of its locks. Linux unmounts what is
  // mounted on a directory that it comes to by such a name.
  bool ForgetNames();

  bool ended() const;
  // Detaches the mount from the tree at once, even when it is busy. Files open in it fail from then
  // on.
  void Detach();
  // Stops reading requests; those in progress are finished, for at most `timeout_ms`. True when
  // none is left.
  bool StopWorkers(std::uint32_t timeout_ms);
  // From now on whoever waits in the kernel for an answer, invalidations too, gets an error: those
  // whose requests are in progress, and all that come. REQUIRES: StopWorkers was called.
  void RefuseRequests();
  // The kernel refuses requests by itself from now on, also those in progress. Nothing of it
  // reaches the kernel any more. REQUIRES: nobody tells the kernel anything, so that nobody waits
  // in it.
  void Disconnect();

  // ---- for calls, on the worker that serves them ----

  static const FuseSession& Current();
  // The worker's page-aligned memory for a reply's data, kMaxFuseRequestBytes long. It overlaps the
  // payload of a WRITE, and only of a WRITE.
  static std::span<std::byte> ReplyBuffer();
  // Whether the READ or WRITE being served comes from the page cache rather than from an
  // application's buffer: libfuse keeps the bit that tells to itself.
  static bool IsPageCacheRequest();

  // Requests that libfuse 3.14 does not know, shown to it as others that begin alike: a GETATTR
  // that wants the reply of STATX, and a CREATE that is open(O_TMPFILE).
  static bool IsStatx();
  static bool IsTmpfile();

 private:
  struct Worker;

  explicit FuseSession(const Options& options);

  static void OnInit(void* userdata, fuse_conn_info* connection);
  static ssize_t WriteReply(int fd, iovec* parts, int count, void* userdata);

  absl::Status Open(const fuse_lowlevel_ops& ops, void* userdata);
  absl::Status AwaitHandshake();
  bool StartWorker() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Run(Worker& worker);
  void End();
  // False when the worker is to end.
  bool ServeOne(Worker& worker);
  // A direct READ or WRITE: of an application's buffer.
  static bool IsDirect(const Worker& worker);
  // False: the gate keeps it, and another worker serves it later.
  bool EnterGate(Worker& worker, std::size_t length);
  void Serve(Worker& worker, std::size_t length);
  // False: there are enough.
  bool BecomeIdle();
  // The kernel's pages there, and attributes; attributes alone where `first_byte` is negative.
  void Notify(std::uint64_t inode, std::int64_t first_byte, std::int64_t length_bytes);
  void Reap() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  fuse_session* session_ = nullptr;
  int fd_ = -1;  // /dev/fuse, as session_ has it
  std::atomic<bool> direct_io_mmap_{false};
  std::atomic<bool> stop_{false};
  std::atomic<bool> refuse_{false};
  std::optional<FuseRefuser> refuser_;
  DirectGate gate_;
  // Workers that wait for a request, or are about to. (Of one that ends with the connection it is
  // no matter.)
  std::atomic<std::int32_t> idle_{0};

  mutable Mutex mutex_;
  CondVar changed_;
  std::list<std::unique_ptr<Worker>> workers_ ABSL_GUARDED_BY(mutex_);
  std::uint32_t running_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace reel::client
