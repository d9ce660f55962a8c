// umount.reelfs: what umount(8) calls for a mount of this file system. It unmounts, and returns
// when the mount's client has written all that it had in memory, and is gone.
#include <spawn.h>
#include <sys/wait.h>

#include <cerrno>
#include <climits>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/mount/mount_record.h"
#include "client/mount/tables/mount_table.h"

extern char** environ;  // NOLINT: posix_spawn(3) wants it

namespace reel::client {
namespace {

constexpr char kProgram[] = "umount.reelfs";
// As umount(8) defines them.
constexpr int kUsageError = 1;
constexpr int kSystemError = 2;
constexpr int kUnmountFailed = 32;
// More than a client takes that finds no controller (Mount's limits), and less than the 90 s for
// which systemd waits.
constexpr std::uint64_t kLimitMs = 85'000;

struct SignalAction {
  std::string mount_point;
  std::vector<std::string> flags;  // for umount(8)
  bool waits = true;
};

std::optional<SignalAction> Parse(const std::vector<std::string>& arguments) {
  SignalAction wish;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument.empty() || argument.front() != '-') {
      if (!wish.mount_point.empty()) return std::nullopt;
      wish.mount_point = argument;
    } else if (argument == "-t" || argument == "-N") {
      if (++i == arguments.size()) return std::nullopt;
      if (argument == "-N") wish.flags.insert(wish.flags.end(), {argument, arguments[i]});
    } else {
      wish.flags.push_back(argument);
      // Whoever asks for these does not want to wait.
      if (argument.find_first_of("fl") != std::string::npos) wish.waits = false;
    }
  }
  if (wish.mount_point.empty()) return std::nullopt;
  return wish;
}

// umount(8) itself, which does not call this program then.
int Unmount(const SignalAction& wish) {
  std::vector<std::string> words{"umount", "-i"};
  words.insert(words.end(), wish.flags.begin(), wish.flags.end());
  words.push_back(wish.mount_point);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = 0;
  const int error = posix_spawn(&child, "/bin/umount", nullptr, nullptr, argv.data(), environ);
  int status = 0;
  if (error != 0 || waitpid(child, &status, 0) != child) {
    std::fprintf(stderr, "%s: /bin/umount: %s\n", kProgram, std::strerror(error));
    return kSystemError;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSystemError;
}

int Run(const SignalAction& wish) {
  std::string device = DeviceOfMount(wish.mount_point);
  char resolved[PATH_MAX];
  if (device.empty() && realpath(wish.mount_point.c_str(), resolved) != nullptr) {
    device = DeviceOfMount(resolved);
  }
  const std::optional<ClientWatch> watch = ClientWatch::Open(device);
  if (const int code = Unmount(wish); code != 0) return code;
  // Mounted in another place or namespace, it goes on.
  if (!watch || !wish.waits || IsMounted(device)) return 0;
  const absl::Status ended = watch->Await(kLimitMs);
  if (ended.ok()) return 0;
  std::fprintf(stderr, "%s: %s is unmounted, but %s\n", kProgram, wish.mount_point.c_str(),
               std::string(ended.message()).c_str());
  return kUnmountFailed;
}

}  // namespace
}  // namespace reel::client

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() == 1 && (arguments[0] == "--version" || arguments[0] == "-V")) {
    std::puts("umount.reelfs " REEL_VERSION);
    return 0;
  }
  const auto wish = reel::client::Parse(arguments);
  if (!wish) {
    std::fputs("usage: umount.reelfs DIR [-f] [-l] [-n] [-r] [-v]\n", stderr);
    return reel::client::kUsageError;
  }
  return reel::client::Run(*wish);
}
