#include "client/fuse_ring.h"

#include <linux/fuse.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace reel::client {
namespace {

constexpr std::uint32_t kRegister = 1;        // FUSE_IO_URING_CMD_REGISTER
constexpr std::uint32_t kCommitAndFetch = 2;  // FUSE_IO_URING_CMD_COMMIT_AND_FETCH
// struct fuse_uring_cmd_req, in the second half of a submission.
struct CommandRequest {
  std::uint64_t flags;
  std::uint64_t commit_id;
  std::uint16_t queue;
  std::array<std::uint8_t, 6> padding;
};

constexpr std::uint32_t kMaxQueues = 256;
constexpr unsigned kSetup = IORING_SETUP_SQE128 | IORING_SETUP_SINGLE_ISSUER |
                            IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_R_DISABLED;

}  // namespace

// The kernel has one for each CPU that there may ever be, and waits until all have a seat.
std::uint16_t FuseRing::CountQueues() {
  std::ifstream file("/sys/devices/system/cpu/possible");
  std::string line;
  if (!std::getline(file, line)) return 0;
  absl::string_view last = line;
  if (line == "0") return 1;
  std::uint32_t number = 0;
  if (!absl::ConsumePrefix(&last, "0-") || !absl::SimpleAtoi(last, &number)) return 0;
  return number < kMaxQueues ? static_cast<std::uint16_t>(number + 1) : 0;
}

absl::StatusOr<std::unique_ptr<FuseRing>> FuseRing::Make(int fd, std::uint16_t queue) {
  std::unique_ptr<FuseRing> made(new FuseRing(fd, queue));
  if (const int error = -io_uring_queue_init(2, &made->ring_, kSetup); error != 0) {
    return absl::UnavailableError(absl::StrCat("io_uring: ", std::strerror(error)));
  }
  made->ring_made_ = true;
  return made;
}

FuseRing::~FuseRing() {
  if (ring_made_) io_uring_queue_exit(&ring_);
}

io_uring_sqe* FuseRing::Command(std::uint32_t command) {
  io_uring_sqe* const sqe = io_uring_get_sqe(&ring_);
  if (sqe == nullptr) return nullptr;  // (there is room: one is in use at most)
  std::memset(static_cast<void*>(sqe), 0, 2 * sizeof(io_uring_sqe));
  sqe->opcode = IORING_OP_URING_CMD;
  sqe->fd = fd_;
  sqe->cmd_op = command;
  const CommandRequest request{
      .flags = 0, .commit_id = headers_.ring.commit_id, .queue = queue_, .padding = {}};
  std::memcpy(sqe->cmd, &request, sizeof(request));
  return sqe;
}

int FuseRing::Join(char* payload, std::size_t payload_bytes) {
  payload_ = payload;
  payload_bytes_ = payload_bytes;
  // (Debian's liburing does not have io_uring_enable_rings.)
  const unsigned ring = static_cast<unsigned>(ring_.ring_fd);
  if (const int error = -io_uring_register(ring, IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
      error > 0) {
    return error;
  }
  memory_ = {iovec{&headers_, sizeof(headers_)}, iovec{payload, payload_bytes}};
  io_uring_sqe* const sqe = Command(kRegister);
  if (sqe == nullptr) return EBUSY;
  sqe->addr = reinterpret_cast<std::uint64_t>(memory_.data());
  sqe->len = memory_.size();
  state_ = State::kWaits;
  const int submitted = io_uring_submit(&ring_);
  return submitted < 0 ? -submitted : 0;
}

int FuseRing::PrepareAnswer() {
  if (state_ == State::kServes) {  // nobody has answered
    const fuse_out_header out{.len = sizeof(out), .error = -EIO, .unique = headers_.ring.commit_id};
    const iovec part{const_cast<fuse_out_header*>(&out), sizeof(out)};
    Reply(&part, 1);
  }
  if (state_ == State::kAnswered) {
    if (Command(kCommitAndFetch) == nullptr) return -EBUSY;
    state_ = State::kWaits;
  }
  return 0;
}

bool FuseRing::Drains() {
  return PrepareAnswer() == 0 && io_uring_submit_and_get_events(&ring_) >= 0 &&
         io_uring_cq_ready(&ring_) > 0;
}

ssize_t FuseRing::Next(char*& request) {
  if (const int error = PrepareAnswer(); error != 0) return error;
  if (const int done = io_uring_submit_and_wait(&ring_, 1); done < 0 && done != -EINTR) {
    return done;
  }
  io_uring_cqe* completion = nullptr;
  if (io_uring_peek_cqe(&ring_, &completion) != 0) return 0;
  const int result = completion->res;
  io_uring_cqe_seen(&ring_, completion);
  if (result < 0) return result;
  return TakeRequest(request);
}

ssize_t FuseRing::TakeRequest(char*& request) {
  state_ = State::kServes;
  fuse_in_header in;
  std::memcpy(&in, headers_.in_out.data(), sizeof(in));
  const std::size_t payload = headers_.ring.payload_bytes;
  if (in.len < sizeof(in) + payload || in.len - payload - sizeof(in) > headers_.op_in.size()) {
    return -EPROTO;
  }
  const std::size_t arguments = in.len - payload - sizeof(in);
  request = payload_ - arguments - sizeof(in);
  std::memcpy(request, &in, sizeof(in));
  std::memcpy(request + sizeof(in), headers_.op_in.data(), arguments);
  return in.len;
}

int FuseRing::Reply(const iovec* parts, int count) {
  if (state_ != State::kServes) return ENOENT;
  fuse_out_header out;
  std::memcpy(&out, parts[0].iov_base, sizeof(out));
  std::size_t filled = 0;
  for (int i = 1; i < count; ++i) filled += parts[i].iov_len;
  if (filled > payload_bytes_) return EINVAL;
  // From the last on, so that none that lies in the payload is overwritten before it is moved up.
  char* to = payload_ + filled;
  for (int i = count - 1; i > 0; --i) {
    to -= parts[i].iov_len;
    if (parts[i].iov_base != to) std::memmove(to, parts[i].iov_base, parts[i].iov_len);
  }
  std::memcpy(headers_.in_out.data(), &out, sizeof(out));
  headers_.ring.payload_bytes = static_cast<std::uint32_t>(filled);
  state_ = State::kAnswered;
  return 0;
}

}  // namespace reel::client
