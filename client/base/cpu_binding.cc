#include "client/base/cpu_binding.h"

#include <sched.h>

#include <atomic>
#include <mutex>

namespace reel::client {
namespace {

cpu_set_t g_allowed;
std::once_flag g_learned;
std::atomic<bool> g_knows{false};

constexpr int kNowhere = -1;
thread_local int bound_to = kNowhere;

void RunAnywhere() {
  bound_to = kNowhere;
  if (g_knows.load(std::memory_order_acquire)) {
    (void)sched_setaffinity(0, sizeof(g_allowed), &g_allowed);
  }
}

}  // namespace

void CpuBinding::Learn() {
  std::call_once(g_learned, [] {
    CPU_ZERO(&g_allowed);
    g_knows.store(sched_getaffinity(0, sizeof(g_allowed), &g_allowed) == 0,
                  std::memory_order_release);
  });
}

void CpuBinding::BindTo(int cpu) {
  if (bound_to == cpu || !g_knows.load(std::memory_order_acquire)) return;
  if (cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(static_cast<unsigned>(cpu), &g_allowed)) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<unsigned>(cpu), &one);
  if (sched_setaffinity(0, sizeof(one), &one) == 0) bound_to = cpu;
}

void CpuBinding::Release() {
  if (bound_to != kNowhere) RunAnywhere();
}

void CpuBinding::Forget() {
  RunAnywhere();
}

}  // namespace reel::client
