// What all programs of a host have in common, in one file beside their own:
// /etc/reelfs/reelfs.toml.
//
//   mdc = ["mdc1.lan", "mdc2.lan:7441"]    the metadata controllers of the volumes
//   luns = ["/dev/disk/by-id/wwn-*"]       where to look for LUNs: shell patterns and iscsi:// URLs
//   tls_ca = "/etc/reelfs/tls/ca.crt"      whose certificates are believed
//
// A program's own file goes before it, value by value: a list that stands there replaces this one.
// Unknown keys and wrong types are errors that name file and line. Threads: pure functions, but for
// ReadSharedConfig, which reads a file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "volume/base/toml_reader.h"

namespace reel {

struct SharedConfig {
  std::vector<TomlText> mdcs;  // as they stand there
  std::vector<TomlText> luns;
  std::optional<TomlText> tls_ca;

  std::vector<std::string> lun_patterns() const;
};

// The shared file that belongs to a program's own: in the same directory.
std::string SharedConfigBeside(const std::string& own_file);

// INVALID_ARGUMENT: "SOURCE:LINE: what".
absl::StatusOr<SharedConfig> ParseSharedConfig(std::string_view text, std::string_view source);
// Nothing in it where there is no such file; else PERMISSION_DENIED, UNAVAILABLE, or as above.
absl::StatusOr<SharedConfig> ReadSharedConfig(const std::string& path);

}  // namespace reel
