// reel-mdcd: the metadata controller daemon.
//
// It serves each of its volumes, or stands by while another one does. Exit codes: 0 stopped in
// order, 1 failed (the store too: recovery decides at the next start), 2 wrong arguments or
// configuration, 3 a tool is at work on a volume, or LUNs of it are missing, 4 the seat was lost to
// another controller, or could not be kept.
#include <limits.h>
#include <linux/close_range.h>
#include <signal.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "mdc/daemon/config.h"
#include "mdc/daemon/live_config.h"
#include "mdc/daemon/service_watchdog.h"
#include "mdc/rpc/grpc_server.h"
#include "mdc/rpc/peers/grpc_peers.h"
#include "mdc/serve/candidate.h"
#include "mdc/serve/volume_server.h"
#include "mdc/web/web_pages.h"
#include "proto/tls/revocations.h"
#include "proto/tls/watched_tls.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"
#include "volume/base/env.h"
#include "volume/base/host_name.h"
#include "volume/base/journal_stream.h"
#include "volume/format/lun_scan.h"

namespace reel::mdc {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kUnavailable = 3;
constexpr int kSeatLost = 4;
// "reeladm fail" sends it to its own process, and so does a volume that hears no client any more.
constexpr int kHandOverSignal = SIGUSR2;
// What a daemon that begins anew is told: how often in a row it has heard nobody.
constexpr char kUnheardVariable[] = "REEL_MDCD_UNHEARD";

constexpr rlim_t kDescriptors = 32'768;

int Complain(int code, const std::string& what) {
  std::fprintf(stderr, "%sreel-mdcd: %s\n", WritesToJournal() ? SD_ERR : "", what.c_str());
  return code;
}

// Of a command line: what CLI11 says, each line as the journal wants it.
int Refuse(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream out, wrong;
  const int code = app.exit(error, out, wrong);
  std::fputs(out.str().c_str(), stdout);
  std::istringstream lines(wrong.str());
  for (std::string line; std::getline(lines, line);) {
    std::fprintf(stderr, "%s%s\n", WritesToJournal() ? SD_ERR : "", line.c_str());
  }
  return code == 0 ? 0 : kUsage;
}

// Under systemd a line begins with its syslog priority, and the journal adds the time itself.
class JournalPriority final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& out) override {
    constexpr const char* kPriorities[] = {"<7>", "<7>", "<6>", "<4>", "<3>", "<2>", "<6>"};
    const std::string text = kPriorities[message.level];
    out.append(text.data(), text.data() + text.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override {
    return std::make_unique<JournalPriority>();
  }
};

void StartLog(const std::string& level) {
  auto logger = spdlog::stderr_logger_mt("reel-mdcd");
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  const bool journal = WritesToJournal();
  formatter->add_flag<JournalPriority>('*').set_pattern(journal ? "%*%v"
                                                                : "%Y-%m-%d %H:%M:%S.%e %l: %v");
  logger->set_formatter(std::move(formatter));
  logger->set_level(spdlog::level::from_str(level == "warn" ? "warning" : level));
  spdlog::set_default_logger(std::move(logger));
}

// Nothing may run after a commit whose outcome is unknown, destructors included.
[[noreturn]] void DieOfStore(const absl::Status& status) {
  spdlog::critical("{}", std::string(status.message()));
  _exit(kFailed);
}

// Nor after the seat is another controller's.
[[noreturn]] void DieWithoutSeat(const absl::Status& status) {
  spdlog::critical("{}", std::string(status.message()));
  _exit(kSeatLost);
}

// From the watchdog: no lock, no memory, no log that another thread may be holding.
template <bool to_journal>
[[noreturn]] void DieOfTime() {
  constexpr std::string_view kText = SD_CRIT
      "reel-mdcd: the seat's term is over without a beat on the seat LUN: ending; where "
      "that comes back, raise seat_ms in mdc.toml of all controllers\n";
  constexpr std::string_view kSaid = to_journal ? kText : kText.substr(sizeof(SD_CRIT) - 1);
  (void)!write(STDERR_FILENO, kSaid.data(), kSaid.size());
  _exit(kSeatLost);
}

// The gate admits as many as there are descriptors for; a shell's limit of 1024 is select(2)'s.
void AllowManyConnections() {
  rlimit descriptors{};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return;
  descriptors.rlim_cur = std::min<rlim_t>(descriptors.rlim_max, kDescriptors);
  setrlimit(RLIMIT_NOFILE, &descriptors);
}

// One volume of the configuration: a candidate for its seat, and a server once it has that.
class Volume {
 public:
  Volume(std::string name, ServiceWatchdog& watchdog, std::shared_ptr<WatchedTls> tls)
      : role_(std::move(name)), sign_(watchdog.Add()), peers_(std::move(tls)) {}
  ~Volume() { StopStandingBy(); }

