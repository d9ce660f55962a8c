#include "client/fuse/request/fuse_dispatcher.h"

#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <linux/fuse.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

// Newer than this system's <linux/fuse.h>: bits 36 and 41 of the INIT flags, of which `flags2`
// holds 32 and up.
constexpr std::uint32_t kDirectIoAllowMmapFlags2 = 1u << (36 - 32);
constexpr std::uint32_t kOverIoUringFlags2 = 1u << (41 - 32);

// A notice newer than this system's <linux/fuse.h>: FUSE_NOTIFY_INC_EPOCH.
constexpr std::int32_t kNotifyIncEpoch = 8;

constexpr unsigned kWantedCapabilities =
    FUSE_CAP_ASYNC_READ | FUSE_CAP_ASYNC_DIO | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_AUTO_INVAL_DATA |
    FUSE_CAP_EXPORT_SUPPORT | FUSE_CAP_POSIX_ACL | FUSE_CAP_DONT_MASK | FUSE_CAP_IOCTL_DIR |
    FUSE_CAP_POSIX_LOCKS | FUSE_CAP_FLOCK_LOCKS;

// libfuse says why a mount failed only through its log: the last line is kept for our error.
thread_local std::string* captured_log = nullptr;

void OnFuseLog(fuse_log_level level, const char* format, va_list arguments) {
  std::array<char, 512> line;
  const int length = std::vsnprintf(line.data(), line.size(), format, arguments);
  if (length <= 0) return;
  const std::string text(absl::StripSuffix(line.data(), "\n"));
  if (captured_log != nullptr) {
    *captured_log = text;
  } else if (level <= FUSE_LOG_WARNING) {
    spdlog::warn("libfuse: {}", text);
  }
}

struct Served {
  FuseDispatcher* dispatcher = nullptr;
  KernelRequest* request = nullptr;
  int error = 0;  // that it was answered with
};
thread_local Served served;
thread_local int notify_fd = -1;  // on other threads, while they notify the kernel

}  // namespace

FuseDispatcher::~FuseDispatcher() {
  if (session_ != nullptr) fuse_session_destroy(session_);
  if (fd_ >= 0) close(fd_);
}

absl::Status FuseDispatcher::Open(const std::string& program,
                                  const std::vector<std::string>& mount_options,
                                  const std::string& mount_point, const fuse_lowlevel_ops& ops,
                                  void* userdata) {
  std::string list = absl::StrJoin(mount_options, ",");
  std::string name = program;
  std::string flag = "-o";
  char* argv[] = {name.data(), flag.data(), list.data(), nullptr};
  fuse_args arguments = FUSE_ARGS_INIT(3, argv);
  absl::Cleanup free_arguments = [&arguments] { fuse_opt_free_args(&arguments); };

  std::string reason;
  captured_log = &reason;
  absl::Cleanup release_log = [] { captured_log = nullptr; };
  fuse_set_log_func(OnFuseLog);

  fuse_lowlevel_ops table = ops;
  table.init = &FuseDispatcher::OnInit;
  session_ = fuse_session_new(&arguments, &table, sizeof(table), userdata);
  if (session_ == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("mount options \"", list, "\": ", reason));
  }
  if (fuse_session_mount(session_, mount_point.c_str()) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot mount on ", mount_point, ": ", reason.empty() ? "the kernel refused it" : reason));
  }
  fd_ = fcntl(fuse_session_fd(session_), F_DUPFD_CLOEXEC, 0);
  if (fd_ < 0) return absl::ErrnoToStatus(errno, "dup of /dev/fuse");
  fuse_custom_io io{};
  io.writev = &FuseDispatcher::WriteReply;
  io.read = [](int fd, void* buffer, std::size_t length, void*) {
    return ::read(fd, buffer, length);
  };
  if (const int error = fuse_session_custom_io(session_, &io, fuse_session_fd(session_));
      error != 0) {
    return absl::InternalError(absl::StrCat("libfuse refused our I/O functions: error ", -error));
  }
  return absl::OkStatus();
}

void FuseDispatcher::Unmount() {
  if (session_ != nullptr) fuse_session_unmount(session_);
}

KernelRequest& FuseDispatcher::Current() {
  return *served.request;
}

const FuseDispatcher& FuseDispatcher::CurrentDispatcher() {
  return *served.dispatcher;
}

void FuseDispatcher::Serve(KernelRequest& request) {
  if (awake_cpus_ != nullptr && !request.IsLarge()) awake_cpus_->NoteRequest();
  if (options_.times == nullptr) {
    (void)Call(request);
    return;
  }
  const std::uint32_t opcode = request.opcode();  // once it is answered, it may be another one
  const auto began = std::chrono::steady_clock::now();
  const int error = Call(request);
  const auto took = std::chrono::steady_clock::now() - began;
  options_.times->Add(opcode, error,
                      static_cast<std::uint64_t>(
                          std::chrono::duration_cast<std::chrono::microseconds>(took).count()));
}

