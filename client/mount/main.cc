// mount.reelfs: mounts a volume and stays behind as its client.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/fuse/exit_signals.h"
#include "client/mount/background.h"
#include "client/mount/log_file.h"
#include "client/mount/mount.h"
#include "client/mount/mount_options.h"
#include "client/mount/mount_record.h"
#include "client/mount/mount_retry.h"
#include "client/mount/remount.h"
#include "client/mount/start_mount.h"
#include "client/mount/start_watch.h"
#include "client/mount/tables/mount_table.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/sinks/syslog_sink.h"
#include "spdlog/spdlog.h"
#include "volume/base/env.h"
#include "volume/base/journal_stream.h"
#include "volume/lun/fd_lun.h"

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
  if (options->remount) return options;
  if (absl::Status status = LoadClientConfig(*options); !status.ok()) return status;
  return options;
}

absl::Status Errno(const std::string& path, int error) {
  return absl::ErrnoToStatus(error, path);
}

absl::Status MakeAbsolute(std::string& path) {
  char resolved[PATH_MAX];
  if (realpath(path.c_str(), resolved) == nullptr) return Errno(path, errno);
  path = resolved;
  return absl::OkStatus();
}

// A second client on one mount point would hide the first, and umount(8) would show it again.
absl::Status CheckFree(const std::string& mount_point) {
  const Mounted there = MountedAt(mount_point);
  if (IsOurs(there)) {
    return absl::AlreadyExistsError(
        absl::StrCat(there.source, " is already mounted on ", mount_point));
  }
  struct stat facts {};
  if (stat(mount_point.c_str(), &facts) != 0) return Errno(mount_point, errno);
  return S_ISDIR(facts.st_mode) ? absl::OkStatus() : Errno(mount_point, ENOTDIR);
}

// The log's file, where it has one.
absl::StatusOr<std::shared_ptr<LogFile>> StartLog(const MountOptions& options) {
  std::shared_ptr<LogFile> file;
  spdlog::sink_ptr sink;
  if (!options.log_file.empty()) {
    auto opened = LogFile::Open(options.log_file);
    if (!opened.ok()) return opened.status();
    sink = file = *std::move(opened);
  } else if (options.foreground) {
    sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  } else {
    sink = std::make_shared<spdlog::sinks::syslog_sink_mt>(kProgram, LOG_PID, LOG_DAEMON, true);
    sink->set_pattern("%v");  // when and how bad, the system's log says
  }
  auto logger = std::make_shared<spdlog::logger>(kProgram, std::move(sink));
  logger->set_level(options.verbose ? spdlog::level::debug : spdlog::level::info);
  logger->flush_on(spdlog::level::info);
  spdlog::set_default_logger(std::move(logger));
  return file;
}

// Whether a signal asks for the end. SIGHUP means the log, but for a client that stayed in the
// foreground without one: its terminal is gone.
bool AsksForTheEnd(ExitSignals::SignalAction wish, LogFile* log, bool foreground) {
  if (wish != ExitSignals::SignalAction::kHangUp) return true;
  if (log == nullptr) return foreground;
  const absl::Status status = log->Reopen();
  if (status.ok()) {
    spdlog::info("the log begins anew");
  } else {
    spdlog::error("{}", std::string(status.message()));
  }
  return false;
}

// Waits for the end; true when an outside signal asked for it.
bool AwaitEnd(LogFile* log, bool foreground) {
  while (true) {
    const ExitSignals::SignalAction wish = ExitSignals::Wait();
    if (!AsksForTheEnd(wish, log, foreground)) continue;
    return wish != ExitSignals::SignalAction::kEndFromWithin;
  }
}

// False when the end is asked for meanwhile.
bool Pause(std::uint32_t ms, LogFile* log, bool foreground) {
  const std::uint64_t until_ms = SystemClock().NowMs() + ms;
  for (std::uint64_t now_ms = 0; (now_ms = SystemClock().NowMs()) < until_ms;) {
    const auto wish = ExitSignals::WaitFor(static_cast<std::uint32_t>(until_ms - now_ms));
    if (wish && AsksForTheEnd(*wish, log, foreground)) return false;
  }
  return true;
}

