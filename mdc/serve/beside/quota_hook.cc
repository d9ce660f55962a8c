#include "mdc/serve/beside/quota_hook.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <utility>

#include "absl/container/fixed_array.h"
#include "absl/strings/str_cat.h"
#include "spdlog/spdlog.h"

namespace reel::mdc {
namespace {

constexpr std::uint64_t kLookMs = 20;

std::string OwnerAndLimit(const QuotaNotice& notice) {
  return absl::StrCat(notice.kind, " ", notice.id, " ", notice.of, " ", notice.event);
}

std::vector<std::string> EnvironmentOf(const QuotaNotice& notice, const std::string& volume) {
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (std::strncmp(*variable, "REELFS_QUOTA_", 13) != 0) variables.emplace_back(*variable);
  }
  const auto add = [&](const char* name, const auto& value) {
    variables.push_back(absl::StrCat("REELFS_QUOTA_", name, "=", value));
  };
  add("VOLUME", volume);
  add("EVENT", notice.event);
  add("KIND", notice.kind);
  add("ID", notice.id);
  add("NAME", notice.name);
  add("OF", notice.of);
  add("USED", notice.used);
  add("SOFT", notice.soft);
  add("HARD", notice.hard);
  add("GRACE_SECONDS", notice.grace_seconds);
  add("TEXT", notice.text);
  return variables;
}

std::vector<char*> Pointers(const std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// In a process group of its own, with no signal blocked or ignored, and nothing to read. errno.
int Spawn(const std::vector<std::string>& command, const std::vector<std::string>& variables,
          pid_t* pid) {
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_t actions;
  posix_spawnattr_init(&attributes);
  posix_spawn_file_actions_init(&actions);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  const int error = posix_spawn(pid, command[0].c_str(), &actions, &attributes,
                                Pointers(command).data(), Pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  return error;
}

}  // namespace

void QuotaHook::Tell(QuotaNotice notice) {
  MutexLock lock(mutex_);
  if (stopping_ || command_.empty()) return;
  const std::uint64_t now_ms = clock_.NowMs();
  std::erase_if(told_ms_, [&](const auto& told) { return told.second + kQuietMs <= now_ms; });
  if (!told_ms_.emplace(OwnerAndLimit(notice), now_ms).second) return;
  if (waiting_.size() >= kMaxWaiting) {
    spdlog::warn("volume {}: {} is not told that {}: too many are told at once", volume_,
                 command_[0], notice.text);
    return;
  }
  waiting_.push_back(std::move(notice));
  if (!thread_.joinable()) thread_ = Thread([this] { Main(); });
  changed_.NotifyAll();
}

void QuotaHook::Stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
    changed_.NotifyAll();
  }
  if (thread_.joinable()) thread_.Join();
}

void QuotaHook::Main() {
  for (;;) {
    QuotaNotice notice;
    {
      MutexLock lock(mutex_);
      while (waiting_.empty() && !stopping_) changed_.Wait(mutex_);
      if (stopping_) return;
      notice = std::move(waiting_.front());
      waiting_.pop_front();
    }
    Run(notice);
  }
}

void QuotaHook::Run(const QuotaNotice& notice) {
  pid_t pid = 0;
  if (const int error = Spawn(command_, EnvironmentOf(notice, volume_), &pid); error != 0) {
    spdlog::error(
        "volume {}: {} cannot be run, and nobody is told that {}: {}; see quota_hook in "
        "the controller's configuration",
        volume_, command_[0], notice.text, std::strerror(error));
    return;
  }
  const int status = Await(pid);
  if (status == 0) return;
  const std::string how = WIFSIGNALED(status)
                              ? absl::StrCat("was ended by signal ", WTERMSIG(status))
                              : absl::StrCat("ended with ", WEXITSTATUS(status));
  spdlog::error("volume {}: {}, which was told that {}, {}", volume_, command_[0], notice.text,
                how);
}

int QuotaHook::Await(int pid) {
  const std::uint64_t until_ms = clock_.NowMs() + most_ms_;
  int status = 0;
  for (;;) {
    if (waitpid(pid, &status, WNOHANG) != 0) return status;
    MutexLock lock(mutex_);
    if (stopping_ || clock_.NowMs() >= until_ms) break;
    changed_.WaitFor(mutex_, std::chrono::milliseconds(kLookMs));
  }
  kill(-pid, SIGKILL);
  waitpid(pid, &status, 0);
  return status;
}

}  // namespace reel::mdc
