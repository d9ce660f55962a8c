#include "client/fuse/fuse_interrupt.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string_view>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace reel::client {

bool FuseInterrupt::interrupted() const {
  return fuse_req_interrupted(request_) != 0 && IsBeingKilled(fuse_req_ctx(request_)->pid);
}

bool IsBeingKilled(pid_t thread) {
  const int fd = open(absl::StrCat("/proc/", thread, "/status").c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return true;
  std::array<char, 4096> text;
  const ssize_t length = read(fd, text.data(), text.size());
  close(fd);
  if (length <= 0) return true;
  constexpr std::uint64_t kKillBit = std::uint64_t{1} << (SIGKILL - 1);
  for (absl::string_view line :
       absl::StrSplit(absl::string_view(text.data(), static_cast<std::size_t>(length)), '\n')) {
    std::uint64_t pending = 0;
    if ((absl::ConsumePrefix(&line, "SigPnd:\t") || absl::ConsumePrefix(&line, "ShdPnd:\t")) &&
        absl::SimpleHexAtoi(line, &pending) && (pending & kKillBit) != 0) {
      return true;
    }
  }
  return false;
}

}  // namespace reel::client