  VolumeRole& role() { return role_; }

  // Until it is clear what this daemon is to the volume.
  absl::Status Start(VolumeServerOptions options, const SeatOptions& seat) {
    options.on_beat = [sign = sign_] { sign->GiveSign(); };
    auto candidate = Candidate::Open(std::move(options), seat, role_, SystemClock(), &peers_);
    if (!candidate.ok()) return candidate.status();
    candidate_ = *std::move(candidate);
    role_.SetHolder(seat.holder);
    auto server = candidate_->Begin();
    if (!server.ok()) return server.status();
    if (*server != nullptr) {
      Serve(*std::move(server));
    } else {
      const VolumeRole::Active active = role_.active();
      spdlog::info("volume {}: a standby of {}{}", role_.name(),
                   active.address.empty() ? "nobody" : active.address,
                   active.stopped ? ": it is stopped, until \"reeladm start\"" : "");
      thread_ = std::thread([this] { StandBy(); });
    }
    return absl::OkStatus();
  }

  void StopStandingBy() {
    if (!thread_.joinable()) return;
    candidate_->Stop();
    thread_.join();
  }
  void Order() { candidate_->Order(); }
  absl::Status Stop(const SeatFarewell& farewell) {
    StopStandingBy();
    absl::Status status = server_ == nullptr ? absl::OkStatus() : server_->Stop(farewell);
    sign_->Retire();
    return status;
  }

 private:
  void Serve(std::unique_ptr<VolumeServer> server) {
    server_ = std::move(server);
    role_.Serve(*server_);
    sd_notifyf(0, "STATUS=active of %s", role_.name().c_str());
  }
  void StandBy() {
    auto server = candidate_->StandBy();
    if (!server.ok()) DieOfStore(server.status());
    if (*server != nullptr) Serve(*std::move(server));
  }

  VolumeRole role_;
  const std::shared_ptr<ServiceWatchdog::Sign> sign_;
  GrpcPeers peers_;
  std::unique_ptr<Candidate> candidate_;
  std::unique_ptr<VolumeServer> server_;  // of the thread, while that runs
  std::thread thread_;
};

// How the daemon leaves the seats that it has, as an administrator wants it. Threads: any.
class Farewells {
 public:
  void Say(const std::string& volume, const SeatFarewell& farewell) {
    MutexLock lock(mutex_);
    volume_ = volume;
    farewell_ = farewell;
  }
  // Of the volume that is meant; of the others what brings them to a controller soonest.
  SeatFarewell Of(const std::string& volume) const {
    MutexLock lock(mutex_);
    if (volume == volume_) return farewell_;
    return {.state = farewell_.stopped ? ArbitrationBlock::State::kFree : farewell_.state};
  }

