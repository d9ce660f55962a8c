#include "client/fuse/fuse_session.h"

#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <signal.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "spdlog/spdlog.h"
#include "volume/base/aligned_buffer.h"

namespace reel::client {
namespace {

// Newer than this system's <linux/fuse.h>: bit 36 of the INIT flags, of which `flags2` holds 32 and
// up.
constexpr std::uint32_t kDirectIoAllowMmapFlags2 = 1u << (36 - 32);

// Opcodes newer than this system's <linux/fuse.h>.
constexpr std::uint32_t kOpTmpfile = 51;
constexpr std::uint32_t kOpStatx = 52;

// A notice newer than this system's <linux/fuse.h>: FUSE_NOTIFY_INC_EPOCH.
constexpr std::int32_t kNotifyIncEpoch = 8;

constexpr std::size_t kPageBytes = kIoAlignment;
constexpr std::size_t kWriteHeaderBytes = sizeof(fuse_in_header) + sizeof(fuse_write_in);
constexpr std::size_t kRequestBytes = kWriteHeaderBytes + kMaxFuseRequestBytes;
// A worker that is asked to stop may be about to block in read(2), so it is asked again.
constexpr std::uint32_t kStopRepeatMs = 20;
constexpr int kWakeSignal = SIGUSR2;

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

void IgnoreSignal(int) {}

}  // namespace

struct FuseSession::Worker {
  explicit Worker(FuseSession& owner) : session(owner), buffer(kPageBytes + kMaxFuseRequestBytes) {}

  // A request starts so that a WRITE's payload begins on the second page.
  char* request() const {
    return reinterpret_cast<char*>(buffer.data()) + kPageBytes - kWriteHeaderBytes;
  }
  fuse_in_header& header() const { return *reinterpret_cast<fuse_in_header*>(request()); }

  FuseSession& session;
  AlignedBuffer buffer;
  std::uint32_t opcode = 0;              // as the kernel sent it
  std::atomic<std::uint64_t> unique{0};  // of the request in progress; 0: none
  std::thread thread;
  std::atomic<bool> reading{false};  // in read(2), or about to be
  bool finished = false;             // under the session's mutex
};

FuseSession::FuseSession(const Options& options)
    : options_(options), gate_(options.direct, [this](std::uint64_t unique, int error) {
        FuseRefuser::Refuse(fd_, unique, error);
      }) {}

namespace {
thread_local void* current_worker = nullptr;  // a FuseSession::Worker
thread_local int notify_fd = -1;              // on other threads, while they notify the kernel
}  // namespace

const FuseSession& FuseSession::Current() {
  return static_cast<Worker*>(current_worker)->session;
}

std::span<std::byte> FuseSession::ReplyBuffer() {
  return static_cast<Worker*>(current_worker)->buffer.span().subspan(kPageBytes);
}

bool FuseSession::IsPageCacheRequest() {
  const Worker& worker = *static_cast<Worker*>(current_worker);
  const char* arguments = worker.request() + sizeof(fuse_in_header);
  // A request from an application's buffer names its owner, one from the page cache does not.
  if (worker.header().opcode == FUSE_READ) {
    const auto& in = *reinterpret_cast<const fuse_read_in*>(arguments);
    return (in.read_flags & FUSE_READ_LOCKOWNER) == 0;
  }
  const auto& in = *reinterpret_cast<const fuse_write_in*>(arguments);
  return (in.write_flags & FUSE_WRITE_CACHE) != 0 || (in.write_flags & FUSE_WRITE_LOCKOWNER) == 0;
}

bool FuseSession::IsStatx() {
  return static_cast<Worker*>(current_worker)->opcode == kOpStatx;
}

bool FuseSession::IsTmpfile() {
  return static_cast<Worker*>(current_worker)->opcode == kOpTmpfile;
}

absl::StatusOr<std::unique_ptr<FuseSession>> FuseSession::Mount(const Options& options,
                                                                const fuse_lowlevel_ops& ops,
                                                                void* userdata) {
  std::unique_ptr<FuseSession> session(new FuseSession(options));
  if (absl::Status status = session->Open(ops, userdata); !status.ok()) return status;
  if (absl::Status status = session->AwaitHandshake(); !status.ok()) return status;
  return session;
}

absl::Status FuseSession::Open(const fuse_lowlevel_ops& ops, void* userdata) {
  std::vector<std::string> options = options_.mount_options;
  options.push_back(absl::StrCat("fsname=", options_.source));
  options.push_back(absl::StrCat("subtype=", options_.subtype));
  std::string list = absl::StrJoin(options, ",");

  std::string program = options_.subtype;
  std::string flag = "-o";
  char* argv[] = {program.data(), flag.data(), list.data(), nullptr};
  fuse_args arguments = FUSE_ARGS_INIT(3, argv);
  absl::Cleanup free_arguments = [&arguments] { fuse_opt_free_args(&arguments); };

  std::string reason;
  captured_log = &reason;
  absl::Cleanup release_log = [] { captured_log = nullptr; };
  fuse_set_log_func(OnFuseLog);

  fuse_lowlevel_ops table = ops;
  table.init = &FuseSession::OnInit;
  session_ = fuse_session_new(&arguments, &table, sizeof(table), userdata);
  if (session_ == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("mount options \"", list, "\": ", reason));
  }
  if (fuse_session_mount(session_, options_.mount_point.c_str()) != 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot mount on ", options_.mount_point, ": ",
                     reason.empty() ? "the kernel refused it" : reason));
  }
  // A descriptor of our own, for libfuse closes its own when it unmounts, and we go on answering.
  fd_ = fcntl(fuse_session_fd(session_), F_DUPFD_CLOEXEC, 0);
  if (fd_ < 0) return absl::ErrnoToStatus(errno, "dup of /dev/fuse");
  fuse_custom_io io{};
  io.writev = &FuseSession::WriteReply;
  io.read = [](int fd, void* buffer, std::size_t length, void*) {
    return ::read(fd, buffer, length);
  };
  if (const int error = fuse_session_custom_io(session_, &io, fuse_session_fd(session_));
      error != 0) {
    return absl::InternalError(absl::StrCat("libfuse refused our I/O functions: error ", -error));
  }

  struct sigaction action {};
  action.sa_handler = IgnoreSignal;  // without SA_RESTART: it only interrupts read(2)
  sigaction(kWakeSignal, &action, nullptr);
  return absl::OkStatus();
}

