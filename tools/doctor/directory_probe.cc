#include "tools/doctor/directory_probe.h"

#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>

#include "volume/lun/fd_lun.h"

namespace reel::tools {

std::optional<int> ProbeDirectory(const std::string& path, std::uint32_t timeout_ms) {
  const pid_t child = fork();
  if (child < 0) return errno;
  if (child == 0) {
    struct stat facts {};
    _exit(stat(path.c_str(), &facts) == 0 ? 0 : errno & 0xff);
  }
  const UniqueFd gone(static_cast<int>(syscall(SYS_pidfd_open, child, 0)));
  pollfd waiting{.fd = gone.get(), .events = POLLIN, .revents = 0};
  const bool answered = gone.valid() && poll(&waiting, 1, static_cast<int>(timeout_ms)) == 1;
  if (!answered) kill(child, SIGKILL);  // a fatal signal ends every wait in a mount
  int status = 0;
  waitpid(child, &status, 0);
  if (!answered || !WIFEXITED(status)) return std::nullopt;
  return WEXITSTATUS(status);
}

}  // namespace reel::tools