 private:
  mutable Mutex mutex_;
  std::string volume_ ABSL_GUARDED_BY(mutex_);
  SeatFarewell farewell_ ABSL_GUARDED_BY(mutex_){.state = ArbitrationBlock::State::kOffered};
};

// So often in a row this daemon has passed its seats on because it heard nobody.
std::uint32_t UnheardBefore() {
  const char* said = std::getenv(kUnheardVariable);
  std::uint32_t times = 0;
  return said != nullptr && absl::SimpleAtoi(said, &times) ? times : 0;
}

SeatOptions SeatOf(const Config& config) {
  SeatOptions seat;
  seat.host = HostName();
  seat.address = config.advertise;
  seat.seat_ms = config.seat_ms;
  seat.program = REEL_VERSION;
  seat.stands_back = UnheardBefore() > 0;
  return seat;
}

// `heard_ms`: of all volumes; null: there is one.
VolumeServerOptions OptionsOf(const Config& config, const Config::Volume& entry,
                              const LiveConfig& live,
                              std::shared_ptr<std::atomic<std::uint64_t>> heard_ms) {
  VolumeServerOptions options;
  options.volume = entry.name;
  options.luns = entry.luns;
  options.core.session_lease_ms = config.session_lease_ms;
  options.core.names = config.names;
  options.exports = live.exports(entry.name);
  options.core.host = SeatOf(config).host;
  options.cache_bytes = std::uint64_t{config.cache_mib} << 20;
  options.quota_hook = config.quota_hook;
  options.core.space_limits = config.space_limits;
  options.core.scrub_every_seconds = entry.scrub_every_seconds;
  options.core.small_file_bytes = entry.small_file_bytes;
  options.scrub_bytes = std::uint64_t{config.scrub_memory_mib} << 20;
  options.on_failure = DieOfStore;
  options.on_seat_lost = DieWithoutSeat;
  options.on_seat_expired = WritesToJournal() ? DieOfTime<true> : DieOfTime<false>;
  options.core.unheard_limit_ms = UnheardLimitMs(config.seat_ms);
  options.core.unheard_before = UnheardBefore();
  options.core.heard_ms = std::move(heard_ms);
  options.on_unheard = [](std::uint32_t times) {
    sigqueue(getpid(), kHandOverSignal, {.sival_int = static_cast<int>(times)});
  };
  return options;
}

std::vector<std::string> AllPatterns(const Config& config) {
  std::vector<std::string> patterns = config.luns;
  for (const Config::Volume& entry : config.volumes) {
    if (entry.luns != config.luns) {
      patterns.insert(patterns.end(), entry.luns.begin(), entry.luns.end());
    }
  }
  return patterns;
}

// How long the service manager waits for a sign of life; 0: it does not.
std::uint64_t WatchdogMs() {
  std::uint64_t us = 0;
  return sd_watchdog_enabled(/*unset_environment=*/0, &us) > 0 ? us / 1000 : 0;
}

// Before the first thread, so that every thread blocks them and only sigwait sees them.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, kHandOverSignal}) sigaddset(&signals, number);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  // The log is standard error, which there is nothing to open anew of.
  signal(SIGHUP, SIG_IGN);
  return signals;
}

// Whether all LUNs of a volume are there: NOT_FOUND.
absl::Status FindLuns(const Config::Volume& volume) {
  return OpenVolumeByName(volume.name, volume.luns, LunAccess::kReadOnly).status();
}

// LUNs come when they come: a target that starts later, a cable. Before any volume is begun, for
// one that is served here by a daemon that nobody can reach is served by nobody. False: asked to
// end.
bool AwaitLuns(const Config& config, const sigset_t& signals) {
  for (const Config::Volume& volume : config.volumes) {
    std::string said;
    for (;;) {
      const absl::Status status = FindLuns(volume);
      if (!absl::IsNotFound(status)) break;  // what else is wrong is said at its begin
      const std::string why(status.message());
      if (said != why) {
        spdlog::warn("volume {}: {}: waiting for it", volume.name, why);
        // Ready as a standby is: what the service manager orders after this daemon (remote mounts,
        // logins) must not wait as well, for a LUN that may never come.
        sd_notifyf(0, "READY=1\nSTATUS=waiting for LUNs of %s", volume.name.c_str());
        said = why;
      }
      constexpr timespec kLook{.tv_sec = 2, .tv_nsec = 0};
      const int received = sigtimedwait(&signals, nullptr, &kLook);
      if (received == SIGTERM || received == SIGINT) return false;
      sd_notify(0, "WATCHDOG=1");  // where the daemon begins anew, it is watched already
    }
    if (said.empty()) continue;
    spdlog::info("volume {}: its LUNs are there", volume.name);
    sd_notifyf(0, "STATUS=the LUNs of %s are there", volume.name.c_str());
  }
  return true;
}