absl::Status FuseSession::AwaitHandshake() {
  MutexLock lock(mutex_);
  for (std::uint32_t i = 0; i < options_.threads; ++i) {
    if (!StartWorker()) return absl::ResourceExhaustedError("cannot start a thread");
  }
  while (!ready_ && !ended_) changed_.Wait(mutex_);
  if (!ready_) return absl::FailedPreconditionError("the kernel ended the FUSE handshake");
  return absl::OkStatus();
}

FuseSession::~FuseSession() {
  if (session_ == nullptr) return;
  Detach();  // does nothing where nothing is mounted
  StopWorkers(UINT32_MAX);
  {
    MutexLock lock(mutex_);
    Reap();
  }
  fuse_session_destroy(session_);
  refuser_.reset();
  if (fd_ >= 0) close(fd_);
}

void FuseSession::OnInit(void*, fuse_conn_info* connection) {
  FuseSession& self = static_cast<Worker*>(current_worker)->session;
  connection->want = connection->capable & kWantedCapabilities;
  connection->max_write = kMaxFuseRequestBytes;
  connection->max_readahead = kMaxFuseRequestBytes;
  connection->max_background = self.options_.max_background;
  connection->congestion_threshold = self.options_.max_background * 3 / 4;
}

ssize_t FuseSession::WriteReply(int, iovec* parts, int count, void*) {
  if (current_worker == nullptr) return ::writev(notify_fd, parts, count);
  const Worker& worker = *static_cast<Worker*>(current_worker);
  const int fd = worker.session.fd_;
  if (worker.header().opcode != FUSE_INIT || count != 2 ||
      parts[1].iov_len < sizeof(fuse_init_out)) {
    return ::writev(fd, parts, count);
  }
  // The kernel's INIT tells in the same flags what it knows.
  const auto& in =
      *reinterpret_cast<const fuse_init_in*>(worker.request() + sizeof(fuse_in_header));
  const bool knows = worker.header().len >= sizeof(fuse_in_header) + sizeof(fuse_init_in) &&
                     (in.flags & FUSE_INIT_EXT) != 0 && (in.flags2 & kDirectIoAllowMmapFlags2) != 0;
  FuseSession& self = worker.session;
  fuse_init_out out;
  std::memcpy(&out, parts[1].iov_base, sizeof(out));
  if (knows && self.options_.direct_io_mmap) {
    out.flags |= FUSE_INIT_EXT;
    out.flags2 |= kDirectIoAllowMmapFlags2;
    self.direct_io_mmap_.store(true, std::memory_order_release);
  }
  iovec amended[2] = {parts[0], {&out, sizeof(out)}};
  fuse_out_header header;
  std::memcpy(&header, parts[0].iov_base, sizeof(header));
  header.len = sizeof(header) + sizeof(out);
  amended[0] = {&header, sizeof(header)};
  const ssize_t written = ::writev(fd, amended, 2);
  if (written >= 0) {
    MutexLock lock(self.mutex_);
    self.ready_ = true;
    self.changed_.NotifyAll();
  }
  return written;
}

