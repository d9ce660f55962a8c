#include "client/fuse/connection/fuse_session.h"

#include <fuse_lowlevel.h>
#include <linux/fuse.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/fuse/uring/cpus.h"
#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

// A worker that is asked to stop may be about to block in read(2), so it is asked again.
constexpr std::uint32_t kStopRepeatMs = 10;
// For so long an end that nobody has prepared lets requests finish.
constexpr std::uint32_t kLastDrainMs = 2'000;
// Where io_uring brings the requests, these read what is left: forgets, interrupts.
constexpr std::uint32_t kThreadsBesideUring = 1;

// Whether the kernel's module says that it would offer it. It cannot be asked before the mount.
bool KernelOffersUring() {
  std::string value;
  std::getline(std::ifstream("/sys/module/fuse/parameters/enable_uring"), value);
  return value == "Y";
}

constexpr char kTurnItOn[] =
    "uring=on: this kernel does not offer FUSE over io_uring; it takes Linux 6.14 or later, and "
    "`echo Y > /sys/module/fuse/parameters/enable_uring`";

// So much of a limit holds where each queue has fewer entries than one alone would: all requests
// may come to one queue.
std::uint32_t LimitBy(UringChoice uring, std::uint32_t limit) {
  if (uring == UringChoice::kOff) return limit;
  const auto queues = static_cast<std::uint32_t>(PossibleCpus().size());
  return std::max(1u, ShareOfEntries(limit, UringEntriesOfAQueue(queues)));
}

DirectGate::Options GateOptions(const FuseSession::Options& options, UringChoice uring) {
  return {.max_served = LimitBy(uring, options.direct.max_served),
          .max_parked = LimitBy(uring, options.direct.max_parked),
          .stall_ms = options.direct.stall_ms};
}

}  // namespace

FuseSession::FuseSession(const Options& options, UringChoice uring)
    : options_(options),
      uring_choice_(uring),
      dispatcher_({.max_background = LimitBy(uring, options_.max_background),
                   .request_bytes = options_.request_bytes,
                   .awake = options_.awake,
                   .direct_io_mmap = options_.direct_io_mmap,
                   .wants_uring = [this] { return uring_ != nullptr; },
                   .on_handshake =
                       [this] {
                         MutexLock lock(mutex_);
                         ready_ = true;
                         changed_.NotifyAll();
                       },
                   .times = options_.times}),
      gate_(GateOptions(options_, uring),
            [this](const DirectGate::Parked& parked, int error) { AnswerParked(parked, error); }),
      dev_fuse_({.threads = options_.threads,
                 .max_threads = options_.max_threads,
                 .request_bytes = options_.request_bytes,
                 .on_end = [this] { End(); }},
                dispatcher_, gate_) {}

absl::StatusOr<std::unique_ptr<FuseSession>> FuseSession::Mount(const Options& options,
                                                                const fuse_lowlevel_ops& ops,
                                                                void* userdata) {
  UringChoice uring = options.uring;
  if (uring != UringChoice::kOff && !KernelOffersUring()) {
    if (uring == UringChoice::kOn) return absl::FailedPreconditionError(kTurnItOn);
    uring = UringChoice::kOff;
  }
  auto session = TryMount(options, uring, ops, userdata);
  if (session.ok()) (*session)->TellOfEnd();
  if (uring != UringChoice::kAuto || !absl::IsUnimplemented(session.status())) return session;
  // It was promised in the handshake, so only another mount can do without.
  spdlog::warn("{}: {}; FUSE goes through /dev/fuse", options.mount_point,
               std::string(session.status().message()));
  session = TryMount(options, UringChoice::kOff, ops, userdata);
  if (session.ok()) (*session)->TellOfEnd();
  return session;
}

// Not before it is mounted: one that is given up for another ends as well.
void FuseSession::TellOfEnd() {
  bool ended = false;
  {
    MutexLock lock(mutex_);
    tells_of_end_ = true;
    ended = ended_;
  }
  if (ended && options_.on_end) options_.on_end();
}

absl::StatusOr<std::unique_ptr<FuseSession>> FuseSession::TryMount(const Options& options,
                                                                   UringChoice uring,
                                                                   const fuse_lowlevel_ops& ops,
                                                                   void* userdata) {
  std::unique_ptr<FuseSession> session(new FuseSession(options, uring));
  if (absl::Status status = session->PrepareUring(); !status.ok()) return status;
  if (absl::Status status = session->Open(ops, userdata); !status.ok()) return status;
  if (absl::Status status = session->AwaitHandshake(); !status.ok()) return status;
  return session;
}

