#include "tools/setup/setup_steps.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "nlohmann/json.hpp"
#include "tools/setup/setup_files.h"

namespace reel::tools {
namespace {

using State = SetupOutcome::File::State;

std::string ShellQuoted(const std::string& text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:@%+,=-";
  if (!text.empty() && text.find_first_not_of(kPlain) == text.npos) return text;
  return absl::StrCat("'", absl::StrReplaceAll(text, {{"'", "'\\''"}}), "'");
}

// "--config FILE", where the files lie elsewhere than programs look by themselves.
std::string ConfigOption(const SetupRequest& request, std::string_view option,
                         std::string_view file) {
  if (request.plan.etc == kEtc) return "";
  return absl::StrCat(" ", std::string(option), ShellQuoted(request.plan.etc), "/",
                      std::string(file));
}

bool WasThere(const SetupRequest& request, const std::string& host, TlsRole role) {
  if (request.stored.volume.empty()) return false;
  const std::vector<SetupHost> hosts = HostsOf(request.stored);
  return std::any_of(hosts.begin(), hosts.end(),
                     [&](const SetupHost& other) { return other.name == host && other.Has(role); });
}

std::vector<std::string> NewHosts(const SetupRequest& request, TlsRole role) {
  std::vector<std::string> names;
  for (const SetupHost& host : HostsOf(request.plan)) {
    if (host.Has(role) && !WasThere(request, host.name, role)) names.push_back(host.name);
  }
  return names;
}

// Making the volume: once, on the host that has its description.
void AddVolumeSteps(const SetupRequest& request, std::vector<SetupStep>& steps) {
  const SetupPlan& plan = request.plan;
  const bool described = !request.stored.volume.empty() && request.stored.describes_volume();
  if (!plan.describes_volume() || described) return;
  const std::vector<std::string> first = {plan.controllers.front().host};
  for (const std::vector<std::string>* luns : {&plan.metadata_luns, &plan.data_luns}) {
    for (const std::string& lun : *luns) {
      if (lun.find('/') != lun.npos) continue;  // mkfs.reelfs labels what is named by its path
      steps.push_back({first, absl::StrCat("reel-label write ", ShellQuoted(lun), " PATH"),
                       "gives the LUN its name, once"});
    }
  }
  steps.push_back({first,
                   absl::StrCat("mkfs.reelfs --config ", ShellQuoted(plan.etc), "/volume.toml"),
                   "makes the volume; --dry-run shows what it would do"});
}

std::string CountOf(std::size_t count, std::string_view what) {
  return absl::StrCat(count, " ", std::string(what), count == 1 ? "" : "s");
}

}  // namespace

std::string CopyCommand(const SetupRequest& request, const std::string& host) {
  const std::string etc = ShellQuoted(request.plan.etc);
  return absl::StrCat(
      "tar -C ", ShellQuoted(absl::StrCat(request.directory, "/", HostDirectory(host))),
      " -c . | ssh root@", host, " \"mkdir -p ", etc, " && tar -C ", etc, " -xp --no-same-owner\"");
}

std::vector<SetupStep> NextSteps(const SetupRequest& request) {
  const SetupPlan& plan = request.plan;
  std::vector<SetupStep> steps;
  const auto add = [&](const std::vector<std::string>& hosts, const std::string& run,
                       const char* why) {
    if (!hosts.empty()) steps.push_back({hosts, run, why});
  };
  const std::vector<std::string> controllers = NewHosts(request, TlsRole::kMdc);
  const std::vector<std::string> clients = NewHosts(request, TlsRole::kClient);
  const std::string directory =
      plan.etc == kEtc ? "" : absl::StrCat(" --dir ", ShellQuoted(plan.etc));
  std::vector<std::string> hosts = controllers;
  for (const std::string& client : clients) {
    if (std::find(hosts.begin(), hosts.end(), client) == hosts.end()) hosts.push_back(client);
  }
  add(hosts, absl::StrCat("reeladm config check", directory), "reads what was copied");
  AddVolumeSteps(request, steps);
  add(controllers,
      plan.etc == kEtc ? std::string("systemctl enable --now reel-mdcd")
                       : absl::StrCat("reel-mdcd", ConfigOption(request, "--config ", "mdc.toml")),
      "starts the controller");
  const std::string config = ConfigOption(request, "-o config=", "client.toml");
  add(clients,
      absl::StrCat("mkdir -p /mnt/", plan.volume, " && mount -t reelfs ", plan.volume, " /mnt/",
                   plan.volume, config),
      "mounts the volume; in fstab(5): options _netdev,nofail");
  add(hosts, absl::StrCat("reeladm doctor", directory), "looks at the host from end to end");
  add({plan.controllers.front().host},
      absl::StrCat("reeladm", ConfigOption(request, "--config ", "reeladm.toml"), " show"),
      "shows the volume and its controllers");
  return steps;
}

std::string SetupText(const SetupRequest& request, const SetupOutcome& outcome) {
  const SetupPlan& plan = request.plan;
  std::string text = absl::StrCat(
      request.directory, ": the set of volume ", plan.volume, ", ",
      CountOf(plan.controllers.size(), "controller"), ", ", CountOf(plan.clients.size(), "client"),
      "; ", outcome.files.size(), " files, of which ",
      std::count_if(outcome.files.begin(), outcome.files.end(),
                    [](const auto& file) { return file.state != State::kUnchanged; }),
      " were written now.\n",
      "It holds the authority's key and those of all hosts: keep it from others, and off the "
      "LAN.\n");
  const std::vector<SetupHost> hosts = HostsOf(plan);
  const bool any = std::any_of(hosts.begin(), hosts.end(),
                               [&](const SetupHost& host) { return outcome.Touches(host.name); });
  absl::StrAppend(&text, any ? "\nCopy:\n" : "\nNothing new is to be copied.\n");
  for (const SetupHost& host : hosts) {
    if (outcome.Touches(host.name)) {
      absl::StrAppend(&text, "  ", CopyCommand(request, host.name), "\n");
    }
    if (host.Has(TlsRole::kMdc) && host.Has(TlsRole::kClient)) {
      absl::StrAppend(&text, "  (", host.name, " is controller and client: with block devices one ",
                      "of them alone has the LUNs; with iscsi:// URLs both do.)\n");
    }
  }
  absl::StrAppend(&text, "\nThen run:\n");
  for (const SetupStep& step : NextSteps(request)) {
    absl::StrAppend(&text, "  on ", absl::StrJoin(step.hosts, ", "), ": ", step.run, "\n      (",
                    step.why, ")\n");
  }
  if (!request.stored.volume.empty() && any) {
    absl::StrAppend(&text, "  Controllers and mounts that run read changed files at their next ",
                    "start.\n");
  }
  return text;
}

nlohmann::ordered_json SetupJson(const SetupRequest& request, const SetupOutcome& outcome) {
  nlohmann::ordered_json json = {{"directory", request.directory}, {"volume", request.plan.volume}};
  json["files"] = nlohmann::ordered_json::array();
  for (const SetupOutcome::File& file : outcome.files) {
    const char* const state = file.state == State::kNew       ? "new"
                              : file.state == State::kChanged ? "changed"
                                                              : "unchanged";
    json["files"].push_back({{"path", file.path}, {"state", state}});
  }
  json["hosts"] = nlohmann::ordered_json::array();
  for (const SetupHost& host : HostsOf(request.plan)) {
    std::vector<std::string> roles;
    for (const TlsRole role : host.roles) roles.emplace_back(RoleName(role));
    json["hosts"].push_back(
        {{"host", host.name},
         {"roles", roles},
         {"directory", absl::StrCat(request.directory, "/", HostDirectory(host.name))},
         {"to", request.plan.etc},
         {"changed", outcome.Touches(host.name)},
         {"copy", CopyCommand(request, host.name)}});
  }
  json["next"] = nlohmann::ordered_json::array();
  for (const SetupStep& step : NextSteps(request)) {
    json["next"].push_back({{"hosts", step.hosts}, {"run", step.run}, {"why", step.why}});
  }
  return json;
}

}  // namespace reel::tools
