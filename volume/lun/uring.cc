#include "volume/lun/uring.h"

#include <linux/fs.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/uio.h>

#include <atomic>
#include <cerrno>
#include <initializer_list>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"
#include "volume/base/check.h"
#include "volume/lun/device_fault.h"
#include "volume/lun/lun_fault.h"

namespace reel {
namespace {

std::string ErrorText(int error) {
  return std::generic_category().message(error);
}

// The child of a fork must not touch its parent's ring: the kernel ties a ring to the task that
// made it.
std::atomic<std::uint64_t> g_forks{0};

// Orders the end of a ring before the next one that the kernel maps at the same address. The kernel
// does so anyway, but liburing's system calls are hidden from TSan.
std::atomic<std::uint32_t> g_ring_turns{0};

void CountForks() {
  static const int registered = pthread_atfork(nullptr, nullptr, [] { ++g_forks; });
  REEL_CHECK(registered == 0, "pthread_atfork has memory");
}

struct ThreadRing {
  std::optional<Uring> uring;
  std::uint64_t forks = 0;
};
thread_local ThreadRing t_ring;

// From the cheapest kind of completion to the plainest: 6.1 knows the first, 5.19 the second.
int InitRing(io_uring& ring) {
  int error = 0;
  for (const unsigned flags :
       {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN, IORING_SETUP_COOP_TASKRUN, 0U}) {
    error = -io_uring_queue_init(Uring::kEntries, &ring, flags);
    if (error != EINVAL) break;
  }
  return error;
}

void LogRefusalOnce(int error) {
  static std::atomic<bool> logged{false};
  if (logged.exchange(true)) return;
  spdlog::warn(
      "io_uring is refused here ({}): LUN I/O falls back to one request at a time; allow io_uring "
      "(kernel.io_uring_disabled, seccomp profile) for full speed",
      ErrorText(error));
}

// The result as a completion entry has it: bytes, or a negative errno.
int TransferBlocking(int fd, const LunRequest& request) {
  const auto count = static_cast<int>(request.parts.size());
  const auto offset = static_cast<off_t>(request.offset_bytes);
  ssize_t result;
  do {
    result = request.kind == LunRequest::Kind::kRead
                 ? preadv(fd, request.parts.data(), count, offset)
                 : pwritev(fd, request.parts.data(), count, offset);
  } while (result < 0 && errno == EINTR);
  return static_cast<int>(result < 0 ? -errno : result);
}

// The request was within the device when that was opened. A device that the kernel removes has no
// size any more: its writes end as ENOSPC, and its reads with nothing.
bool IsBeyondDevice(UringFile file, const LunRequest& request, int result) {
  const bool cut = result >= 0 && static_cast<std::uint64_t>(result) < request.length_bytes;
  if (result != -ENOSPC && !cut) return false;
  std::uint64_t size_bytes = 0;
  return ioctl(file.fd, BLKGETSIZE64, &size_bytes) == 0 &&
         size_bytes < request.offset_bytes + request.length_bytes;
}

// Of an image file every failed transfer is UNKNOWN: whether the bytes of a failed write reached
// the medium is just that.
absl::Status Outcome(UringFile file, const LunRequest& request, int result) {
  if (file.device && IsBeyondDevice(file, request, result)) {
    return LunFaultStatus(LunFault::kInDoubt, "the device is gone, or smaller than it was");
  }
  if (result < 0 && file.device) return DeviceFailure(-result);
  if (result < 0) return absl::UnknownError(ErrorText(-result));
  if (static_cast<std::uint64_t>(result) != request.length_bytes) {
    return absl::UnknownError(absl::StrCat("only ", result, " bytes were transferred"));
  }
  return absl::OkStatus();
}

}  // namespace

Uring::Uring(Mode mode) : mode_(mode) {
  if (mode_ == Mode::kBlocking) return;
  if (const int error = InitRing(ring_); error != 0) {
    LogRefusalOnce(error);
    mode_ = Mode::kBlocking;
    return;
  }
  g_ring_turns.fetch_add(1, std::memory_order_acq_rel);
  free_.reserve(kEntries);
  for (unsigned i = kEntries; i > 0; --i) free_.push_back(static_cast<std::uint16_t>(i - 1));
}

Uring::~Uring() {
  if (mode_ == Mode::kBlocking) return;
  g_ring_turns.fetch_add(1, std::memory_order_acq_rel);
  io_uring_queue_exit(&ring_);
}

Uring& Uring::ForThisThread() {
  const std::uint64_t forks = g_forks.load(std::memory_order_relaxed);
  if (!t_ring.uring.has_value() || t_ring.forks != forks) {
    CountForks();
    t_ring.uring.emplace(Mode::kRing);
    t_ring.forks = forks;
  }
  return *t_ring.uring;
}

void Uring::DrainThisThread() {
  if (t_ring.uring.has_value()) ForThisThread().Drain();
}

void Uring::Start(UringFile file, LunRequest& request) {
  if (mode_ == Mode::kBlocking) {
    request.Complete(Outcome(file, request, TransferBlocking(file.fd, request)));
    return;
  }
  if (first_.request == nullptr && free_.size() == kEntries) {
    first_ = {&request, file};
    return;
  }
  if (first_.request != nullptr) Queue(std::exchange(first_, {}));
  while (free_.empty()) {
    SubmitAndWait(1);
    Reap();
  }
  Queue({&request, file});
}

void Uring::Queue(const Flight& flight) {
  const int fd = flight.file.fd;
  const LunRequest& request = *flight.request;
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  REEL_CHECK(sqe != nullptr, "the submission queue has room for every free flight");
  const std::uint16_t place = free_.back();
  free_.pop_back();
  flights_[place] = flight;

  const iovec* parts = request.parts.data();
  const bool read = request.kind == LunRequest::Kind::kRead;
  if (request.parts.size() == 1) {  // spares the kernel the copy of an iovec
    const auto length = static_cast<unsigned>(parts->iov_len);
    if (read) {
      io_uring_prep_read(sqe, fd, parts->iov_base, length, request.offset_bytes);
    } else {
      io_uring_prep_write(sqe, fd, parts->iov_base, length, request.offset_bytes);
    }
  } else {
    const auto count = static_cast<unsigned>(request.parts.size());
    if (read) {
      io_uring_prep_readv(sqe, fd, parts, count, request.offset_bytes);
    } else {
      io_uring_prep_writev(sqe, fd, parts, count, request.offset_bytes);
    }
  }
  io_uring_sqe_set_data64(sqe, place);
}

void Uring::Drain() {
  if (mode_ == Mode::kBlocking) return;
  if (first_.request != nullptr) {
    const Flight single = std::exchange(first_, {});
    single.request->Complete(
        Outcome(single.file, *single.request, TransferBlocking(single.file.fd, *single.request)));
  }
  while (free_.size() < kEntries) {
    SubmitAndWait(static_cast<unsigned>(kEntries - free_.size()));
    Reap();
  }
}

void Uring::SubmitAndWait(unsigned completions) {
  const int result = io_uring_submit_and_wait(&ring_, completions);
  if (result >= 0 || result == -EINTR) return;
  // Anything else would leave requests in an unknown state, with the kernel free to fill their
  // memory.
  REEL_CHECK(result == -EAGAIN || result == -EBUSY, "io_uring_enter takes a well-formed ring");
  sched_yield();  // the kernel lacks memory for the moment; what is in flight gives some back
}

void Uring::Reap() {
  io_uring_cqe* cqe = nullptr;
  unsigned head;
  unsigned count = 0;
  io_uring_for_each_cqe(&ring_, head, cqe) {
    const auto place = static_cast<std::uint16_t>(io_uring_cqe_get_data64(cqe));
    const Flight flight = flights_[place];
    free_.push_back(place);
    ++count;
    Finish(flight, cqe->res);
  }
  io_uring_cq_advance(&ring_, count);
}

void Uring::Finish(const Flight& flight, int result) {
  // Both say that nothing was transferred, only that the kernel would not queue it.
  if (result == -EAGAIN || result == -EINTR) {
    result = TransferBlocking(flight.file.fd, *flight.request);
  }
  flight.request->Complete(Outcome(flight.file, *flight.request, result));
}

}  // namespace reel