absl::Status FuseSession::PrepareUring() {
  if (uring_choice_ == UringChoice::kOff) return absl::OkStatus();
  auto server = UringServer::Create(
      UringServer::ForThisMachine(options_.threads, options_.max_threads, options_.request_bytes),
      dispatcher_, gate_, [this] { End(); });
  if (!server.ok()) return absl::UnimplementedError(server.status().message());
  uring_ = *std::move(server);
  return absl::OkStatus();
}

absl::Status FuseSession::Open(const fuse_lowlevel_ops& ops, void* userdata) {
  std::vector<std::string> options = options_.mount_options;
  options.push_back(absl::StrCat("fsname=", options_.source));
  options.push_back(absl::StrCat("subtype=", options_.subtype));
  auto abort = ConnectionAbort::Prepare(options_.mount_point);
  if (!abort.ok()) return abort.status();
  absl::Status opened =
      dispatcher_.Open(options_.subtype, options, options_.mount_point, ops, userdata);
  if (!opened.ok()) return opened;
  abort_.emplace(*std::move(abort));
  return abort_->Attach(options_.mount_point);
}

absl::Status FuseSession::AwaitHandshake() {
  if (!dev_fuse_.Start()) return absl::ResourceExhaustedError("cannot start a thread");
  {
    MutexLock lock(mutex_);
    while (!ready_ && !ended_) changed_.Wait(mutex_);
    if (!ready_) return absl::FailedPreconditionError("the kernel ended the FUSE handshake");
  }
  if (uring_ == nullptr) return absl::OkStatus();
  if (!dispatcher_.promised_uring()) return absl::UnimplementedError(kTurnItOn);
  if (absl::Status status = uring_->Register(); !status.ok()) return status;
  dev_fuse_.Keep(kThreadsBesideUring);
  return absl::OkStatus();
}

FuseSession::~FuseSession() {
  {
    MutexLock lock(mutex_);
    tells_of_end_ = false;
  }
  Detach();  // does nothing where nothing is mounted
  StopWorkers(kLastDrainMs);
  Abort();
  StopWorkers(UINT32_MAX);
  uring_.reset();  // its threads tell of the connection's end
}

bool FuseSession::MapsDirectFiles() {
  return FuseDispatcher::CurrentDispatcher().direct_io_mmap();
}

std::span<std::byte> FuseSession::ReplyBuffer() {
  return FuseDispatcher::Current().reply_buffer();
}

bool FuseSession::IsPageCacheRequest() {
  return FuseDispatcher::Current().IsPageCache();
}

bool FuseSession::MayMissInterrupt() {
  const KernelRequest& request = FuseDispatcher::Current();
  return request.over_uring() && !request.IsWriteBack();
}

bool FuseSession::IsStatx() {
  return FuseDispatcher::Current().opcode() == kOpStatx;
}

bool FuseSession::IsTmpfile() {
  return FuseDispatcher::Current().opcode() == kOpTmpfile;
}

void FuseSession::End() {
  bool first = false;
  {
    MutexLock lock(mutex_);
    first = !ended_ && tells_of_end_;
    ended_ = true;
    changed_.NotifyAll();
  }
  if (first && options_.on_end) options_.on_end();
}

void FuseSession::AnswerParked(const DirectGate::Parked& parked, int error) {
  if (parked.place != nullptr) {
    uring_->AnswerParked(static_cast<UringEntry&>(*parked.place), error);
  } else {
    dev_fuse_.AnswerParked(parked.unique, error);
  }
}

void FuseSession::Invalidate(std::uint64_t inode, std::uint64_t from_bytes,
                             std::uint64_t length_bytes) {
  gate_.BeginInvalidation();
  dispatcher_.NotifyInode(inode, static_cast<std::int64_t>(from_bytes),
                          static_cast<std::int64_t>(length_bytes));
  gate_.EndInvalidation();
}

bool FuseSession::InvalidateAttributes(std::uint64_t inode) {
  gate_.BeginInvalidation();
  const bool known = dispatcher_.NotifyInode(inode, -1, 0);
  gate_.EndInvalidation();
  return known;
}

bool FuseSession::ForgetNames() {
  return dispatcher_.NotifyNames();
}

bool FuseSession::ended() const {
  MutexLock lock(mutex_);
  return ended_;
}

void FuseSession::Detach() {
  dispatcher_.Unmount();
}

bool FuseSession::StopWorkers(std::uint32_t timeout_ms) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  dev_fuse_.Stop();
  gate_.Stop();
  if (uring_ != nullptr) uring_->Stop();
  for (;;) {
    const bool none_reads = dev_fuse_.Wake();
    if (none_reads && (uring_ == nullptr || uring_->IsIdle())) return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
    MutexLock lock(mutex_);
    changed_.WaitFor(mutex_, std::chrono::milliseconds(kStopRepeatMs));
  }
}

void FuseSession::Abort() {
  if (abort_) abort_->Abort();
}

}  // namespace reel::client
