#include "client/fuse/uring/uring_resident.h"

#include <linux/fuse.h>
#include <pthread.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "client/base/cpu_binding.h"
#include "client/base/interrupt.h"
#include "spdlog/spdlog.h"

namespace reel::client {

UringResident::UringResident(UringStage& stage, const Place& place, const Calls& calls)
    : stage_(stage),
      entry_(place.entry),
      adopted_(place.adopted),
      idle_(place.idle),
      ended_fd_(place.ended_fd),
      calls_(calls),
      serving_(place.adopted) {}

bool UringResident::Start() {
  try {
    thread_ = std::thread([this] { Main(); });
  } catch (const std::system_error& error) {
    spdlog::warn("starting a worker of FUSE over io_uring: {}", error.what());
    return false;
  }
  return true;
}

void UringResident::Join() {
  if (thread_.joinable()) thread_.join();
}

void UringResident::Main() {
  pthread_setname_np(pthread_self(), "reel-fuse");
  CpuBinding::BindTo(entry_.queue());
  UringRing ring;
  if (!Begin(ring)) return;
  while (!stage_.ended()) {
    if (has_request_ && ServeRequest()) ring.Commit(entry_);
    if (stage_.ended()) break;
    if (!Wait(ring)) break;
  }
}

bool UringResident::Begin(UringRing& ring) {
  const absl::Status made = ring.Init(4);
  if (adopted_) return BeginWithAdopted(ring, made);
  stage_.Report(made);
  if (!made.ok()) return false;
  const int dev_fuse = stage_.Await(UringStage::Stage::kRegisterResidents);
  if (dev_fuse < 0) return false;
  ring.Use(dev_fuse);
  ring.Watch(ended_fd_);
  const absl::Status registered = Register(ring);
  stage_.Report(registered);
  return registered.ok();
}

bool UringResident::BeginWithAdopted(UringRing& ring, const absl::Status& made) {
  const absl::Cleanup served = [this] { serving_.store(false, std::memory_order_seq_cst); };
  const int dev_fuse = stage_.Await(UringStage::Stage::kServing);
  if (dev_fuse < 0) return false;
  if (!made.ok()) {
    calls_.give_up(entry_);
    return false;
  }
  ring.Use(dev_fuse);
  ring.Watch(ended_fd_);
  ring.Commit(entry_);
  return ring.Submit([this](UringEntry* entry, int result) { OnCompletion(entry, result); });
}

// When nothing comes for a while, the memory that a large request has left is freed.
bool UringResident::Wait(UringRing& ring) {
  const auto completed = [this](UringEntry* entry, int result) { OnCompletion(entry, result); };
  idle_.fetch_add(1, std::memory_order_relaxed);
  const absl::Cleanup busy = [this] { idle_.fetch_sub(1, std::memory_order_relaxed); };
  if (has_request_ || !entry_.is_large()) return ring.Wait(completed);
  bool nothing_came = false;
  if (!ring.WaitFor(kUringLeisureMs, &nothing_came, completed)) return false;
  if (nothing_came) entry_.GiveBack();
  return true;
}

absl::Status UringResident::Register(UringRing& ring) {
  ring.Register(entry_);
  const bool entered =
      ring.Submit([this](UringEntry* entry, int result) { OnCompletion(entry, result); });
  if (entered && refusal_ == 0) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("the kernel refuses FUSE over io_uring: ", std::strerror(refusal_)));
}

void UringResident::OnCompletion(UringEntry* entry, int result) {
  if (entry == nullptr) return;  // the stage
  has_request_ = result == 0;
  if (result == 0) return;
  refusal_ = -result;
  if (result == -ENOTCONN || result == -ECONNABORTED) {
    calls_.on_end();
  } else if (result != -ECANCELED) {
    spdlog::error("FUSE over io_uring: a worker's command ended with {}", std::strerror(-result));
  }
}

bool UringResident::ServeRequest() {
  // Either whoever stops us sees that it is served, or it is seen here.
  serving_.store(true, std::memory_order_seq_cst);
  const bool stopped = !stage_.serving();
  bool answered = true;
  if (!stopped && entry_.Take()) {
    ChooseCpu();
    answered = calls_.serve(entry_);
  }
  serving_.store(false, std::memory_order_seq_cst);
  has_request_ = false;
  return !stopped && (answered || AwaitBack());
}

void UringResident::ChooseCpu() const {
  const bool data = entry_.opcode() == FUSE_READ || entry_.opcode() == FUSE_WRITE;
  data ? CpuBinding::Release() : CpuBinding::BindTo(entry_.queue());
}

void UringResident::TakeBack() {
  MutexLock lock(mutex_);
  back_ = true;
  changed_.NotifyAll();
}

bool UringResident::AwaitBack() {
  MutexLock lock(mutex_);
  while (!back_ && !stage_.ended()) changed_.WaitFor(mutex_, kPoll);
  const bool back = back_;
  back_ = false;
  return back;
}

}  // namespace reel::client
