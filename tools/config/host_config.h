// The configuration files of a host, read as its programs read them: what is wrong with each, and
// what holds in the end.
//
// Threads: plain values; ReadHostConfig reads files and the environment of reeladm.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/mount/mount_options.h"
#include "mdc/daemon/config.h"
#include "proto/tls/tls.h"
#include "tools/admin/admin_config.h"
#include "volume/base/shared_config.h"

namespace reel::tools {

inline constexpr char kConfigDirectory[] = "/etc/reelfs";

struct ConfigFile {
  std::string path;
  bool present = false;
  // Each says file, line, and what: of this file, and of the certificates that it names.
  std::vector<std::string> errors{};
  std::vector<std::string> certificate_errors{};
  std::vector<std::string> warnings{};

  bool ok() const { return errors.empty() && certificate_errors.empty(); }
  std::vector<std::string> AllErrors() const;
};

struct HostConfig {
  std::string directory;
  std::vector<ConfigFile> files;  // reelfs.toml, mdc.toml, client.toml, reeladm.toml, volume.toml
  // What the programs get; unset where the host has no such file, or where it cannot be read. A
  // host with nothing but reelfs.toml is a client's.
  std::optional<SharedConfig> shared;
  std::optional<mdc::Config> mdc;
  std::optional<client::MountOptions> client;
  std::optional<AdminConfig> admin;

  bool any_file() const;
  bool any_error() const;
  const ConfigFile& file(std::string_view name) const;
  // The patterns of all its programs, each once.
  std::vector<std::string> LunPatterns() const;
  // The controllers that its programs know, each once, as HOST:PORT.
  std::vector<std::string> Controllers() const;
};

HostConfig ReadHostConfig(const std::string& directory);

}  // namespace reel::tools
