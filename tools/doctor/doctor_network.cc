#include "tools/doctor/doctor_network.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/tls/tls_probe.h"
#include "volume/iscsi/iscsi_url.h"

namespace reel::tools {
namespace {

// How this host shows itself to a controller: by the first certificate that it has.
absl::StatusOr<std::optional<TlsMaterial>> OwnTls(const HostConfig& config) {
  if (config.client && config.client->tls.any()) {
    return LoadTls(config.client->tls, TlsRole::kClient);
  }
  if (config.admin && config.admin->tls.any()) return LoadTls(config.admin->tls, TlsRole::kAdmin);
  if (config.mdc && config.mdc->tls.any()) return LoadTls(config.mdc->tls, TlsRole::kMdc);
  return std::optional<TlsMaterial>();
}

void AddPortal(std::vector<std::string>& peers, const std::string& peer) {
  if (std::find(peers.begin(), peers.end(), peer) == peers.end()) peers.push_back(peer);
}

// Those of the kernel's initiator, and of iscsi:// URLs.
std::vector<std::string> Portals(const HostConfig& config, const HostTrees& trees) {
  std::vector<std::string> portals;
  for (const std::string& pattern : config.LunPatterns()) {
    if (!IsIscsiUrl(pattern)) continue;
    const auto url = ParseIscsiUrl(pattern);
    if (!url.ok()) continue;
    for (const std::string& portal : url->portals) AddPortal(portals, portal);
  }
  const std::string connections = trees.sys + "/class/iscsi_connection";
  for (const std::string& name : NamesIn(connections)) {
    const std::string in = absl::StrCat(connections, "/", name, "/");
    const std::string host = TextAt(in + "persistent_address");
    const std::string port = TextAt(in + "persistent_port");
    if (host.empty() || port.empty()) continue;
    const bool six = host.find(':') != host.npos && !host.starts_with('[');
    AddPortal(portals, absl::StrCat(six ? "[" : "", host, six ? "]" : "", ":", port));
  }
  return portals;
}

}  // namespace

std::vector<Finding> ControllerFindings(const HostConfig& config, std::uint32_t timeout_ms) {
  const std::vector<std::string> controllers = config.Controllers();
  if (controllers.empty()) {
    return {Finding::Failure("controller", "", "none is named",
                             "write mdc = [\"HOST\"] into reelfs.toml")};
  }
  const auto tls = OwnTls(config);
  if (!tls.ok()) {
    return {Finding::Failure("controller", "", "not asked: this host's certificate cannot be used",
                             "see the lines on certificates")};
  }
  std::vector<absl::Status> answers;
  for (const std::string& address : controllers) {
    answers.push_back(ProbeMdc(address, tls->has_value() ? &**tls : nullptr, timeout_ms));
  }
  const bool any = std::any_of(answers.begin(), answers.end(),
                               [](const absl::Status& answer) { return answer.ok(); });
  std::vector<Finding> findings;
  for (std::size_t i = 0; i < controllers.size(); ++i) {
    if (answers[i].ok()) {
      findings.push_back(
          Finding::Ok("controller", controllers[i],
                      tls->has_value() ? "answers, by TLS" : "answers, without TLS"));
      continue;
    }
    const bool own = config.mdc && config.mdc->advertise == controllers[i];
    findings.push_back(
        {any && !own ? Finding::Level::kWarning : Finding::Level::kFailure, "controller",
         controllers[i], std::string(answers[i].message()),
         absl::StrCat(own ? "systemctl status reel-mdcd" : "see systemctl status reel-mdcd there",
                      any && !own ? "; another one answers meanwhile" : "")});
  }
  return findings;
}

Finding FrameFinding(const std::string& peer, const FrameFacts& facts) {
  // Headers of IP (20 or 40), of TCP (20), and up to 12 of options.
  constexpr std::uint32_t kMostHeaders = 72;
  constexpr std::uint32_t kUsualHeaders = 52;  // IPv4, with time stamps
  constexpr std::uint32_t kUsualMtu = 1500;
  const std::string subject = absl::StrCat(peer, " by ", facts.interface);
  if (facts.segment_bytes + kMostHeaders < facts.mtu) {
    return Finding::Warning(
        "mtu", subject,
        absl::StrCat("this host takes frames of ", facts.mtu, " bytes, the other end, or what is ",
                     "between, of some ", facts.segment_bytes + kUsualHeaders),
        "give one MTU to all hosts, targets and switches of that net");
  }
  if (facts.pass.has_value() && !*facts.pass) {
    return Finding::Failure(
        "mtu", subject,
        absl::StrCat("both ends take frames of ", facts.mtu, " bytes, and they get lost between"),
        "allow that size on every switch between, or give all hosts and targets a smaller MTU");
  }
  return Finding::Ok(
      "mtu", subject,
      absl::StrCat(
          "both ends take frames of ", facts.mtu, " bytes",
          facts.mtu <= kUsualMtu ? " (on a SAN of 10 Gbit/s and more, 9000 take less CPU)" : ""));
}

std::vector<Finding> FrameFindings(const HostConfig& config, const HostTrees& trees,
                                   std::uint32_t timeout_ms) {
  std::vector<std::string> peers = config.Controllers();
  for (const std::string& portal : Portals(config, trees)) AddPortal(peers, portal);
  std::vector<Finding> findings;
  for (const std::string& peer : peers) {
    if (const auto facts = ReadFrameFacts(peer, timeout_ms)) {
      findings.push_back(FrameFinding(peer, *facts));
    }
  }
  return findings;
}

}  // namespace reel::tools