int FuseDispatcher::Call(KernelRequest& request) {
  served = {this, &request};
  if (request.opcode() == kOpStatx) request.header().opcode = FUSE_GETATTR;
  if (request.opcode() == kOpTmpfile) request.header().opcode = FUSE_CREATE;
  fuse_buf bytes{};
  bytes.size = request.length_bytes();
  bytes.mem = request.begin();
  fuse_session_process_buf(session_, &bytes);
  return std::exchange(served, {}).error;
}

void FuseDispatcher::OnInit(void*, fuse_conn_info* connection) {
  const Options& options = served.dispatcher->options_;
  connection->want = connection->capable & kWantedCapabilities;
  connection->max_write = kUsualFuseRequestBytes;
  connection->max_readahead = kUsualFuseRequestBytes;
  connection->max_background = options.max_background;
  connection->congestion_threshold = options.max_background * 3 / 4;
}

ssize_t FuseDispatcher::WriteReply(int, iovec* parts, int count, void*) {
  if (served.request == nullptr) return ::writev(notify_fd, parts, count);
  KernelRequest& request = *served.request;
  fuse_out_header header;
  std::memcpy(&header, parts[0].iov_base, sizeof(header));
  if (header.unique != request.header().unique) {
    return ::writev(served.dispatcher->fd_, parts, count);
  }
  served.error = -header.error;
  if (request.opcode() == FUSE_INIT && count == 2 && parts[1].iov_len >= sizeof(fuse_init_out)) {
    return served.dispatcher->ReplyInit(request, parts);
  }
  return request.Reply(parts, count);
}

ssize_t FuseDispatcher::ReplyInit(KernelRequest& request, const iovec* parts) {
  // The kernel's INIT tells in the same flags what it knows.
  const auto& in = request.arguments<fuse_init_in>();
  const bool extended = request.header().len >= sizeof(fuse_in_header) + sizeof(fuse_init_in) &&
                        (in.flags & FUSE_INIT_EXT) != 0;
  const std::uint32_t known = extended ? in.flags2 : 0;
  fuse_init_out out;
  std::memcpy(&out, parts[1].iov_base, sizeof(out));
  if ((known & kDirectIoAllowMmapFlags2) != 0 && options_.direct_io_mmap) {
    out.flags |= FUSE_INIT_EXT;
    out.flags2 |= kDirectIoAllowMmapFlags2;
    direct_io_mmap_.store(true, std::memory_order_release);
  }
  if ((known & kOverIoUringFlags2) != 0 && options_.wants_uring && options_.wants_uring()) {
    out.flags |= FUSE_INIT_EXT;
    out.flags2 |= kOverIoUringFlags2;
    promised_uring_.store(true, std::memory_order_release);
  }
  if ((out.flags & FUSE_MAX_PAGES) != 0) {  // libfuse 3.14 asks for no more than a MiB
    out.max_write = options_.request_bytes;
    out.max_pages =
        static_cast<std::uint16_t>(options_.request_bytes / static_cast<unsigned>(getpagesize()));
  }
  fuse_out_header header;
  std::memcpy(&header, parts[0].iov_base, sizeof(header));
  header.len = sizeof(header) + sizeof(out);
  const iovec amended[2] = {{&header, sizeof(header)}, {&out, sizeof(out)}};
  const ssize_t written = request.Reply(amended, 2);
  if (written >= 0 && options_.on_handshake) options_.on_handshake();
  return written;
}

bool FuseDispatcher::NotifyInode(std::uint64_t inode, std::int64_t first_byte,
                                 std::int64_t length_bytes) {
  // A call that is being served tells the kernel, too.
  const Served serving = std::exchange(served, {});
  notify_fd = fd_;
  const int error = fuse_lowlevel_notify_inval_inode(session_, inode, first_byte, length_bytes);
  served = serving;
  // ENOENT: the kernel does not know the inode, so it has no pages of it. ENODEV: unmounted.
  if (error != 0 && error != -ENOENT && error != -ENODEV) {
    spdlog::warn("telling the kernel to forget inode {}: {}", inode, std::strerror(-error));
  }
  return error != -ENOENT;
}

bool FuseDispatcher::NotifyNames() const {
  fuse_out_header notice{};
  notice.len = sizeof(notice);
  notice.error = kNotifyIncEpoch;
  return ::write(fd_, &notice, sizeof(notice)) == sizeof(notice);
}

}  // namespace reel::client
