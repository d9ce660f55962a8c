#include "tools/config/host_config.h"

#include <unistd.h>

#include <algorithm>
#include <functional>

#include "absl/strings/str_cat.h"
#include "proto/address.h"
#include "tools/config/config_errors.h"
#include "tools/lib/text_file.h"
#include "tools/lib/volume_toml.h"

namespace reel::tools {
namespace {

constexpr const char* kFileNames[] = {"reelfs.toml", "mdc.toml", "client.toml", "reeladm.toml",
                                      "volume.toml"};

template <typename T>
void AddOnce(std::vector<T>& to, const std::vector<T>& from) {
  for (const T& one : from) {
    if (std::find(to.begin(), to.end(), one) == to.end()) to.push_back(one);
  }
}

class HostConfigReader {
 public:
  explicit HostConfigReader(const std::string& directory) {
    config_.directory = directory;
    for (const char* name : kFileNames) {
      const std::string path = absl::StrCat(directory, "/", name);
      config_.files.push_back({.path = path, .present = access(path.c_str(), F_OK) == 0});
    }
  }

  HostConfig Read() {
    ReadShared();
    ReadMdc();
    ReadClient();
    ReadAdmin();
    if (File("volume.toml").present) {
      const std::string& path = File("volume.toml").path;
      NoteAll("volume.toml", ReadVolumeToml(path).status(),
              [&](std::string_view text) { return ParseVolumeToml(text, path).status(); });
    }
    return std::move(config_);
  }

 private:
  ConfigFile& File(std::string_view name) { return const_cast<ConfigFile&>(config_.file(name)); }

  void Note(std::string_view name, const std::string& error) {
    // What all programs stumble over in the shared file is said once, of that.
    for (const ConfigFile& file : config_.files) {
      if (std::find(file.errors.begin(), file.errors.end(), error) != file.errors.end()) return;
    }
    File(name).errors.push_back(error);
  }

  // What the program itself says, and what it would say next. `read`: as the program, of a text.
  void NoteAll(std::string_view name, const absl::Status& status,
               const std::function<absl::Status(std::string_view)>& read) {
    if (status.ok()) return;
    const std::string& path = File(name).path;
    const std::string said(status.message());
    const auto text = ReadTextFile(path);
    // Where the shared file cannot be read, there is more missing than is wrong here.
    const bool alone = !config_.shared && name != kFileNames[0];
    if (!text.ok() || alone || !said.starts_with(path + ":")) return Note(name, said);
    for (const std::string& error : ErrorsOf(*text, path, read)) Note(name, error);
  }

  // Of the certificates that a file names, with the line where it does.
  void NoteTls(std::string_view name, const TlsFiles& files, TlsRole role) {
    const auto loaded = LoadTls(files, role);
    if (loaded.ok()) return;
    const ConfigFile& file = File(name);
    std::string where = file.path + ":1: ";
    if (const auto root = ReadToml(file.path); root.ok()) {
      where = TomlTable(*root, file.path).Where("tls_cert");
    }
    File(name).certificate_errors.push_back(absl::StrCat(where, loaded.status().message()));
  }

  void ReadShared() {
    const std::string& path = File("reelfs.toml").path;
    auto shared = ReadSharedConfig(path);
    NoteAll("reelfs.toml", shared.status(),
            [&](std::string_view text) { return ParseSharedConfig(text, path).status(); });
    if (!shared.ok()) return;
    for (const TomlText& mdc : shared->mdcs) {
      const auto address = MdcAddress(mdc.text);
      if (address.ok()) continue;
      Note("reelfs.toml", absl::StrCat(mdc.where, "mdc: ", address.status().message()));
    }
    config_.shared = *std::move(shared);
  }

  void ReadMdc() {
    ConfigFile& file = File("mdc.toml");
    if (!file.present) return;
    auto mdc = mdc::ReadConfig(file.path);
    NoteAll("mdc.toml", mdc.status(), [&](std::string_view text) {
      return mdc::ParseConfig(text, file.path, *config_.shared).status();
    });
    if (!mdc.ok()) return;
    NoteTls("mdc.toml", mdc->tls, TlsRole::kMdc);
    const std::vector<std::string> known = config_.Controllers();
    if (!mdc->advertise.empty() && !known.empty() &&
        std::find(known.begin(), known.end(), mdc->advertise) == known.end()) {
      file.warnings.push_back(absl::StrCat(file.path, ":1: this controller is reached by ",
                                           mdc->advertise, ", which mdc of ",
                                           File("reelfs.toml").path, " does not name"));
    }
    config_.mdc = *std::move(mdc);
  }

