#include "client/fuse/request/pending_signals.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstddef>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace reel::client {
namespace {

std::int64_t SteadyMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace

bool HasPendingSignal(pid_t thread, SignalKind kind) {
  const int fd = open(absl::StrCat("/proc/", thread, "/status").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  std::array<char, 4096> text;
  const ssize_t length = read(fd, text.data(), text.size());
  close(fd);
  if (length <= 0) return false;
  std::uint64_t pending = 0, blocked = 0;
  for (absl::string_view line :
       absl::StrSplit(absl::string_view(text.data(), static_cast<std::size_t>(length)), '\n')) {
    std::uint64_t set = 0;
    if (absl::ConsumePrefix(&line, "SigPnd:\t") || absl::ConsumePrefix(&line, "ShdPnd:\t")) {
      if (absl::SimpleHexAtoi(line, &set)) pending |= set;
    } else if (absl::ConsumePrefix(&line, "SigBlk:\t")) {
      if (absl::SimpleHexAtoi(line, &set)) blocked = set;
    }
  }
  constexpr std::uint64_t kKillBit = std::uint64_t{1} << (SIGKILL - 1);
  return (pending & (kind == SignalKind::kFatal ? kKillBit : ~blocked)) != 0;
}

bool PendingSignals::Seen() const {
  if (thread_ <= 0) return false;
  if (believed_.load(std::memory_order_relaxed)) return true;
  const std::int64_t now_ms = SteadyMs();
  std::int64_t next_ms = next_look_ms_.load(std::memory_order_relaxed);
  if (next_ms == 0) {  // a call that does not wait is not worth a look
    next_look_ms_.store(now_ms + kLookMs, std::memory_order_relaxed);
    return false;
  }
  if (now_ms < next_ms || !next_look_ms_.compare_exchange_strong(next_ms, now_ms + kLookMs,
                                                                 std::memory_order_relaxed)) {
    return false;
  }
  const bool seen = HasPendingSignal(thread_, kind_);
  const bool believed = seen_once_.exchange(seen, std::memory_order_relaxed) && seen;
  if (believed) believed_.store(true, std::memory_order_relaxed);
  return believed;
}

}  // namespace reel::client
