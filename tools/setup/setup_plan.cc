#include "tools/setup/setup_plan.h"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "nlohmann/json.hpp"
#include "proto/address.h"
#include "tools/lib/volume_toml.h"
#include "volume/base/toml_reader.h"

namespace reel::tools {
namespace {

constexpr std::size_t kMaxHosts = 1024;
constexpr std::size_t kMaxHostNameBytes = 64;  // a certificate's common name

absl::Status Wrong(std::string_view what) {
  return absl::InvalidArgumentError({what.data(), what.size()});
}

// JSON's strings and lists are TOML's too, with all that is not ASCII as escapes.
std::string Quoted(const nlohmann::json& value) {
  return value.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::string ControllerText(const PlannedController& controller) {
  std::string text = controller.address;
  for (const std::string& name : controller.names) absl::StrAppend(&text, ",", name);
  return text;
}

std::vector<std::string> ControllerTexts(const SetupPlan& plan) {
  std::vector<std::string> texts;
  for (const PlannedController& controller : plan.controllers) {
    texts.push_back(ControllerText(controller));
  }
  return texts;
}

std::vector<std::string> PlanTexts(TomlTable& table, std::string_view key) {
  std::vector<std::string> texts;
  for (TomlText& text : table.Texts(key, kMaxHosts)) texts.push_back(std::move(text.text));
  return texts;
}

template <typename T>
absl::Status Replace(std::string_view key, T& stored, const T& wished, bool force) {
  if (wished.empty() || wished == stored) return absl::OkStatus();
  if (!stored.empty() && !force) {
    return absl::FailedPreconditionError(
        absl::StrCat("the set has ", std::string(key), " = ", TomlQuoted(stored), ", and not ",
                     TomlQuoted(wished), "; nothing was changed. To change it, add --force"));
  }
  stored = wished;
  return absl::OkStatus();
}

void AddHosts(std::vector<std::string>& stored, const std::vector<std::string>& wished) {
  for (const std::string& host : wished) {
    if (std::find(stored.begin(), stored.end(), host) == stored.end()) stored.push_back(host);
  }
}

absl::Status AddControllers(std::vector<PlannedController>& stored,
                            const std::vector<PlannedController>& wished, bool force) {
  for (const PlannedController& controller : wished) {
    const auto there =
        std::find_if(stored.begin(), stored.end(),
                     [&](const PlannedController& other) { return other.host == controller.host; });
    if (there == stored.end()) {
      stored.push_back(controller);
    } else if (controller.address != there->address ||
               (!controller.names.empty() && controller.names != there->names)) {
      if (!force) {
        return absl::FailedPreconditionError(absl::StrCat(
            "the set has the controller ", ControllerText(*there), ", and not ",
            ControllerText(controller), "; nothing was changed. To change it, add --force"));
      }
      *there = controller;
    }
  }
  return absl::OkStatus();
}

absl::Status CheckHosts(std::string_view option, const std::vector<std::string>& hosts) {
  std::set<std::string> seen;
  for (const std::string& host : hosts) {
    if (absl::Status s = CheckHostName(host); !s.ok()) {
      return Wrong(absl::StrCat(std::string(option), ": ", s.message()));
    }
    if (!seen.insert(host).second) {
      return Wrong(absl::StrCat(std::string(option), ": ", host, " is given twice"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::string TomlQuoted(const std::string& text) {
  return Quoted(text);
}

std::string TomlQuoted(const std::vector<std::string>& texts) {
  std::string list = "[";
  for (const std::string& text : texts) {
    absl::StrAppend(&list, list.size() > 1 ? ", " : "", Quoted(text));
  }
  return list + "]";
}

absl::Status CheckHostName(std::string_view host) {
  const bool fits = !host.empty() && host != "ca" && host.size() <= kMaxHostNameBytes &&
                    host.front() != '.' && host.front() != '-' &&
                    std::all_of(host.begin(), host.end(), [](char c) {
                      return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' ||
                             c == '_' || c == '-';
                    });
  if (fits) return absl::OkStatus();
  return Wrong(absl::StrCat("\"", absl::CHexEscape({host.data(), host.size()}),
                            "\" is no host name or IPv4 address (1 to 64 letters, digits, '.', '_' "
                            "and '-'; \"ca\" is the authority's)"));
}

// A name or address, as a certificate shows it.
absl::StatusOr<std::string> CanonicalName(const std::string& name) {
  in6_addr address{};
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (inet_pton(AF_INET6, name.c_str(), &address) != 1) {
    const absl::Status status = CheckHostName(name);
    return status.ok() ? absl::StatusOr<std::string>(name) : status;
  }
  return std::string(inet_ntop(AF_INET6, &address, text.data(), text.size()));
}

absl::StatusOr<PlannedController> ParseController(std::string_view text) {
  std::vector<std::string> parts = absl::StrSplit(absl::string_view(text.data(), text.size()), ',');
  PlannedController controller;
  auto address = MdcAddress(parts.front());
  if (!address.ok()) return Wrong(absl::StrCat("--mdc: ", address.status().message()));
  controller.address = *std::move(address);
  controller.host = controller.address.substr(0, controller.address.rfind(':'));
  if (controller.host.starts_with('[')) {
    return Wrong(absl::StrCat("--mdc: ", controller.host,
                              ": a controller needs a name, or an IPv4 address; its IPv6 address "
                              "may follow after a comma"));
  }
  if (absl::Status s = CheckHostName(controller.host); !s.ok()) {
    return Wrong(absl::StrCat("--mdc: ", s.message()));
  }
  for (auto name = parts.begin() + 1; name != parts.end(); ++name) {
    auto canonical = CanonicalName(*name);
    if (!canonical.ok()) return Wrong(absl::StrCat("--mdc: ", canonical.status().message()));
    controller.names.push_back(*std::move(canonical));
  }
  return controller;
}

std::string SetupPlanText(const SetupPlan& plan) {
  std::string text =
      "# What reeladm setup has made this directory from. To add hosts, run it again and name "
      "them;\n"
      "# to change something else, change it here, and run it with --force.\n";
  const auto add = [&](std::string_view key, const auto& value) {
    if (!value.empty()) {
      absl::StrAppend(&text, std::string(key), " = ", TomlQuoted(value), "\n");
    }
  };
  add("volume", plan.volume);
  add("mdc", ControllerTexts(plan));
  add("client", plan.clients);
  add("admin", plan.admins);
  add("luns", plan.luns);
  add("metadata", plan.metadata_luns);
  add("data", plan.data_luns);
  add("etc", plan.etc);
  return text;
}

absl::StatusOr<SetupPlan> ParseSetupPlan(std::string_view text, std::string_view source) {
  const auto root = ParseToml(text, source);
  if (!root.ok()) return root.status();
  TomlTable table(*root, source);
  SetupPlan plan;
  plan.volume = table.Text("volume").value_or("");
  for (const TomlText& mdc : table.Texts("mdc", kMaxHosts)) {
    auto controller = ParseController(mdc.text);
    if (!controller.ok()) return Wrong(absl::StrCat(mdc.where, controller.status().message()));
    plan.controllers.push_back(*std::move(controller));
  }
  plan.clients = PlanTexts(table, "client");
  plan.admins = PlanTexts(table, "admin");
  plan.luns = PlanTexts(table, "luns");
  plan.metadata_luns = PlanTexts(table, "metadata");
  plan.data_luns = PlanTexts(table, "data");
  plan.etc = table.Text("etc").value_or(kEtc);
  if (absl::Status s = table.Finish(); !s.ok()) return s;
  if (absl::Status s = CheckPlan(plan); !s.ok()) {
    return Wrong(absl::StrCat(std::string(source), ":1: ", s.message()));
  }
  return plan;
}

absl::StatusOr<SetupPlan> ExtendPlan(const SetupPlan& stored, const SetupPlan& wished, bool force) {
  SetupPlan plan = stored;
  for (const absl::Status& status :
       {Replace("volume", plan.volume, wished.volume, force),
        AddControllers(plan.controllers, wished.controllers, force),
        Replace("luns", plan.luns, wished.luns, force),
        Replace("metadata", plan.metadata_luns, wished.metadata_luns, force),
        Replace("data", plan.data_luns, wished.data_luns, force),
        Replace("etc", plan.etc, wished.etc, force)}) {
    if (!status.ok()) return status;
  }
  AddHosts(plan.clients, wished.clients);
  AddHosts(plan.admins, wished.admins);
  return plan;
}

absl::Status CheckPlan(const SetupPlan& plan) {
  if (plan.volume.empty()) return Wrong("--volume is missing: the volume's name");
  if (absl::Status s = ValidateVolumeName(plan.volume); !s.ok()) {
    return Wrong(absl::StrCat("--volume: ", s.message()));
  }
  if (plan.controllers.empty()) {
    return Wrong("--mdc is missing: HOST[:PORT] of each metadata controller");
  }
  if (plan.luns.empty()) {
    return Wrong("--luns is missing: where hosts look for LUNs, such as '/dev/disk/by-id/wwn-*'");
  }
  std::vector<std::string> hosts;
  for (const PlannedController& controller : plan.controllers) hosts.push_back(controller.host);
  for (const absl::Status& status :
       {CheckHosts("--mdc", hosts), CheckHosts("--client", plan.clients),
        CheckHosts("--admin", plan.admins)}) {
    if (!status.ok()) return status;
  }
  if (!plan.metadata_luns.empty() && plan.data_luns.empty()) {
    return Wrong("--data is missing: the LUNs of file data, by label or path");
  }
  if (!plan.etc.starts_with('/')) {
    return Wrong(absl::StrCat("--etc ", absl::CHexEscape(plan.etc), ": must begin with a '/'"));
  }
  return absl::OkStatus();
}

}  // namespace reel::tools
