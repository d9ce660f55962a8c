#include "client/fuse/connection/fuse_refuser.h"

#include <fcntl.h>
#include <linux/fuse.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <vector>

#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

// How long the end may wait for the thread. A signal would need no such time, and could be lost
// before poll(2).
constexpr int kLookMs = 20;

}  // namespace

FuseRefuser::FuseRefuser(int dev_fuse, std::size_t request_bytes)
    : dev_fuse_(dev_fuse), request_bytes_(request_bytes) {
  // A request that poll(2) has shown may be gone when it is to be read.
  (void)fcntl(dev_fuse_, F_SETFL, fcntl(dev_fuse_, F_GETFL) | O_NONBLOCK);
  try {
    thread_ = std::thread([this] { Run(); });
  } catch (const std::system_error& error) {
    spdlog::error("starting the thread that refuses requests: {}", error.what());
  }
}

FuseRefuser::~FuseRefuser() {
  stop_.store(true, std::memory_order_relaxed);
  if (thread_.joinable()) thread_.join();
}

void FuseRefuser::Refuse(int dev_fuse, std::uint64_t unique, int error) {
  fuse_out_header refusal{};
  refusal.len = sizeof(refusal);
  refusal.error = -error;
  refusal.unique = unique;
  // It fails where nobody waits for this answer (any more).
  (void)!::write(dev_fuse, &refusal, sizeof(refusal));
}

void FuseRefuser::Run() {
  pthread_setname_np(pthread_self(), "reel-refuse");
  std::vector<std::byte> buffer(request_bytes_);
  while (!stop_.load(std::memory_order_relaxed) && RefuseNext(buffer)) {
  }
}

bool FuseRefuser::RefuseNext(std::span<std::byte> buffer) const {
  pollfd waiting{.fd = dev_fuse_, .events = POLLIN, .revents = 0};
  if (poll(&waiting, 1, kLookMs) <= 0) return true;
  const ssize_t length = ::read(dev_fuse_, buffer.data(), buffer.size());
  if (length < 0) return errno == EAGAIN || errno == EINTR || errno == ENOENT;
  fuse_in_header request;
  if (static_cast<std::size_t>(length) < sizeof(request)) return true;
  std::memcpy(&request, buffer.data(), sizeof(request));
  Refuse(dev_fuse_, request.unique);
  return true;
}

}  // namespace reel::client
