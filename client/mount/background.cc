#include "client/mount/background.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

namespace reel::client {
namespace {

constexpr int kSystemError = 2;

void PrintError(const std::string& program, const std::string& message) {
  std::fprintf(stderr, "%s: %s\n", program.c_str(), message.c_str());
}

// The first byte is the exit code, the rest the message; nothing at all when the child died.
[[noreturn]] void AwaitReport(const std::string& program, int pipe) {
  std::string report;
  std::array<char, 1024> piece;
  while (true) {
    const ssize_t length = read(pipe, piece.data(), piece.size());
    if (length < 0 && errno == EINTR) continue;
    if (length <= 0) break;
    report.append(piece.data(), static_cast<std::size_t>(length));
  }
  if (report.empty()) {
    PrintError(program,
               "the client ended before the mount was ready; the system's log may say why");
    _exit(kSystemError);
  }
  if (report.size() > 1) PrintError(program, report.substr(1));
  _exit(static_cast<unsigned char>(report[0]));
}

}  // namespace

Background Background::Fork(const std::string& program, bool foreground) {
  Background background;
  background.program_ = program;
  if (foreground) return background;
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    PrintError(program, std::string("pipe: ") + std::strerror(errno));
    _exit(kSystemError);
  }
  const pid_t child = fork();
  if (child < 0) {
    PrintError(program, std::string("fork: ") + std::strerror(errno));
    _exit(kSystemError);
  }
  if (child > 0) {
    close(ends[1]);
    AwaitReport(program, ends[0]);
  }
  close(ends[0]);
  background.pipe_ = ends[1];
  return background;
}

void Background::Report(int exit_code, const std::string& message) {
  if (pipe_ < 0) {
    if (!message.empty()) PrintError(program_, message);
    return;
  }
  std::string report(1, static_cast<char>(exit_code));
  report += message;
  // If the waiting process is gone, nobody wants to know.
  [[maybe_unused]] const ssize_t written = write(pipe_, report.data(), report.size());
  close(pipe_);
  pipe_ = -1;
  if (exit_code != 0) return;
  // Not before: an automount lets nobody on the directory while it waits for the mount, but for the
  // process group of systemd. (And who ends `mount` at a terminal ends its start.)
  setsid();
  // Only now, for paths on the command line may be relative. It keeps no other mount busy.
  if (chdir("/") != 0) PrintError(program_, std::string("chdir /: ") + std::strerror(errno));
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int fd : {0, 1, 2}) dup2(null, fd);
  if (null > 2) close(null);
}

bool Background::IsAbandoned() const {
  pollfd reader{.fd = pipe_, .events = 0, .revents = 0};
  return pipe_ >= 0 && poll(&reader, 1, 0) == 1 && (reader.revents & POLLERR) != 0;
}

}  // namespace reel::client
