#include "mdc/daemon/live_config.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace reel::mdc {

LiveConfig::LiveConfig(const Config& config, std::string path)
    : config_(config), path_(std::move(path)) {
  for (const Config::Volume& volume : config.volumes) {
    exports_[volume.name] = std::make_shared<LiveExports>(volume.exports);
  }
}

absl::StatusOr<std::vector<Export>> LiveConfig::Exports(const std::string& volume,
                                                        bool reload) const {
  const auto live = exports_.find(volume);
  if (live == exports_.end()) {
    return absl::NotFoundError(absl::StrCat("volume ", volume, " is not configured here"));
  }
  if (!reload) return live->second->Get();
  const auto config = ReadConfig(path_);
  if (!config.ok()) return config.status();
  for (const Config::Volume& entry : config->volumes) {
    if (entry.name != volume) continue;
    live->second->Set(entry.exports);
    return entry.exports;
  }
  return absl::NotFoundError(
      absl::StrCat(path_, " names volume ", volume, " no longer; its exports stay as they were"));
}

void LiveConfig::Describe(v1::SettingsReply& reply) const {
  constexpr const char* kNames[] = {"durable", "delegated", "early"};
  const auto add = [&](std::string name, std::string value) {
    v1::SettingsReply::Setting& setting = *reply.add_settings();
    setting.set_name(std::move(name));
    setting.set_value(std::move(value));
  };
  reply.set_config(path_);
  add("listen", config_.listen);
  add("advertise", config_.advertise);
  add("web_listen", config_.web_listen);
  add("tls_ca", config_.tls.ca);
  add("tls_cert", config_.tls.cert);
  add("tls_key", config_.tls.key);
  add("luns", absl::StrJoin(config_.luns, " "));
  add("session_lease_ms", absl::StrCat(config_.session_lease_ms));
  add("seat_ms", absl::StrCat(config_.seat_ms));
  add("cache_mib", absl::StrCat(config_.cache_mib));
  add("quota_hook", absl::StrJoin(config_.quota_hook, " "));
  add("space_low_percent", absl::StrCat(config_.space_limits.low));
  add("space_critical_percent", absl::StrCat(config_.space_limits.critical));
  add("scrub_memory_mib", absl::StrCat(config_.scrub_memory_mib));
  add("names", kNames[static_cast<int>(config_.names)]);
  for (const Config::Volume& volume : config_.volumes) {
    add(absl::StrCat("volume.", volume.name, ".luns"), absl::StrJoin(volume.luns, " "));
    add(absl::StrCat("volume.", volume.name, ".scrub"), volume.scrub);
    add(absl::StrCat("volume.", volume.name, ".small_file_bytes"),
        volume.small_file_bytes ? absl::StrCat(*volume.small_file_bytes)
                                : "as the volume was made");
    for (const Export& exported : exports_.at(volume.name)->Get()) {
      add(absl::StrCat("volume.", volume.name, ".export"),
          absl::StrCat(absl::StrJoin(exported.clients, " "), ": ", ExportText(exported)));
    }
  }
}

}  // namespace reel::mdc
