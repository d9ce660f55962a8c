// mount.reelfs: mounts a volume and stays behind as its client.
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/background.h"
#include "client/exit_signals.h"
#include "client/mount.h"
#include "client/mount_options.h"
#include "client/mount_record.h"
#include "client/mount_table.h"
#include "spdlog/sinks/basic_file_sink.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/sinks/syslog_sink.h"
#include "spdlog/spdlog.h"

namespace reel::client {
namespace {

// As mount(8) defines them.
constexpr int kUsageError = 1;
constexpr int kSystemError = 2;
constexpr int kMountFailed = 32;

constexpr char kProgram[] = "mount.reelfs";

absl::StatusOr<MountOptions> Options(const std::vector<std::string>& arguments) {
  absl::StatusOr<MountOptions> options = ParseMountOptions(arguments, geteuid() == 0);
  if (!options.ok() || options->action != MountOptions::Action::kMount) return options;
  if (absl::Status status = LoadClientConfig(*options); !status.ok()) return status;
  return options;
}

absl::Status MakeAbsolute(std::string& path) {
  char resolved[PATH_MAX];
  if (realpath(path.c_str(), resolved) == nullptr) {
    return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  }
  path = resolved;
  return absl::OkStatus();
}

absl::Status StartLog(const MountOptions& options) {
  spdlog::sink_ptr sink;
  if (!options.log_file.empty()) {
    // Tried first: the sink's own way to fail is an exception.
    std::FILE* file = std::fopen(options.log_file.c_str(), "a");
    if (file == nullptr) {
      return absl::NotFoundError(
          absl::StrCat("log=", options.log_file, ": ", std::strerror(errno)));
    }
    std::fclose(file);
    sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(options.log_file);
  } else if (options.foreground) {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  } else {
    sink = std::make_shared<spdlog::sinks::syslog_sink_mt>(kProgram, LOG_PID, LOG_DAEMON, true);
  }
  auto logger = std::make_shared<spdlog::logger>(kProgram, std::move(sink));
  logger->set_level(options.verbose ? spdlog::level::debug : spdlog::level::info);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  return absl::OkStatus();
}

int Run(MountOptions options) {
  if (absl::Status status = MakeAbsolute(options.mount_point); !status.ok()) {
    std::fprintf(stderr, "%s: %s\n", kProgram, std::string(status.message()).c_str());
    return kMountFailed;
  }
  Background background = Background::Fork(kProgram, options.foreground);
  ExitSignals::Block();
  if (absl::Status status = StartLog(options); !status.ok()) {
    background.Report(kSystemError, std::string(status.message()));
    return kSystemError;
  }

  auto tls = LoadTls(options.tls, TlsRole::kClient);
  if (!tls.ok()) {
    background.Report(kUsageError, std::string(tls.status().message()));
    return kUsageError;
  }
  auto mount = std::make_unique<Mount>(options, *std::move(tls));
  if (absl::Status status = mount->Start(ExitSignals::Raise); !status.ok()) {
    background.Report(kMountFailed, absl::StrCat(options.volume, " on ", options.mount_point, ": ",
                                                 status.message()));
    return kMountFailed;
  }
  // (To see its end takes this file; where it cannot be, umount(8) does not wait.)
  absl::StatusOr<MountRecord> record = MountRecord::Create(DeviceOfMount(options.mount_point));
  if (!record.ok()) {
    spdlog::warn("umount will not wait for what is in memory: {}",
                 std::string(record.status().message()));
  }
  spdlog::info("{} mounted on {}", options.volume, options.mount_point);
  background.Report(0);
  sd_notify(0, "READY=1");

  const bool asked = ExitSignals::Wait();
  sd_notify(0, "STOPPING=1");
  spdlog::info("{}: {}", options.mount_point, asked ? "asked to end, unmounting" : "unmounted");
  const bool stopped = mount->Stop();
  if (record.ok()) record->End(mount->outcome());
  if (!stopped) {
    // A request hangs in a LUN. Its memory must not be freed under it, so nothing is.
    spdlog::error("{}: a request hangs in a LUN; leaving it to the kernel", options.mount_point);
    spdlog::shutdown();
    _exit(0);
  }
  mount.reset();
  spdlog::info("{}: done", options.mount_point);
  return 0;
}

}  // namespace
}  // namespace reel::client

int main(int argc, char** argv) {
  using reel::client::MountOptions;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const absl::StatusOr<MountOptions> options = reel::client::Options(arguments);
  if (!options.ok()) {
    std::fprintf(stderr, "%s: %s (try --help)\n", reel::client::kProgram,
                 std::string(options.status().message()).c_str());
    return reel::client::kUsageError;
  }
  switch (options->action) {
    case MountOptions::Action::kHelp:
      std::fputs(reel::client::MountUsage().c_str(), stdout);
      return 0;
    case MountOptions::Action::kVersion:
      std::puts("mount.reelfs " REEL_VERSION);
      return 0;
    case MountOptions::Action::kMount:
      return reel::client::Run(*options);
  }
}
