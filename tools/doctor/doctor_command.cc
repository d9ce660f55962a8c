#include "tools/doctor/doctor_command.h"

#include <sys/utsname.h>

#include <iostream>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "tools/config/host_config.h"
#include "tools/doctor/directory_probe.h"
#include "tools/doctor/doctor_certificates.h"
#include "tools/doctor/doctor_kernel.h"
#include "tools/doctor/doctor_luns.h"
#include "tools/doctor/doctor_mounts.h"
#include "tools/doctor/doctor_network.h"
#include "tools/doctor/finding.h"
#include "tools/lib/cli.h"

namespace reel::tools {
namespace {

constexpr char kDoctorProgram[] = "reeladm doctor";

class Findings {
 public:
  void Add(Finding finding) { list_.push_back(std::move(finding)); }
  void Add(std::vector<Finding> more) {
    for (Finding& finding : more) list_.push_back(std::move(finding));
  }
  const std::vector<Finding>& list() const { return list_; }

 private:
  std::vector<Finding> list_;
};

void LookAtConfiguration(const HostConfig& config, Findings& findings) {
  if (!config.any_file()) {
    findings.Add(Finding::Failure("configuration", config.directory, "holds no file of ReelFS",
                                  "copy this host's directory of reeladm setup to it"));
  }
  for (const ConfigFile& file : config.files) {
    for (const std::string& error : file.errors) {
      findings.Add(Finding::Failure("configuration", "", error, "see reeladm config check"));
    }
    for (const std::string& warning : file.warnings) {
      findings.Add(Finding::Warning("configuration", "", warning, "see reelfs.toml(5)"));
    }
    if (file.present && file.errors.empty() && file.warnings.empty()) {
      findings.Add(Finding::Ok("configuration", file.path, "can be read"));
    }
  }
}

void LookAtController(const HostConfig& config, const HostTrees& trees, Findings& findings) {
  if (!config.mdc) return;
  const auto running = ProcessesNamed(trees, "reel-mdcd");
  if (running.empty()) {
    findings.Add(
        Finding::Warning("reel-mdcd", "", "does not run here", "systemctl enable --now reel-mdcd"));
  } else {
    findings.Add(Finding::Ok("reel-mdcd", "", absl::StrCat("runs, as process ", running.front())));
  }
}

std::vector<Finding> Examine(const HostConfig& config, std::uint32_t timeout_ms) {
  const HostTrees trees;
  Findings findings;
  LookAtConfiguration(config, findings);
  utsname system{};
  uname(&system);
  findings.Add(KernelFinding(system.release));
  findings.Add(UringFinding(AskForUring()));
  if (config.client) findings.Add(FuseFindings(trees));
  findings.Add(ReadClock());
  findings.Add(LimitFindings(trees));
  std::vector<std::string> volumes;
  if (config.mdc) {
    for (const mdc::Config::Volume& volume : config.mdc->volumes) volumes.push_back(volume.name);
  }
  if (config.mdc || config.client) {
    findings.Add(LunFindings(config.LunPatterns(), std::move(volumes), trees));
  }
  findings.Add(CertificateFindings(config));
  LookAtController(config, trees, findings);
  if (config.any_file()) findings.Add(ControllerFindings(config, timeout_ms));
  findings.Add(FrameFindings(config, trees, timeout_ms));
  if (config.client) {
    findings.Add(MountFindings(trees, [timeout_ms](const std::string& directory) {
      return ProbeDirectory(directory, timeout_ms);
    }));
  }
  return findings.list();
}

}  // namespace

int RunDoctorCommand(int argc, char** argv) {
  std::string directory = kConfigDirectory;
  std::uint32_t timeout_ms = 3'000;
  bool json = false;
  CLI::App app(
      "Looks at this host from end to end: configuration, kernel, clock, limits, LUNs and their\n"
      "paths, certificates, controllers, frame sizes, mounts. One line each, and what to do.\n"
      "Nothing is changed, and nothing written to a LUN.",
      kDoctorProgram);
  app.add_option("--dir", directory, "where the configuration lies (/etc/reelfs)")
      ->option_text("DIR");
  app.add_option("--timeout-ms", timeout_ms, "how long to wait for each peer (3000)")
      ->check(CLI::Range(1, 3'600'000));
  app.add_flag("--json", json, "print JSON");
  app.footer("Exit codes: 0 no failure (there may be warnings); 1 failures; 2 wrong arguments.");
  if (const auto code = ParseArguments(app, argc, argv, kDoctorProgram)) return *code;
  LogToStderr(kDoctorProgram);
  const std::vector<Finding> findings = Examine(ReadHostConfig(directory), timeout_ms);
  std::cout << (json ? JsonText(FindingsJson(findings)) + "\n" : FindingsText(findings));
  return AnyFailure(findings) ? kExitFailed : 0;
}

}  // namespace reel::tools
