#include "volume/base/shared_config.h"

namespace reel {
namespace {

constexpr char kSharedName[] = "reelfs.toml";
constexpr std::size_t kMaxSharedTexts = 1024;

absl::StatusOr<SharedConfig> FromShared(const TomlNode& root, std::string_view source) {
  TomlTable table(root, source);
  SharedConfig config;
  config.mdcs = table.Texts("mdc", kMaxSharedTexts);
  config.luns = table.Texts("luns", kMaxSharedTexts);
  if (auto ca = table.Text("tls_ca")) config.tls_ca = {*std::move(ca), table.Where("tls_ca")};
  if (absl::Status status = table.Finish(); !status.ok()) return status;
  return config;
}

}  // namespace

std::vector<std::string> SharedConfig::lun_patterns() const {
  std::vector<std::string> patterns;
  for (const TomlText& pattern : luns) patterns.push_back(pattern.text);
  return patterns;
}

std::string SharedConfigBeside(const std::string& own_file) {
  return own_file.substr(0, own_file.rfind('/') + 1) + kSharedName;
}

absl::StatusOr<SharedConfig> ParseSharedConfig(std::string_view text, std::string_view source) {
  const auto root = ParseToml(text, source);
  if (!root.ok()) return root.status();
  return FromShared(*root, source);
}

absl::StatusOr<SharedConfig> ReadSharedConfig(const std::string& path) {
  const auto root = ReadToml(path);
  if (absl::IsNotFound(root.status())) return SharedConfig();
  if (!root.ok()) return root.status();
  return FromShared(*root, path);
}

}  // namespace reel
