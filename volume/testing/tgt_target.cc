#include "volume/testing/tgt_target.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "volume/lun/fd_lun.h"

namespace reel {
namespace {

constexpr const char* kTarget = "iqn.2026-11.org.reelfs.test:target";
constexpr int kReadyMs = 20'000;
constexpr int kAttempts = 5;  // somebody else may take the port that was free

int FreePort() {
  const UniqueFd probe(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(probe.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(probe.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    return 0;
  }
  return ntohs(address.sin_port);
}

// Runs a program of Debian's with its output in `log`. The child ends with this process's thread.
pid_t Spawn(const std::vector<std::string>& command, const std::string& log,
            const std::vector<std::string>& environment) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(126);
  const int fd = open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  dup2(fd, 1);
  dup2(fd, 2);
  for (const std::string& variable : environment) putenv(const_cast<char*>(variable.c_str()));
  putenv(const_cast<char*>("PATH=/usr/sbin:/usr/bin:/sbin:/bin"));
  execvp(words[0], words.data());
  _exit(127);
}

}  // namespace

TgtTarget::TgtTarget(const Options& options) {
  directory_ = absl::StrCat(testing::TempDir(), "reel-tgt-XXXXXX");
  if (mkdtemp(directory_.data()) == nullptr) {
    ADD_FAILURE() << "no directory " << directory_;
    return;
  }
  for (int attempt = 0; attempt < kAttempts && port_ == 0; ++attempt) {
    const int port = FreePort();
    if (port != 0 && Start(port)) port_ = port;
  }
  if (port_ == 0) {
    ADD_FAILURE() << "tgtd does not start (Debian's package tgt); see " << directory_ << "/log";
    return;
  }
  bool good = Admin({"--op", "new", "--mode", "target", "--tid", "1", "--targetname", kTarget}) &&
              Admin({"--op", "update", "--mode", "target", "--tid", "1", "--name", "HeaderDigest",
                     "--value", "CRC32C,None"});  // unless told so, it has none
  for (int lun = 1; lun <= options.luns; ++lun) {
    const std::string image = absl::StrCat(directory_, "/", lun, ".img");
    const UniqueFd fd(open(image.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    good = good && ftruncate(fd.get(), static_cast<off_t>(options.lun_bytes)) == 0 &&
           Admin({"--op", "new", "--mode", "logicalunit", "--tid", "1", "--lun", absl::StrCat(lun),
                  "--backing-store", image, "--blocksize", "4096"});
  }
  good = good && Admin({"--op", "bind", "--mode", "target", "--tid", "1", "-I", "ALL"});
  if (!options.chap_user.empty()) {
    good = good &&
           Admin({"--op", "new", "--mode", "account", "--user", options.chap_user, "--password",
                  options.chap_secret}) &&
           Admin({"--op", "bind", "--mode", "account", "--tid", "1", "--user", options.chap_user});
  }
  EXPECT_TRUE(good) << "tgtadm failed; see " << directory_ << "/log";
}

TgtTarget::~TgtTarget() {
  Kill();
  if (!testing::Test::HasFailure()) {
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
}

void TgtTarget::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

std::string TgtTarget::Url(int lun, const std::string& options, int port,
                           const std::string& user) const {
  return absl::StrCat("iscsi://", user, user.empty() ? "" : "@",
                      "127.0.0.1:", port == 0 ? port_ : port, "/", kTarget, "/", lun,
                      options.empty() ? "" : "?", options);
}

// Up to READY=1 on its NOTIFY_SOCKET.
bool TgtTarget::Start(int port) {
  const std::string notify_path = absl::StrCat(directory_, "/notify.", port);
  const UniqueFd notify(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (notify_path.size() >= sizeof address.sun_path) return false;
  std::memcpy(address.sun_path, notify_path.data(), notify_path.size());
  if (bind(notify.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return false;
  pid_ = Spawn({"tgtd", "--foreground", "--control-port", "1", "--nr_iothreads", "4", "--iscsi",
                absl::StrCat("portal=127.0.0.1:", port)},
               absl::StrCat(directory_, "/log"),
               {absl::StrCat("TGT_IPC_SOCKET=", directory_, "/control"),
                absl::StrCat("NOTIFY_SOCKET=", notify_path)});
  const UniqueFd ended(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  pollfd events[2] = {{.fd = notify.get(), .events = POLLIN, .revents = 0},
                      {.fd = ended.get(), .events = POLLIN, .revents = 0}};
  if (poll(events, 2, kReadyMs) > 0 && events[0].revents != 0) return true;
  Kill();
  return false;
}

bool TgtTarget::Admin(std::vector<std::string> arguments) const {
  std::vector<std::string> command{"tgtadm", "--lld", "iscsi", "--control-port", "1"};
  command.insert(command.end(), arguments.begin(), arguments.end());
  const pid_t pid = Spawn(command, absl::StrCat(directory_, "/log"),
                          {absl::StrCat("TGT_IPC_SOCKET=", directory_, "/control")});
  int status = 0;
  return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

}  // namespace reel