bool FuseSession::StartWorker() {
  Reap();
  if (running_ >= options_.max_threads) return false;
  workers_.push_back(std::make_unique<Worker>(*this));
  Worker& worker = *workers_.back();
  idle_.fetch_add(1, std::memory_order_relaxed);
  try {
    worker.thread = std::thread([this, &worker] { Run(worker); });
  } catch (const std::system_error& error) {
    spdlog::warn("starting another worker: {}", error.what());
    idle_.fetch_sub(1, std::memory_order_relaxed);
    workers_.pop_back();
    return false;
  }
  ++running_;
  return true;
}

void FuseSession::Reap() {
  std::erase_if(workers_, [](const std::unique_ptr<Worker>& worker) {
    if (!worker->finished) return false;
    worker->thread.join();
    return true;
  });
}

void FuseSession::Run(Worker& worker) {
  pthread_setname_np(pthread_self(), "reel-fuse");
  current_worker = &worker;
  while (!stop_.load(std::memory_order_acquire) && ServeOne(worker)) {
  }
  current_worker = nullptr;
  MutexLock lock(mutex_);
  worker.finished = true;
  --running_;
  changed_.NotifyAll();
}

bool FuseSession::ServeOne(Worker& worker) {
  worker.reading.store(true, std::memory_order_relaxed);
  const ssize_t length = ::read(fd_, worker.request(), kRequestBytes);
  worker.reading.store(false, std::memory_order_relaxed);
  if (length < 0) {
    // ENOENT: the request was interrupted before we had it.
    if (errno == EINTR || errno == EAGAIN || errno == ENOENT) return true;
    if (errno != ENODEV) spdlog::error("reading from /dev/fuse: {}", std::strerror(errno));
    End();
    return false;
  }
  if (static_cast<std::size_t>(length) < sizeof(fuse_in_header)) return true;

  if (idle_.fetch_sub(1, std::memory_order_relaxed) == 1) {
    MutexLock lock(mutex_);
    if (!ended_ && !stop_.load(std::memory_order_relaxed)) StartWorker();
  }
  // Either RefuseRequests sees this one, or it is seen here.
  worker.unique.store(worker.header().unique, std::memory_order_seq_cst);
  if (refuse_.load(std::memory_order_seq_cst)) {
    FuseRefuser::Refuse(fd_, worker.header().unique);
    return false;
  }
  // Who gives up what is parked is answered here; libfuse does not know of it.
  if (worker.header().opcode == FUSE_INTERRUPT) {
    const auto& in =
        *reinterpret_cast<const fuse_interrupt_in*>(worker.request() + sizeof(fuse_in_header));
    if (gate_.Interrupt(in.unique)) return BecomeIdle();
  }
  const bool direct = IsDirect(worker);
  if (direct && !EnterGate(worker, static_cast<std::size_t>(length))) return BecomeIdle();
  Serve(worker, static_cast<std::size_t>(length));
  for (auto next = direct ? gate_.Leave() : std::nullopt; next; next = gate_.Leave()) {
    std::memcpy(worker.request(), next->data(), next->size());
    worker.unique.store(worker.header().unique, std::memory_order_seq_cst);
    Serve(worker, next->size());
  }
  return BecomeIdle();
}

bool FuseSession::IsDirect(const Worker& worker) {
  const std::uint32_t opcode = worker.header().opcode;
  return (opcode == FUSE_READ || opcode == FUSE_WRITE) && !IsPageCacheRequest();
}

bool FuseSession::EnterGate(Worker& worker, std::size_t length) {
  const std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(worker.request()),
                                         length);
  const std::uint64_t unique = worker.header().unique;
  if (gate_.Enter(unique, bytes)) return true;
  worker.unique.store(0, std::memory_order_relaxed);
  // It may have been kept behind those that RefuseRequests has seen.
  if (refuse_.load(std::memory_order_seq_cst)) gate_.AnswerParked(ENOTCONN);
  return false;
}