  // Mounts may say it themselves, in fstab(5).
  void WarnOfGap(ConfigFile& file, const char* key, bool empty) {
    if (!empty || !file.present) return;
    file.warnings.push_back(absl::StrCat(file.path, ":1: ", key, " stands neither here nor in ",
                                         File("reelfs.toml").path, ": every mount has to name it"));
  }

  void ReadClient() {
    ConfigFile& file = File("client.toml");
    const bool shared_alone =
        File("reelfs.toml").present && !File("mdc.toml").present && !File("reeladm.toml").present;
    if (!file.present && !shared_alone) return;
    client::MountOptions options;
    absl::Status status;
    if (file.present) {
      const auto text = ReadTextFile(file.path);
      status = text.ok() ? client::ApplyClientConfig(*text, file.path, options) : text.status();
    }
    NoteAll("client.toml", status, [&](std::string_view text) {
      client::MountOptions again;
      return client::ApplyClientConfig(text, file.path, again);
    });
    // What is wrong with the shared file is said of that.
    if (!status.ok() || !config_.shared || !File("reelfs.toml").errors.empty() ||
        !client::ApplySharedConfig(*config_.shared, options).ok()) {
      return;
    }
    WarnOfGap(file, "mdc", options.mdcs.empty());
    WarnOfGap(file, "luns", options.luns.empty());
    if (file.present) NoteTls("client.toml", options.tls, TlsRole::kClient);
    config_.client = std::move(options);
  }

  void ReadAdmin() {
    const ConfigFile& file = File("reeladm.toml");
    if (!file.present) return;
    auto admin = CompleteAdminConfig({}, file.path);
    NoteAll("reeladm.toml", admin.status(),
            [&](std::string_view text) { return ParseAdminConfig(text, file.path).status(); });
    if (!admin.ok()) return;
    NoteTls("reeladm.toml", admin->tls, TlsRole::kAdmin);
    config_.admin = *std::move(admin);
  }

  HostConfig config_;
};

}  // namespace

std::vector<std::string> ConfigFile::AllErrors() const {
  std::vector<std::string> all = errors;
  all.insert(all.end(), certificate_errors.begin(), certificate_errors.end());
  return all;
}

bool HostConfig::any_file() const {
  return std::any_of(files.begin(), files.end(), [](const ConfigFile& f) { return f.present; });
}

bool HostConfig::any_error() const {
  return std::any_of(files.begin(), files.end(), [](const ConfigFile& file) { return !file.ok(); });
}

const ConfigFile& HostConfig::file(std::string_view name) const {
  const auto found = std::find_if(files.begin(), files.end(), [&](const ConfigFile& file) {
    return file.path.ends_with(absl::StrCat("/", std::string(name)));
  });
  return *found;
}

std::vector<std::string> HostConfig::LunPatterns() const {
  std::vector<std::string> patterns;
  if (mdc) {
    AddOnce(patterns, mdc->luns);
    for (const mdc::Config::Volume& volume : mdc->volumes) AddOnce(patterns, volume.luns);
  }
  if (client) AddOnce(patterns, client->luns);
  if (shared) AddOnce(patterns, shared->lun_patterns());
  return patterns;
}

std::vector<std::string> HostConfig::Controllers() const {
  std::vector<std::string> addresses;
  if (client) AddOnce(addresses, client->mdcs);
  if (admin) AddOnce(addresses, admin->mdcs);
  for (const TomlText& mdc : shared ? shared->mdcs : std::vector<TomlText>{}) {
    if (auto address = MdcAddress(mdc.text); address.ok()) AddOnce(addresses, {*address});
  }
  if (addresses.empty() && mdc && !mdc->advertise.empty()) addresses.push_back(mdc->advertise);
  return addresses;
}

HostConfig ReadHostConfig(const std::string& directory) {
  return HostConfigReader(directory).Read();
}

}  // namespace reel::tools
