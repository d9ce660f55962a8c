#include "client/data_context.h"

#include <cerrno>
#include <chrono>
#include <utility>

#include "proto/status.h"

namespace reel::client {
namespace {

// How often a wait looks for an interrupt.
constexpr std::chrono::milliseconds kPoll{50};

}  // namespace

absl::Status DataContext::Wait(FileState& file, const Interrupt* interrupt) {
  if (stopping) return ErrnoStatus(ESHUTDOWN, "the file system is being unmounted");
  if (file.changed.WaitFor(file.mutex, kPoll)) return absl::OkStatus();
  if (interrupt != nullptr && interrupt->interrupted()) {
    return ErrnoStatus(EINTR, "interrupted while waiting for the file's token");
  }
  file.mutex.Unlock();
  const bool timed_out = session->TimedOut();
  file.mutex.Lock();
  if (timed_out) return ErrnoStatus(ETIMEDOUT, "no controller answers");
  return absl::OkStatus();
}

void DataContext::RegisterOpens(FileState& file, std::function<void()> done) {
  const bool told = file.opens == 0 || std::exchange(file.registered, true);
  v1::Request request;
  request.mutable_open()->set_inode(file.inode);
  if (!told && done) {
    session->Start(std::move(request),
                   [done = std::move(done)](const absl::StatusOr<v1::Reply>&) { done(); });
  } else if (!told) {
    session->Post(std::move(request));
  } else if (done) {
    done();
  }
}

}  // namespace reel::client
