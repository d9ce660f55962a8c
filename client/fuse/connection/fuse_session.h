// A mounted FUSE connection: the mount itself, the handshake with the kernel, and what serves its
// requests with a libfuse call table.
//
// How requests come is the kernel's and our choice: all by /dev/fuse (DevFuseWorkers), or by
// io_uring (UringServer) but for what the kernel keeps to /dev/fuse. The calls do not see it.
// Threads: what tells the kernel, and ended, come from any thread; the others from the owner's.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/base/wait_limits.h"
#include "client/fuse/connection/connection_abort.h"
#include "client/fuse/connection/dev_fuse_workers.h"
#include "client/fuse/request/direct_gate.h"
#include "client/fuse/request/fuse_choices.h"
#include "client/fuse/request/fuse_dispatcher.h"
#include "client/fuse/request/kernel_request.h"
#include "client/fuse/uring/uring_server.h"
#include "volume/base/mutex.h"

struct fuse_lowlevel_ops;

namespace reel::client {

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
    std::uint32_t request_bytes = FuseRequestBytesHere();  // of a READ or WRITE, at most
    DirectGate::Options direct{
        .max_served = kMaxDirectServed, .max_parked = kMaxDirectParked, .stall_ms = kDirectStallMs};
    UringChoice uring = UringChoice::kAuto;
    AwakeChoice awake = AwakeChoice::kAuto;
    RequestTimes* times = nullptr;  // outlives it; null: nothing is counted
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
  bool direct_io_mmap() const { return dispatcher_.direct_io_mmap(); }
  // Whether requests come by io_uring.
  bool over_uring() const { return uring_ != nullptr; }

  // Drops the kernel's pages of an inode in that range (a length of 0: to its end), and its
  // attributes. Waits for page-cache requests in flight: never from a worker, nor under a lock that
  // a request needs.
  void Invalidate(std::uint64_t inode, std::uint64_t from_bytes, std::uint64_t length_bytes);
  // Its attributes alone. Waits for an inode that the kernel is about to forget, and so perhaps for
  // its pages: from a worker only for one that its request holds. False: the kernel does not know
  // the inode.
  bool InvalidateAttributes(std::uint64_t inode);

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
  // Ends the connection: whoever waits in the kernel for an answer, invalidations too, gets an
  // error, those whose requests are in progress, and all that come.
  void Abort();

  // ---- for calls, on the worker that serves them ----

  // Whether files opened with FOPEN_DIRECT_IO can be mapped shared.
  static bool MapsDirectFiles();
  // Page-aligned memory for a reply's data, `request_bytes` long. It overlaps the payload of
  // a WRITE, and of no READ or READDIR.
  static std::span<std::byte> ReplyBuffer();
  // Whether the READ or WRITE being served comes from the page cache rather than from an
  // application's buffer: libfuse keeps the bit that tells to itself.
  static bool IsPageCacheRequest();

  // Whether the kernel may not tell that the caller of the request being served was interrupted
  // (over io_uring). Never of a write-back, which has no caller and must not be given up.
  static bool MayMissInterrupt();

  // Requests that libfuse 3.14 does not know, shown to it as others that begin alike: a GETATTR
  // that wants the reply of STATX, and a CREATE that is open(O_TMPFILE).
  static bool IsStatx();
  static bool IsTmpfile();

 private:
  FuseSession(const Options& options, UringChoice uring);

  static absl::StatusOr<std::unique_ptr<FuseSession>> TryMount(const Options& options,
                                                               UringChoice uring,
                                                               const fuse_lowlevel_ops& ops,
                                                               void* userdata);
  void TellOfEnd();
  absl::Status Open(const fuse_lowlevel_ops& ops, void* userdata);
  // Makes what serves io_uring ready, where it is wanted and offered.
  absl::Status PrepareUring();
  absl::Status AwaitHandshake();
  void End();
  void AnswerParked(const DirectGate::Parked& parked, int error);

  const Options options_;
  const UringChoice uring_choice_;
  FuseDispatcher dispatcher_;
  DirectGate gate_;
  DevFuseWorkers dev_fuse_;
  std::unique_ptr<UringServer> uring_;    // set before the handshake
  std::optional<ConnectionAbort> abort_;  // once mounted

  mutable Mutex mutex_;
  CondVar changed_;
  bool ready_ ABSL_GUARDED_BY(mutex_) = false;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;
  bool tells_of_end_ ABSL_GUARDED_BY(mutex_) = false;  // TellOfEnd
};

}  // namespace reel::client