void FuseSession::Serve(Worker& worker, std::size_t length) {
  worker.opcode = worker.header().opcode;
  if (worker.opcode == kOpStatx) worker.header().opcode = FUSE_GETATTR;
  if (worker.opcode == kOpTmpfile) worker.header().opcode = FUSE_CREATE;
  fuse_buf request{};
  request.size = length;
  request.mem = worker.request();
  fuse_session_process_buf(session_, &request);
  worker.unique.store(0, std::memory_order_relaxed);
}

// In one step: who ends was never counted, so that whoever takes a request meanwhile sees how many
// there are to read the next one.
bool FuseSession::BecomeIdle() {
  std::int32_t idle = idle_.load(std::memory_order_relaxed);
  do {
    if (idle >= static_cast<std::int32_t>(options_.threads)) return false;
  } while (!idle_.compare_exchange_weak(idle, idle + 1, std::memory_order_relaxed));
  return true;
}

void FuseSession::End() {
  bool first = false;
  {
    MutexLock lock(mutex_);
    first = !ended_;
    ended_ = true;
    changed_.NotifyAll();
  }
  if (first && options_.on_end) options_.on_end();
}

void FuseSession::Invalidate(std::uint64_t inode, std::uint64_t from_bytes,
                             std::uint64_t length_bytes) {
  Notify(inode, static_cast<std::int64_t>(from_bytes), static_cast<std::int64_t>(length_bytes));
}

void FuseSession::InvalidateAttributes(std::uint64_t inode) {
  Notify(inode, -1, 0);
}

void FuseSession::Notify(std::uint64_t inode, std::int64_t first_byte, std::int64_t length_bytes) {
  notify_fd = fd_;
  gate_.BeginInvalidation();
  const int error = fuse_lowlevel_notify_inval_inode(session_, inode, first_byte, length_bytes);
  gate_.EndInvalidation();
  // ENOENT: the kernel does not know the inode, so it has no pages of it. ENODEV: unmounted.
  if (error != 0 && error != -ENOENT && error != -ENODEV) {
    spdlog::warn("telling the kernel to forget inode {}: {}", inode, std::strerror(-error));
  }
}

bool FuseSession::ForgetNames() {
  fuse_out_header notice{};
  notice.len = sizeof(notice);
  notice.error = kNotifyIncEpoch;
  return ::write(fd_, &notice, sizeof(notice)) == sizeof(notice);
}

bool FuseSession::ended() const {
  MutexLock lock(mutex_);
  return ended_;
}

void FuseSession::Detach() {
  fuse_session_unmount(session_);
}

bool FuseSession::StopWorkers(std::uint32_t timeout_ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  stop_.store(true, std::memory_order_release);
  gate_.Stop();
  MutexLock lock(mutex_);
  while (running_ > 0) {
    for (const std::unique_ptr<Worker>& worker : workers_) {
      if (!worker->finished && worker->reading.load(std::memory_order_relaxed)) {
        pthread_kill(worker->thread.native_handle(), kWakeSignal);
      }
    }
    if (std::chrono::steady_clock::now() >= deadline) return false;
    changed_.WaitFor(mutex_, std::chrono::milliseconds(kStopRepeatMs));
  }
  return true;
}

void FuseSession::RefuseRequests() {
  MutexLock lock(mutex_);
  refuse_.store(true, std::memory_order_seq_cst);
  for (const std::unique_ptr<Worker>& worker : workers_) {
    const std::uint64_t unique = worker->unique.load(std::memory_order_seq_cst);
    if (unique != 0) FuseRefuser::Refuse(fd_, unique);
  }
  gate_.AnswerParked(ENOTCONN);
  if (!refuser_) refuser_.emplace(fd_, kRequestBytes);
}

// The connection ends with the last descriptor of it. A worker that writes its reply must not find
// another file under this number.
void FuseSession::Disconnect() {
  refuser_.reset();
  const int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
  if (nowhere < 0 || dup3(nowhere, fd_, O_CLOEXEC) < 0) {
    spdlog::warn("letting go of /dev/fuse: {}", std::strerror(errno));
  }
  if (nowhere >= 0) close(nowhere);
}

}  // namespace reel::client