// What is to follow when a daemon has served.
struct Next {
  bool begin_anew = false;  // it has handed its volumes over, and becomes a standby
  std::uint32_t unheard = 0;
};

// Null: none is served. An address that is taken (by another controller of this host, say) stops no
// controller.
std::unique_ptr<HttpsServer> StartWeb(const Config& config, WebPages& pages,
                                      std::shared_ptr<WatchedTls> tls) {
  if (config.web_listen.empty()) return nullptr;
  auto web = HttpsServer::Start(config.web_listen, std::move(tls), pages.Pages());
  if (!web.ok()) {
    spdlog::error("no metrics are served: {}", std::string(web.status().message()));
    return nullptr;
  }
  return *std::move(web);
}

// The exit code.
int Serve(const Config& config, const LiveConfig& live, std::shared_ptr<WatchedTls> tls,
          Next& next) {
  const sigset_t signals = BlockSignals();
  if (!AwaitLuns(config, signals)) return 0;
  ServiceWatchdog watchdog(WatchdogMs(), SystemClock(), [] { sd_notify(0, "WATCHDOG=1"); });
  const auto heard_ms =
      config.volumes.size() > 1 ? std::make_shared<std::atomic<std::uint64_t>>(0) : nullptr;
  std::vector<std::unique_ptr<Volume>> volumes;
  std::vector<VolumeRole*> roles;
  for (const Config::Volume& entry : config.volumes) {
    volumes.push_back(std::make_unique<Volume>(entry.name, watchdog, tls));
    roles.push_back(&volumes.back()->role());
    if (absl::Status s =
            volumes.back()->Start(OptionsOf(config, entry, live, heard_ms), SeatOf(config));
        !s.ok()) {
      const bool unavailable = absl::IsNotFound(s) || absl::IsFailedPrecondition(s);
      return Complain(unavailable ? kUnavailable : kFailed, std::string(s.message()));
    }
  }
  const bool has_tls = tls != nullptr;
  AllowManyConnections();
  const SeatOptions seat = SeatOf(config);
  Farewells farewells;
  auto server =
      GrpcServer::Start(config.listen, roles, AllPatterns(config), tls, {},
                        {.host = seat.host,
                         .program = seat.program,
                         .protocol = seat.protocol,
                         .leave =
                             [&](const std::string& volume, const SeatFarewell& how) {
                               farewells.Say(volume, how);
                               kill(getpid(), kHandOverSignal);
                             },
                         .take =
                             [&](const std::string& name) {
                               for (const auto& volume : volumes) {
                                 if (volume->role().name() == name) volume->Order();
                               }
                             },
                         .exports = [&live](const std::string& volume,
                                            bool reload) { return live.Exports(volume, reload); },
                         .describe = [&live](v1::SettingsReply& reply) { live.Describe(reply); }});
  if (!server.ok()) return Complain(kFailed, std::string(server.status().message()));
  spdlog::info("serving {} volumes on {} (port {}){}", volumes.size(), config.listen,
               (*server)->port(),
               has_tls ? ", with TLS" : ": this host only, because no tls_cert is configured");
  WebPages pages(roles, {.guard = (*server)->guard(),
                         .gate = (*server)->gate(),
                         .tls = tls,
                         .host = seat.host,
                         .program = seat.program});
  const auto web = StartWeb(config, pages, tls);
  sd_notify(0, "READY=1");

  siginfo_t received{};
  while (sigwaitinfo(&signals, &received) < 0) {  // EINTR: it was stopped, and goes on
  }
  next.begin_anew = received.si_signo == kHandOverSignal;
  if (received.si_code == SI_QUEUE) next.unheard = static_cast<std::uint32_t>(received.si_int);
  spdlog::info("{}: SIG{}", next.begin_anew ? "handing over" : "stopping",
               sigabbrev_np(received.si_signo));
  if (!next.begin_anew) sd_notify(0, "STOPPING=1");
  int code = 0;
  // Each volume ends its streams and makes everything durable; registered sessions stay in the
  // store, and resume with the next controller.
  for (const auto& volume : volumes) {
    const SeatFarewell farewell =
        next.begin_anew ? farewells.Of(volume->role().name()) : SeatFarewell();
    if (absl::Status s = volume->Stop(farewell); !s.ok()) {
      spdlog::error("volume {}: {}", volume->role().name(), std::string(s.message()));
      code = kFailed;
    }
  }
  if (web != nullptr) web->Stop();
  (*server)->Stop();
  return code;
}

