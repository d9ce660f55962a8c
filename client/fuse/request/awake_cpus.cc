#include "client/fuse/request/awake_cpus.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

constexpr char kLatency[] = "/dev/cpu_dma_latency";

std::int64_t NowMs() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

// The driver of virtual machines: it can wait awake, or halt.
bool SleepsDearly() {
  std::string driver;
  std::getline(std::ifstream("/sys/devices/system/cpu/cpuidle/current_driver"), driver);
  return driver == "haltpoll";
}

}  // namespace

std::unique_ptr<AwakeCpus> AwakeCpus::Create(AwakeChoice choice) {
  if (choice == AwakeChoice::kOff) return nullptr;
  if (choice == AwakeChoice::kAuto && !SleepsDearly()) return nullptr;
  UniqueFd latency(open(kLatency, O_WRONLY | O_CLOEXEC));
  if (!latency.valid()) {
    spdlog::info("{}: {}; idle CPUs sleep while requests come", kLatency, std::strerror(errno));
    return nullptr;
  }
  try {
    return std::make_unique<AwakeCpus>(std::move(latency));
  } catch (const std::system_error& error) {  // no thread is to be had
    spdlog::info("idle CPUs sleep while requests come: {}", error.what());
    return nullptr;
  }
}

AwakeCpus::AwakeCpus(UniqueFd latency)
    : latency_(std::move(latency)), watcher_([this] { Watch(); }) {}

AwakeCpus::~AwakeCpus() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  watcher_.Join();
}

void AwakeCpus::NoteMany() {
  const std::int64_t now_ms = NowMs();
  const std::int64_t last_ms = many_at_ms_.exchange(now_ms, std::memory_order_relaxed);
  if (now_ms - last_ms > kBurstMs.count() || burst_.load(std::memory_order_relaxed)) return;
  MutexLock lock(mutex_);
  if (burst_.exchange(true, std::memory_order_relaxed)) return;
  changed_.NotifyAll();
}

void AwakeCpus::Watch() {
  pthread_setname_np(pthread_self(), "reel-awake");
  MutexLock lock(mutex_);
  while (!stopping_) {
    if (!burst_.load(std::memory_order_relaxed)) {
      changed_.Wait(mutex_);
      continue;
    }
    Ask(kNoLatency);
    std::uint64_t before = 0;
    std::uint64_t now = requests_.load(std::memory_order_relaxed);
    do {
      before = now;
      changed_.WaitFor(mutex_, kLookMs);
      now = requests_.load(std::memory_order_relaxed);
    } while (!stopping_ && now - before >= kBurst);
    Ask(kAnyLatency);
    burst_.store(false, std::memory_order_relaxed);
  }
}

// (The kernel takes no notice of what it does not like; nothing but speed depends on it.)
void AwakeCpus::Ask(std::int32_t latency_us) {
  (void)!::write(latency_.get(), &latency_us, sizeof(latency_us));
}

}  // namespace reel::client
