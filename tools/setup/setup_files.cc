#include "tools/setup/setup_files.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/address.h"
#include "volume/lun/lun.h"

namespace reel::tools {
namespace {

SetupHost& HostNamed(std::vector<SetupHost>& hosts, const std::string& name) {
  for (SetupHost& host : hosts) {
    if (host.name == name) return host;
  }
  return hosts.emplace_back(SetupHost{.name = name});
}

void AddRole(SetupHost& host, TlsRole role) {
  if (!host.Has(role)) host.roles.push_back(role);
}

std::string Head(std::string_view file, std::string_view what) {
  return absl::StrCat("# ", std::string(file), ": ", std::string(what), "\n",
                      "# Written by reeladm setup. What is changed here by hand, it overwrites "
                      "only with --force.\n\n");
}

std::string SharedText(const SetupPlan& plan) {
  std::vector<std::string> addresses;
  for (const PlannedController& controller : plan.controllers) {
    addresses.push_back(controller.address);
  }
  return absl::StrCat(Head("reelfs.toml", "what all programs of this host share; reelfs.toml(5)."),
                      "mdc = ", TomlQuoted(addresses), "\nluns = ", TomlQuoted(plan.luns),
                      "\ntls_ca = ", TomlQuoted(plan.etc + "/tls/ca.crt"), "\n");
}

std::string TlsLines(const SetupPlan& plan, TlsRole role) {
  const std::string path = absl::StrCat(plan.etc, "/tls/", std::string(RoleName(role)));
  return absl::StrCat("tls_cert = ", TomlQuoted(path + ".crt"),
                      "\ntls_key = ", TomlQuoted(path + ".key"), "\n");
}

// A host's name may lead to its loopback address on the host itself (Debian's 127.0.1.1), so that a
// controller listens everywhere and says by which name it is reached.
std::string ListenLines(const PlannedController& controller) {
  if (IsLoopbackAddress(controller.address)) {
    return absl::StrCat("listen = ", TomlQuoted(controller.address), "\n");
  }
  const std::string port = controller.address.substr(controller.address.rfind(':'));
  return absl::StrCat("listen = ", TomlQuoted("[::]" + port),
                      "\nadvertise = ", TomlQuoted(controller.address), "\n");
}

std::string MdcText(const SetupPlan& plan, const PlannedController& controller) {
  return absl::StrCat(Head("mdc.toml", "the metadata controller; reelfs-mdc.toml(5)."),
                      ListenLines(controller), TlsLines(plan, TlsRole::kMdc),
                      "\n[[volume]]\nname = ", TomlQuoted(plan.volume), "\n");
}

std::string ClientText(const SetupPlan& plan) {
  return absl::StrCat(Head("client.toml", "mount.reelfs; reelfs-client.toml(5)."),
                      TlsLines(plan, TlsRole::kClient));
}

std::string AdminText(const SetupPlan& plan) {
  return absl::StrCat(Head("reeladm.toml", "reeladm; reelfs-client.toml(5)."),
                      "volume = ", TomlQuoted(plan.volume), "\n", TlsLines(plan, TlsRole::kAdmin));
}

std::string PoolText(std::string_view name, std::string_view flags,
                     const std::vector<std::string>& luns) {
  return absl::StrCat("\n[[pool]]\nname = \"", std::string(name),
                      "\"\nflags = ", std::string(flags), "\nluns = ", TomlQuoted(luns), "\n");
}

std::string VolumeText(const SetupPlan& plan) {
  const bool apart = !plan.metadata_luns.empty();
  return absl::StrCat(
      Head("volume.toml", "what mkfs.reelfs makes the volume from; reelfs-volume.toml(5)."),
      "name = ", TomlQuoted(plan.volume), "\n",
      apart ? PoolText("meta", R"(["metadata"])", plan.metadata_luns) : "",
      PoolText("data", apart ? R"(["data"])" : R"(["metadata", "data"])", plan.data_luns));
}

// iscsi:// URLs may carry a secret.
bool HoldsSecret(const std::vector<std::string>& luns) {
  return std::any_of(luns.begin(), luns.end(),
                     [](const std::string& lun) { return LunNameForPeople(lun) != lun; });
}

}  // namespace

bool SetupHost::Has(TlsRole role) const {
  return std::find(roles.begin(), roles.end(), role) != roles.end();
}

std::vector<SetupHost> HostsOf(const SetupPlan& plan) {
  std::vector<SetupHost> hosts;
  for (const PlannedController& controller : plan.controllers) {
    SetupHost& host = HostNamed(hosts, controller.host);
    host.controller = &controller;
    AddRole(host, TlsRole::kMdc);
  }
  for (const std::string& client : plan.clients) {
    AddRole(HostNamed(hosts, client), TlsRole::kClient);
  }
  for (SetupHost& host : hosts) {
    if (host.Has(TlsRole::kMdc)) AddRole(host, TlsRole::kAdmin);
  }
  for (const std::string& admin : plan.admins) AddRole(HostNamed(hosts, admin), TlsRole::kAdmin);
  return hosts;
}

std::string HostDirectory(const std::string& host) {
  return "hosts/" + host;
}

std::string CertificatePath(const std::string& host, TlsRole role) {
  return absl::StrCat(HostDirectory(host), "/tls/", std::string(RoleName(role)));
}

std::vector<SetupFile> FilesOf(const SetupPlan& plan) {
  std::vector<SetupFile> files;
  const bool secret = HoldsSecret(plan.luns);
  const bool volume_secret = HoldsSecret(plan.metadata_luns) || HoldsSecret(plan.data_luns);
  bool described = !plan.describes_volume();
  for (const SetupHost& host : HostsOf(plan)) {
    const std::string in = HostDirectory(host.name) + "/";
    files.push_back({in + "reelfs.toml", SharedText(plan), secret});
    if (host.Has(TlsRole::kMdc)) {
      files.push_back({in + "mdc.toml", MdcText(plan, *host.controller)});
      if (!described) files.push_back({in + "volume.toml", VolumeText(plan), volume_secret});
      described = true;
    }
    if (host.Has(TlsRole::kClient)) files.push_back({in + "client.toml", ClientText(plan)});
    if (host.Has(TlsRole::kAdmin)) files.push_back({in + "reeladm.toml", AdminText(plan)});
  }
  return files;
}

}  // namespace reel::tools
