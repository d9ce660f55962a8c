#include "client/fuse/uring/uring_ring.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

constexpr unsigned kSubmissions = 64;
// The kernel keeps completions beyond these until there is room.
constexpr unsigned kMostCompletions = 4'096;

}  // namespace

UringRing::~UringRing() {
  if (made_) io_uring_queue_exit(&ring_);
}

absl::Status UringRing::Init(unsigned in_flight) {
  io_uring_params parameters{};
  parameters.flags = IORING_SETUP_SQE128 | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CQSIZE |
                     IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN;
  parameters.cq_entries = std::clamp(2 * in_flight, 8u, kMostCompletions);
  const unsigned submissions = std::min(in_flight + 1, kSubmissions);
  if (const int error = -io_uring_queue_init_params(submissions, &ring_, &parameters); error != 0) {
    return absl::UnimplementedError(absl::StrCat("io_uring is refused: ", std::strerror(error)));
  }
  made_ = true;
  return absl::OkStatus();
}

io_uring_sqe* UringRing::Next() {
  io_uring_sqe* entry = io_uring_get_sqe(&ring_);
  while (entry == nullptr) {
    io_uring_submit(&ring_);
    entry = io_uring_get_sqe(&ring_);
  }
  return entry;
}

void UringRing::Command(UringEntry& entry, UringOperation operation) {
  io_uring_sqe& command = *Next();
  std::memset(&command, 0, 2 * sizeof(io_uring_sqe));  // such are twice as long here
  command.opcode = IORING_OP_URING_CMD;
  command.fd = dev_fuse_;
  command.cmd_op = static_cast<std::uint32_t>(operation);
  command.user_data = reinterpret_cast<std::uint64_t>(&entry);
  if (operation == UringOperation::kRegister) {
    command.addr = reinterpret_cast<std::uint64_t>(entry.pieces().data());
    command.len = static_cast<std::uint32_t>(entry.pieces().size());
  }
  const UringCommand request{.commit_id = entry.commit_id(), .queue = entry.queue()};
  std::memcpy(command.cmd, &request, sizeof(request));
}

void UringRing::Register(UringEntry& entry) {
  Command(entry, UringOperation::kRegister);
}

void UringRing::Commit(UringEntry& entry) {
  Command(entry, UringOperation::kCommitAndFetch);
}

void UringRing::Watch(int wake_fd) {
  io_uring_sqe* const command = Next();
  std::memset(command, 0, 2 * sizeof(io_uring_sqe));
  io_uring_prep_poll_add(command, wake_fd, POLLIN);
  command->user_data = 0;
}

bool UringRing::Wait(absl::FunctionRef<void(UringEntry* entry, int result)> completed) {
  return Reap(io_uring_submit_and_wait(&ring_, 1), completed);
}

bool UringRing::WaitFor(std::uint32_t limit_ms, bool* nothing_came,
                        absl::FunctionRef<void(UringEntry* entry, int result)> completed) {
  __kernel_timespec limit{};
  limit.tv_sec = limit_ms / 1'000;
  limit.tv_nsec = static_cast<long long>(limit_ms % 1'000) * 1'000'000;
  io_uring_cqe* first = nullptr;
  const int result = io_uring_submit_and_wait_timeout(&ring_, &first, 1, &limit, nullptr);
  *nothing_came =
      result == -ETIME && io_uring_sq_ready(&ring_) == 0 && io_uring_cq_ready(&ring_) == 0;
  return Reap(result, completed);
}

bool UringRing::Submit(absl::FunctionRef<void(UringEntry* entry, int result)> completed) {
  return Reap(io_uring_submit_and_get_events(&ring_), completed);
}

bool UringRing::Reap(int result, absl::FunctionRef<void(UringEntry* entry, int result)> completed) {
  // (Short of memory, or of room for completions: once more, behind what is reaped here.)
  constexpr int kPassing[] = {-EINTR, -EAGAIN, -EBUSY, -ETIME, -ENOMEM, -EBADR};
  if (result < 0 && std::ranges::find(kPassing, result) == std::end(kPassing)) {
    spdlog::error("io_uring of FUSE: {}", std::strerror(-result));
    return false;
  }
  io_uring_cqe* completion = nullptr;
  while (io_uring_peek_cqe(&ring_, &completion) == 0 && completion != nullptr) {
    auto* const entry = reinterpret_cast<UringEntry*>(completion->user_data);
    const int outcome = completion->res;
    io_uring_cqe_seen(&ring_, completion);
    completed(entry, outcome);
  }
  return true;
}

}  // namespace reel::client
