#include "client/fuse/uring/uring_keeper.h"

#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace reel::client {

UringKeeper::UringKeeper(UringStage& stage, std::vector<UringEntry*> entries, const Calls& calls)
    : stage_(stage), entries_(std::move(entries)), calls_(calls) {}

bool UringKeeper::Start() {
  wake_ = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake_.valid()) return false;
  try {
    thread_ = std::thread([this] { Main(); });
  } catch (const std::system_error& error) {
    spdlog::warn("starting the keeper of FUSE's spare entries: {}", error.what());
    return false;
  }
  return true;
}

void UringKeeper::Join() {
  if (thread_.joinable()) thread_.join();
}

void UringKeeper::Main() {
  pthread_setname_np(pthread_self(), "reel-keeper");
  UringRing ring;
  const absl::Status made = ring.Init(static_cast<unsigned>(entries_.size()));
  stage_.Report(made);
  if (!made.ok()) return;
  const int dev_fuse = stage_.Await(UringStage::Stage::kRegisterSpares);
  if (dev_fuse < 0) return;
  ring.Use(dev_fuse);
  ring.Watch(wake_.get());
  const absl::Status registered = Register(ring);
  stage_.Report(registered);
  if (!registered.ok()) return;
  while (!stage_.ended()) {
    if (!Wait(ring)) break;
    if (!std::exchange(woken_, false)) continue;
    std::uint64_t times = 0;
    (void)!::read(wake_.get(), &times, sizeof(times));
    ring.Watch(wake_.get());
    CommitReturned(ring);
  }
}

bool UringKeeper::Wait(UringRing& ring) {
  const auto completed = [this](UringEntry* entry, int result) { OnCompletion(entry, result); };
  if (large_.empty()) return ring.Wait(completed);
  bool nothing_came = false;
  if (!ring.WaitFor(kUringLeisureMs, &nothing_came, completed)) return false;
  if (!nothing_came) return true;
  for (UringEntry* entry : std::exchange(large_, {})) entry->GiveBack();
  return true;
}

absl::Status UringKeeper::Register(UringRing& ring) {
  for (UringEntry* entry : entries_) ring.Register(*entry);
  const bool entered =
      ring.Submit([this](UringEntry* entry, int result) { OnCompletion(entry, result); });
  if (entered && refusal_ == 0) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("the kernel refuses FUSE over io_uring: ", std::strerror(refusal_)));
}

void UringKeeper::OnCompletion(UringEntry* entry, int result) {
  if (entry != nullptr && entry->is_large()) std::erase(large_, entry);
  if (entry == nullptr) {
    woken_ = true;
  } else if (result == 0) {
    calls_.hand_on(*entry);
  } else {
    refusal_ = -result;
    if (result == -ENOTCONN || result == -ECONNABORTED) {
      calls_.on_end();
    } else if (result != -ECANCELED) {
      spdlog::error("FUSE over io_uring: a command ended with {}", std::strerror(-result));
    }
  }
}

void UringKeeper::CommitReturned(UringRing& ring) {
  std::vector<UringEntry*> returned;
  {
    MutexLock lock(mutex_);
    returned.swap(returned_);
  }
  for (UringEntry* entry : returned) {
    if (entry->is_large()) large_.push_back(entry);
    ring.Commit(*entry);
  }
}

void UringKeeper::TakeBack(UringEntry& entry) {
  bool first = false;
  {
    MutexLock lock(mutex_);
    first = returned_.empty();
    returned_.push_back(&entry);
  }
  if (first) Wake();
}

void UringKeeper::Wake() {
  const std::uint64_t once = 1;
  (void)!::write(wake_.get(), &once, sizeof(once));
}

}  // namespace reel::client
