#include "tools/config/config_values.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "volume/lun/lun.h"

namespace reel::tools {
namespace {

// Where the values of one program stand: its own file, and the shared one.
class Origins {
 public:
  Origins(const HostConfig& config, const char* own)
      : own_path_(config.file(own).path), shared_path_(config.file("reelfs.toml").path) {
    if (auto root = ReadToml(own_path_); root.ok()) own_ = *std::move(root);
    if (auto root = ReadToml(shared_path_); root.ok()) shared_ = *std::move(root);
  }

  // `value`: what holds. An empty one is from nowhere.
  std::string Of(std::string_view key, bool empty, const char* variable = nullptr) const {
    if (variable != nullptr && std::getenv(variable) != nullptr) return absl::StrCat("$", variable);
    if (const TomlNode* node = own_.Find(key)) return absl::StrCat(own_path_, ":", node->line);
    const TomlNode* node = shared_.Find(key);
    if (node != nullptr && !empty) return absl::StrCat(shared_path_, ":", node->line);
    return "default";
  }
  std::string OfNode(const TomlNode& node) const { return absl::StrCat(own_path_, ":", node.line); }
  const TomlNode& own() const { return own_; }

 private:
  std::string own_path_;
  std::string shared_path_;
  TomlNode own_;
  TomlNode shared_;
};

class ValueList {
 public:
  ValueList(std::string program, const Origins& origins)
      : program_(std::move(program)), origins_(origins) {}

  void Add(const char* key, const std::string& value, const char* variable = nullptr) {
    Put({program_, key, {value}, false, origins_.Of(key, value.empty(), variable)});
  }
  void AddList(const char* key, std::vector<std::string> values, const char* variable = nullptr) {
    const bool empty = values.empty();
    for (std::string& value : values) value = LunNameForPeople(value);
    Put({program_, key, std::move(values), true, origins_.Of(key, empty, variable)});
  }
  void AddTls(const TlsFiles& tls, bool of_reeladm) {
    Add("tls_ca", tls.ca, of_reeladm ? "REELADM_TLS_CA" : nullptr);
    Add("tls_cert", tls.cert, of_reeladm ? "REELADM_TLS_CERT" : nullptr);
    Add("tls_key", tls.key, of_reeladm ? "REELADM_TLS_KEY" : nullptr);
  }
  void Put(ConfigValue value) { values_.push_back(std::move(value)); }
  std::vector<ConfigValue> Take() { return std::move(values_); }

 private:
  std::string program_;
  const Origins& origins_;
  std::vector<ConfigValue> values_;
};

std::string NamesText(mdc::NameReplies names) {
  switch (names) {
    case mdc::NameReplies::kDurable:
      return "durable";
    case mdc::NameReplies::kDelegated:
      return "delegated";
    case mdc::NameReplies::kEarly:
      return "early";
  }
  return "?";
}

std::vector<ConfigValue> ValuesOfMdc(const HostConfig& config, const mdc::Config& mdc) {
  const Origins origins(config, "mdc.toml");
  ValueList list("reel-mdcd", origins);
  list.Add("listen", mdc.listen);
  list.Add("advertise", mdc.advertise);
  list.AddList("luns", mdc.luns);
  list.AddTls(mdc.tls, /*of_reeladm=*/false);
  list.Add("session_lease_ms", absl::StrCat(mdc.session_lease_ms));
  list.Add("seat_ms", absl::StrCat(mdc.seat_ms));
  list.Add("cache_mib", absl::StrCat(mdc.cache_mib));
  list.Add("names", NamesText(mdc.names));
  list.Add("log_level", mdc.log_level);
  const TomlNode* tables = origins.own().Find("volume");
  for (std::size_t i = 0; i < mdc.volumes.size(); ++i) {
    const mdc::Config::Volume& volume = mdc.volumes[i];
    const TomlNode& table = tables->elements[i];
    list.Put({"reel-mdcd", "volume", {volume.name}, false, origins.OfNode(table)});
    if (const TomlNode* luns = table.Find("luns")) {
      list.Put({"reel-mdcd", absl::StrCat("volume ", volume.name, " luns"), volume.luns, true,
                origins.OfNode(*luns)});
    }
    if (volume.exports.empty()) continue;
    list.Put({"reel-mdcd",
              absl::StrCat("volume ", volume.name, " exports"),
              {absl::StrCat(volume.exports.size())},
              false,
              origins.OfNode(*table.Find("export"))});
  }
  return list.Take();
}

std::vector<ConfigValue> ValuesOfClient(const HostConfig& config,
                                        const client::MountOptions& client) {
  const Origins origins(config, "client.toml");
  ValueList list("mount.reelfs", origins);
  list.AddList("mdc", client.mdcs);
  list.AddList("luns", client.luns);
  list.AddTls(client.tls, /*of_reeladm=*/false);
  return list.Take();
}

std::vector<ConfigValue> ValuesOfAdmin(const HostConfig& config, const AdminConfig& admin) {
  const Origins origins(config, "reeladm.toml");
  ValueList list("reeladm", origins);
  list.AddList("mdc", admin.mdcs, "REELADM_MDC");
  list.Add("volume", admin.volume, "REELADM_VOLUME");
  list.AddTls(admin.tls, /*of_reeladm=*/true);
  return list.Take();
}

}  // namespace

std::vector<ConfigValue> ValuesOf(const HostConfig& config) {
  std::vector<ConfigValue> values;
  const auto add = [&](std::vector<ConfigValue> more) {
    values.insert(values.end(), std::make_move_iterator(more.begin()),
                  std::make_move_iterator(more.end()));
  };
  if (config.mdc) add(ValuesOfMdc(config, *config.mdc));
  if (config.client) add(ValuesOfClient(config, *config.client));
  if (config.admin) add(ValuesOfAdmin(config, *config.admin));
  return values;
}

}  // namespace reel::tools