// Held while a mount is on its way: of two that wait for one controller, each would find the
// directory free. One that systemd gave up may take seconds to end (StartWatch). An automount tries
// again at once, and is over for good where five tries fail in ten seconds; so this one waits.
absl::StatusOr<UniqueFd> LockMountPoint(const std::string& mount_point,
                                        const std::function<bool(std::uint32_t ms)>& pause) {
  constexpr std::uint32_t kLookMs = 100, kLooks = 50;
  UniqueFd directory(open(mount_point.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) return Errno(mount_point, errno);
  for (std::uint32_t looks = 0; flock(directory.get(), LOCK_EX | LOCK_NB) != 0; ++looks) {
    if (looks == kLooks) {
      return absl::AlreadyExistsError(
          "another mount.reelfs is about to mount there; wait for it, or end it");
    }
    if (!pause(kLookMs)) return absl::CancelledError("not mounted: asked to end");
  }
  return directory;
}

// A unit of systemd has a timeout of its own, which its administrator sets.
std::uint64_t RetryLimitMs(const MountOptions& options) {
  constexpr std::uint64_t kMinuteMs = 60'000;
  if (options.retry_minutes) return *options.retry_minutes * kMinuteMs;
  return WritesToJournal() ? MountRetry::kNoLimit : 2 * kMinuteMs;
}

// Whoever looks at the terminal, or at the unit, is to know what the mount waits for; in the
// journal it stands once, from the log or from standard error.
void SayWaiting(const MountOptions& options, const std::string& what) {
  spdlog::warn("{} on {}: {}", options.volume, options.mount_point, what);
  sd_notifyf(0, "STATUS=%s", what.c_str());
  const bool logged_there = options.log_file.empty() && (options.foreground || WritesToJournal());
  if (logged_there) return;
  std::fprintf(stderr, "%s: %s on %s: %s\n", kProgram, options.volume.c_str(),
               options.mount_point.c_str(), what.c_str());
}

absl::StatusOr<std::unique_ptr<Mount>> Start(const MountOptions& options,
                                             const std::shared_ptr<WatchedTls>& tls,
                                             const Background& background, LogFile* log) {
  const auto pause = [&](std::uint32_t ms) { return Pause(ms, log, options.foreground); };
  const absl::StatusOr<UniqueFd> lock = LockMountPoint(options.mount_point, pause);
  if (!lock.ok()) return lock.status();
  const StartWatch watch(background, kMountFailed);
  return StartMount(options, tls, RetryLimitMs(options),
                    {.check_free = [&] { return CheckFree(options.mount_point); },
                     .say = [&](const std::string& what) { SayWaiting(options, what); },
                     .pause = pause});
}

// Says so on standard error; 0 where there is nothing to say.
int Failed(const absl::Status& status, const std::string& about = "") {
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s: %s%s\n", kProgram, about.c_str(),
               std::string(status.message()).c_str());
  return kMountFailed;
}

// systemd orders a shutdown by the options of fstab, or of the unit; of a mount made by hand it
// asks mount(8).
void SayNetwork(const MountOptions& options) {
  if (options.netdev) return;
  NoteNetworkMount(options.volume, options.mount_point);
  if (options.foreground || !WritesToJournal()) return;
  spdlog::warn(
      "{}: _netdev is missing among its options; without it a shutdown may take the network away "
      "before it is unmounted",
      options.mount_point);
}

int Run(MountOptions options) {
  if (const int code = Failed(MakeAbsolute(options.mount_point)); code != 0) return code;
  if (options.remount) {
    return Failed(Remount(options), absl::StrCat("remount of ", options.mount_point, ": "));
  }
  if (const int code = Failed(CheckFree(options.mount_point)); code != 0) return code;
  Background background = Background::Fork(kProgram, options.foreground);
  ExitSignals::Block();
  const absl::StatusOr<std::shared_ptr<LogFile>> log = StartLog(options);
  if (!log.ok()) {
    background.Report(kSystemError, std::string(log.status().message()));
    return kSystemError;
  }

  auto tls = WatchedTls::Load(options.tls, TlsRole::kClient);
  if (!tls.ok()) {
    background.Report(kUsageError, std::string(tls.status().message()));
    return kUsageError;
  }
  absl::StatusOr<std::unique_ptr<Mount>> started = Start(options, *tls, background, log->get());
  if (!started.ok()) {
    background.Report(kMountFailed, absl::StrCat(options.volume, " on ", options.mount_point, ": ",
                                                 started.status().message()));
    return kMountFailed;
  }
  std::unique_ptr<Mount> mount = *std::move(started);
  // (To see its end takes this file; where it cannot be, umount(8) does not wait.)
  absl::StatusOr<MountRecord> record = MountRecord::Create(DeviceOfMount(options.mount_point));
  if (!record.ok()) {
    spdlog::warn("umount will not wait for what is in memory: {}",
                 std::string(record.status().message()));
  }
  SayNetwork(options);
  spdlog::info("{} mounted on {}", options.volume, options.mount_point);
  background.Report(0);
  sd_notify(0, "READY=1");

  const bool asked = AwaitEnd(log->get(), options.foreground);
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
