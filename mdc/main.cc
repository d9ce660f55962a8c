// reel-mdcd: the metadata controller daemon.
//
// Exit codes: 0 stopped in order, 1 failed (the store too: recovery decides at the next start), 2
// wrong arguments or configuration, 3 a volume is in use by another process, or LUNs of it are
// missing.
#include <signal.h>
#include <sys/resource.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "CLI/CLI.hpp"
#include "mdc/config.h"
#include "mdc/grpc_server.h"
#include "mdc/volume_server.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"
#include "volume/env.h"

namespace reel::mdc {
namespace {

constexpr int kFailed = 1;
constexpr int kUsage = 2;
constexpr int kUnavailable = 3;

constexpr rlim_t kDescriptors = 32'768;

int Complain(int code, const std::string& what) {
  std::fprintf(stderr, "reel-mdcd: %s\n", what.c_str());
  return code;
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
  const bool journal = std::getenv("JOURNAL_STREAM") != nullptr;
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

// The gate admits as many as there are descriptors for; a shell's limit of 1024 is select(2)'s.
void AllowManyConnections() {
  rlimit descriptors{};
  if (getrlimit(RLIMIT_NOFILE, &descriptors) != 0) return;
  descriptors.rlim_cur = std::min<rlim_t>(descriptors.rlim_max, kDescriptors);
  setrlimit(RLIMIT_NOFILE, &descriptors);
}

int Serve(const Config& config, std::optional<TlsMaterial> tls) {
  // Before the first thread, so that every thread blocks them and only sigwait sees them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);

  std::vector<std::unique_ptr<VolumeServer>> volumes;
  std::vector<VolumeServer*> served;
  for (const Config::Volume& entry : config.volumes) {
    VolumeServerOptions options;
    options.volume = entry.name;
    options.luns = entry.luns;
    options.core.session_lease_ms = config.session_lease_ms;
    options.core.exports = entry.exports;
    options.cache_bytes = std::uint64_t{config.cache_mib} << 20;
    options.on_failure = DieOfStore;
    auto volume = VolumeServer::Open(std::move(options), SystemClock());
    if (!volume.ok()) {
      const bool unavailable =
          absl::IsNotFound(volume.status()) || absl::IsFailedPrecondition(volume.status());
      return Complain(unavailable ? kUnavailable : kFailed, std::string(volume.status().message()));
    }
    served.push_back(volume->get());
    volumes.push_back(*std::move(volume));
  }
  std::vector<std::string> patterns = config.luns;
  for (const Config::Volume& entry : config.volumes) {
    if (entry.luns != config.luns) {
      patterns.insert(patterns.end(), entry.luns.begin(), entry.luns.end());
    }
  }
  const bool has_tls = tls.has_value();
  AllowManyConnections();
  auto server = GrpcServer::Start(config.listen, served, std::move(patterns), std::move(tls));
  if (!server.ok()) return Complain(kFailed, std::string(server.status().message()));
  spdlog::info("serving {} volumes on {} (port {}){}", volumes.size(), config.listen,
               (*server)->port(),
               has_tls ? ", with TLS" : ": this host only, because no tls_cert is configured");
  sd_notify(0, "READY=1");

  int received = 0;
  sigwait(&signals, &received);
  spdlog::info("stopping: {}", sigabbrev_np(received));
  sd_notify(0, "STOPPING=1");
  int code = 0;
  // Each volume ends its streams and makes everything durable; registered sessions stay in the
  // store, and resume with the next start.
  for (const auto& volume : volumes) {
    if (absl::Status s = volume->Stop(); !s.ok()) {
      spdlog::error("volume {}: {}", volume->name(), std::string(s.message()));
      code = kFailed;
    }
  }
  (*server)->Stop();
  return code;
}

int Main(int argc, char** argv) {
  CLI::App app(
      "The ReelFS metadata controller.\n\n"
      "Serves the volumes that its configuration names, on the LUNs that their labels name.\n"
      "Exit codes: 0 stopped in order; 1 failed; 2 wrong arguments or configuration;\n"
      "3 a volume is in use by another process, or LUNs of it are missing.",
      "reel-mdcd");
  std::string path = kDefaultConfig;
  bool check = false;
  app.add_option("--config", path, "the configuration, a TOML file")->capture_default_str();
  app.add_flag("--check", check, "check the configuration and the certificates, and exit");
  app.set_version_flag("--version", "reel-mdcd " REEL_VERSION);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kUsage;
  }
  const auto config = ReadConfig(path);
  if (!config.ok()) return Complain(kUsage, std::string(config.status().message()));
  auto tls = LoadTls(config->tls, TlsRole::kMdc);
  if (!tls.ok()) return Complain(kUsage, std::string(tls.status().message()));
  if (check) return 0;
  StartLog(config->log_level);
  return Serve(*config, *std::move(tls));
}

}  // namespace
}  // namespace reel::mdc

int main(int argc, char** argv) {
  return reel::mdc::Main(argc, argv);
}