// As a process just started: nothing that the old one had open or on its way is left. Where the
// program was replaced meanwhile, it is the new one.
int BeginAnew(char** argv, std::uint32_t unheard) {
  std::error_code error;
  std::string path = std::filesystem::read_symlink("/proc/self/exe", error).string();
  constexpr std::string_view kReplaced = " (deleted)";
  if (path.ends_with(kReplaced)) path.resize(path.size() - kReplaced.size());
  // What was sent a second time meanwhile was of the old process.
  sigset_t again;
  sigemptyset(&again);
  sigaddset(&again, kHandOverSignal);
  constexpr timespec kAtOnce{};
  while (sigtimedwait(&again, nullptr, &kAtOnce) == kHandOverSignal) {
  }
  setenv(kUnheardVariable, absl::StrCat(unheard).c_str(), /*overwrite=*/1);
  close_range(STDERR_FILENO + 1, ~0U, CLOSE_RANGE_CLOEXEC);
  execv(path.c_str(), argv);
  return Complain(kFailed, path + ": cannot be run anew");
}

int Main(int argc, char** argv) {
  CLI::App app(
      "The ReelFS metadata controller.\n\n"
      "Serves the volumes that its configuration names, on the LUNs that their labels name,\n"
      "or stands by while another controller does.\n"
      "Exit codes: 0 stopped in order; 1 failed; 2 wrong arguments or configuration;\n"
      "3 a tool is at work on a volume, or LUNs of it are missing; 4 the seat was lost.",
      "reel-mdcd");
  std::string path = kDefaultConfig;
  bool check = false;
  app.add_option("--config", path, "the configuration, a TOML file")->capture_default_str();
  app.add_flag("--check", check,
               "check the configuration, the certificates and that the LUNs are there, and exit");
  app.set_version_flag("-V,--version", "reel-mdcd " REEL_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return Refuse(app, error);
  }
  const auto config = ReadConfig(path);
  if (!config.ok()) return Complain(kUsage, std::string(config.status().message()));
  auto tls = WatchedTls::Load(config->tls, TlsRole::kMdc);
  if (!tls.ok()) return Complain(kUsage, std::string(tls.status().message()));
  if (*tls != nullptr) {
    const auto revoked = ReadRevocations(config->tls.ca, (*tls)->Current()->ca_pem);
    if (!revoked.ok()) return Complain(kUsage, std::string(revoked.status().message()));
  }
  if (check) {
    for (const Config::Volume& volume : config->volumes) {
      const absl::Status status = FindLuns(volume);
      if (!status.ok()) return Complain(kUnavailable, std::string(status.message()));
    }
    return 0;
  }
  StartLog(config->log_level);
  Next next;
  const LiveConfig live(*config, path);
  const int code = Serve(*config, live, *std::move(tls), next);
  if (code != 0 || !next.begin_anew) return code;
  return BeginAnew(argv, next.unheard);
}

}  // namespace
}  // namespace reel::mdc

int main(int argc, char** argv) {
  return reel::mdc::Main(argc, argv);
}
