#include "client/fuse/connection/dev_fuse_workers.h"

#include <linux/fuse.h>
#include <pthread.h>
#include <signal.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <thread>
#include <utility>

#include "spdlog/spdlog.h"
#include "volume/base/aligned_buffer.h"

namespace reel::client {
namespace {

constexpr std::size_t kPageBytes = kIoAlignment;
constexpr std::size_t kWriteHeaderBytes = sizeof(fuse_in_header) + sizeof(fuse_write_in);
constexpr int kWakeSignal = SIGUSR2;

void IgnoreSignal(int) {}

}  // namespace

// A request starts so that a WRITE's payload begins on the second page of the buffer.
class DevFuseWorkers::Request final : public KernelRequest {
 public:
  Request(const FuseDispatcher& dispatcher, std::uint32_t request_bytes)
      : dispatcher_(dispatcher), buffer_(kPageBytes + request_bytes) {}

  char* memory() const {
    return reinterpret_cast<char*>(buffer_.data()) + kPageBytes - kWriteHeaderBytes;
  }
  std::size_t most_bytes() const { return buffer_.size() - kPageBytes + kWriteHeaderBytes; }
  // So many bytes have been put there.
  void Took(std::size_t length_bytes) {
    Show(memory(), length_bytes, buffer_.span().subspan(kPageBytes));
  }
  ssize_t Reply(const iovec* parts, int count) override {
    return ::writev(dispatcher_.fd(), parts, count);
  }

 private:
  const FuseDispatcher& dispatcher_;
  const AlignedBuffer buffer_;
};

struct DevFuseWorkers::Worker {
  Worker(const FuseDispatcher& dispatcher, std::uint32_t request_bytes)
      : request(dispatcher, request_bytes) {}

  Request request;
  std::thread thread;
  std::atomic<bool> reading{false};  // in read(2), or about to be
  bool finished = false;             // under the mutex
};

DevFuseWorkers::DevFuseWorkers(Options options, FuseDispatcher& dispatcher, DirectGate& gate)
    : options_(std::move(options)),
      dispatcher_(dispatcher),
      gate_(gate),
      threads_(options_.threads) {}

DevFuseWorkers::~DevFuseWorkers() {
  MutexLock lock(mutex_);
  Reap();
}

bool DevFuseWorkers::Start() {
  struct sigaction action {};
  action.sa_handler = IgnoreSignal;  // without SA_RESTART: it only interrupts read(2)
  sigaction(kWakeSignal, &action, nullptr);
  MutexLock lock(mutex_);
  for (std::uint32_t i = 0; i < options_.threads; ++i) {
    if (!StartWorker()) return false;
  }
  return true;
}

bool DevFuseWorkers::StartWorker() {
  Reap();
  if (running_ >= options_.max_threads) return false;
  workers_.push_back(std::make_unique<Worker>(dispatcher_, options_.request_bytes));
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

void DevFuseWorkers::Reap() {
  std::erase_if(workers_, [](const std::unique_ptr<Worker>& worker) {
    if (!worker->finished) return false;
    worker->thread.join();
    return true;
  });
}

void DevFuseWorkers::Run(Worker& worker) {
  pthread_setname_np(pthread_self(), "reel-fuse");
  while (!stop_.load(std::memory_order_acquire) && ServeOne(worker)) {
  }
  MutexLock lock(mutex_);
  worker.finished = true;
  --running_;
}

bool DevFuseWorkers::ServeOne(Worker& worker) {
  worker.reading.store(true, std::memory_order_relaxed);
  const ssize_t length =
      ::read(dispatcher_.fd(), worker.request.memory(), worker.request.most_bytes());
  worker.reading.store(false, std::memory_order_relaxed);
  if (length < 0) {
    // ENOENT: the request was interrupted before we had it.
    if (errno == EINTR || errno == EAGAIN || errno == ENOENT) return true;
    if (errno != ENODEV) spdlog::error("reading from /dev/fuse: {}", std::strerror(errno));
    if (options_.on_end) options_.on_end();
    return false;
  }
  if (static_cast<std::size_t>(length) < sizeof(fuse_in_header)) return true;
  worker.request.Took(static_cast<std::size_t>(length));

  if (idle_.fetch_sub(1, std::memory_order_relaxed) == 1) {
    MutexLock lock(mutex_);
    if (!stop_.load(std::memory_order_relaxed)) StartWorker();
  }
  ServeRequest(worker.request);
  return BecomeIdle();
}

void DevFuseWorkers::ServeRequest(Request& request) {
  // Who gives up what is parked is answered here; libfuse does not know of it.
  if (request.opcode() == FUSE_INTERRUPT &&
      gate_.Interrupt(request.arguments<fuse_interrupt_in>().unique)) {
    return;
  }
  const bool direct = request.IsDirect();
  if (direct && !gate_.Enter(request, DirectGate::Keeps::kCopy)) return;
  dispatcher_.Serve(request);
  for (auto next = direct ? gate_.Leave() : std::nullopt; next; next = gate_.Leave()) {
    std::memcpy(request.memory(), next->bytes.data(), next->bytes.size());
    request.Took(next->bytes.size());
    dispatcher_.Serve(request);
  }
}

// In one step: who ends was never counted, so that whoever takes a request meanwhile sees how many
// there are to read the next one.
bool DevFuseWorkers::BecomeIdle() {
  const auto enough = static_cast<std::int32_t>(threads_.load(std::memory_order_relaxed));
  std::int32_t idle = idle_.load(std::memory_order_relaxed);
  do {
    if (idle >= enough) return false;
  } while (!idle_.compare_exchange_weak(idle, idle + 1, std::memory_order_relaxed));
  return true;
}

void DevFuseWorkers::Stop() {
  stop_.store(true, std::memory_order_release);
}

bool DevFuseWorkers::Wake() {
  MutexLock lock(mutex_);
  for (const std::unique_ptr<Worker>& worker : workers_) {
    if (!worker->finished && worker->reading.load(std::memory_order_relaxed)) {
      pthread_kill(worker->thread.native_handle(), kWakeSignal);
    }
  }
  return running_ == 0;
}

void DevFuseWorkers::AnswerParked(std::uint64_t unique, int error) const {
  fuse_out_header refusal{};
  refusal.len = sizeof(refusal);
  refusal.error = -error;
  refusal.unique = unique;
  // It fails where nobody waits for this answer (any more).
  (void)!::write(dispatcher_.fd(), &refusal, sizeof(refusal));
}

}  // namespace reel::client
