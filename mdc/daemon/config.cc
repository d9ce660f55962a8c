#include "mdc/daemon/config.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "proto/address.h"
#include "proto/protocol.h"
#include "volume/base/toml_reader.h"
#include "volume/format/arbitration_block.h"
#include "volume/format/label.h"

namespace reel::mdc {
namespace {

constexpr std::size_t kMaxPatterns = 1024;
constexpr std::size_t kMaxVolumes = 64;
constexpr std::size_t kMaxExports = 256;
constexpr char kOff[] = "off";
constexpr std::string_view kAccess[] = {"rw", "ro", "none"};
constexpr std::string_view kSquash[] = {"none", "root", "all"};
constexpr std::string_view kNames[] = {"durable", "delegated", "early"};  // when they are answered
constexpr std::string_view kLogLevels[] = {"trace", "debug", "info", "warn", "error"};

std::vector<std::string> ReadPatterns(TomlTable& table) {
  std::vector<std::string> patterns;
  for (TomlText& pattern : table.Texts("luns", kMaxPatterns)) {
    patterns.push_back(std::move(pattern.text));
  }
  return patterns;
}

absl::StatusOr<Export> ReadExport(const TomlNode& node, const std::string& source) {
  TomlTable table(node, source);
  Export rule;
  for (TomlText& pattern : table.Texts("clients", kMaxPatterns)) {
    rule.clients.push_back(std::move(pattern.text));
  }
  const std::string access = table.Choice("access", kAccess).value_or("rw");
  const std::string squash = table.Choice("squash", kSquash).value_or("none");
  constexpr std::int64_t kMaxId = 0xffff'fffe;  // the one above means "no change" to chown(2)
  rule.anonymous_uid = static_cast<std::uint32_t>(
      table.Number("anonymous_uid", 0, kMaxId).value_or(rule.anonymous_uid));
  rule.anonymous_gid = static_cast<std::uint32_t>(
      table.Number("anonymous_gid", 0, kMaxId).value_or(rule.anonymous_gid));
  if (absl::Status s = table.Finish(); !s.ok()) return s;
  if (rule.clients.empty()) {
    table.Fail(node, "an export without clients; clients = [\"*\"] means all of them");
  }
  rule.access = access == "rw"   ? Export::Access::kReadWrite
                : access == "ro" ? Export::Access::kReadOnly
                                 : Export::Access::kNone;
  rule.squash = squash == "none"   ? Export::Squash::kNone
                : squash == "root" ? Export::Squash::kRoot
                                   : Export::Squash::kAll;
  if (absl::Status s = table.Finish(); !s.ok()) return s;
  return rule;
}

// In seconds, 0 for never; nullopt: no interval.
std::optional<std::uint64_t> ParseInterval(std::string_view text) {
  constexpr std::uint64_t kHour = 3'600, kDay = 24 * kHour, kMost = 3'650 * kDay;
  if (text == "never") return 0;
  if (text == "daily") return kDay;
  if (text == "weekly") return 7 * kDay;
  if (text == "monthly") return 30 * kDay;
  if (text.size() < 2 || (text.back() != 'h' && text.back() != 'd')) return std::nullopt;
  const std::uint64_t unit = text.back() == 'h' ? kHour : kDay;
  std::uint32_t count = 0;
  if (!absl::SimpleAtoi(std::string(text.substr(0, text.size() - 1)), &count) || count == 0 ||
      count * unit > kMost) {
    return std::nullopt;
  }
  return count * unit;
}

absl::StatusOr<Config::Volume> ReadVolume(const TomlNode& node, const std::string& source,
                                          const Config& config) {
  TomlTable table(node, source);
  Config::Volume volume;
  volume.name = table.Text("name").value_or("");
  volume.luns = ReadPatterns(table);
  volume.scrub = table.Text("scrub").value_or(volume.scrub);
  const std::optional<std::uint64_t> scrub_every = ParseInterval(volume.scrub);
  volume.scrub_every_seconds = scrub_every.value_or(0);
  if (const auto bytes = table.Number("small_file_bytes", 0, kMaxSmallFileBytes)) {
    volume.small_file_bytes = static_cast<std::uint32_t>(*bytes);
  }
  const auto exports = table.Tables("export", kMaxExports);
  if (absl::Status s = table.Finish(); !s.ok()) return s;
  if (volume.name.empty()) {
    table.Fail(node, "a volume without name");
  } else if (absl::Status s = ValidateLunName(volume.name); !s.ok()) {
    table.Fail("name", std::string(s.message()));
  }
  if (!scrub_every) {
    table.Fail("scrub", absl::StrCat("scrub = \"", absl::CHexEscape(volume.scrub),
                                     "\" is not never, daily, weekly, monthly, hours (\"36h\") or "
                                     "days (\"10d\")"));
  }
  if (volume.luns.empty()) volume.luns = config.luns;
  if (volume.luns.empty()) {
    table.Fail(node, "no luns, neither here, nor for the whole daemon, nor in reelfs.toml");
  }
  for (const Config::Volume& other : config.volumes) {
    if (other.name == volume.name) {
      table.Fail("name", absl::StrCat("volume ", volume.name, " stands here a second time"));
    }
  }
  if (absl::Status s = table.Finish(); !s.ok()) return s;
  for (const TomlNode* exported : exports) {
    auto rule = ReadExport(*exported, source);
    if (!rule.ok()) return rule.status();
    volume.exports.push_back(*std::move(rule));
  }
  return volume;
}

bool IsHostAndPort(const std::string& text) {
  return text.size() <= kMaxSeatAddressBytes && SplitAddress(text).ok();
}

// Every address of this host: nothing that another host could connect to.
bool IsAnyAddress(const std::string& listen) {
  return listen.starts_with("0.0.0.0:") || listen.starts_with("[::]:");
}

absl::StatusOr<Config> FromDocument(const TomlNode& root, const std::string& source,
                                    const SharedConfig& shared) {
  TomlTable table(root, source);
  Config config;
  config.listen = table.Text("listen").value_or("");
  config.advertise =
      table.Text("advertise").value_or(IsAnyAddress(config.listen) ? "" : config.listen);
  const auto web_listen = table.Text("web_listen");
  config.tls.ca = table.Text("tls_ca").value_or("");
  config.tls.cert = table.Text("tls_cert").value_or("");
  config.tls.key = table.Text("tls_key").value_or("");
  // A controller without a certificate serves its own host, whatever other programs believe.
  if (config.tls.ca.empty() && config.tls.any() && shared.tls_ca) {
    config.tls.ca = shared.tls_ca->text;
  }
  const std::string host = config.listen.substr(0, config.listen.rfind(':'));
  config.web_listen =
      web_listen.value_or(config.tls.any() ? absl::StrCat(host, ":", kDefaultWebPort) : kOff);
  if (config.web_listen == kOff) config.web_listen.clear();
  config.luns = ReadPatterns(table);
  if (config.luns.empty()) config.luns = shared.lun_patterns();
  // Below a second a busy host would be evicted; above ten minutes nobody would wait for its files.
  const auto lease_ms = table.Number("session_lease_ms", 1'000, 600'000);
  config.session_lease_ms = static_cast<std::uint32_t>(lease_ms.value_or(config.session_lease_ms));
  const auto seat_ms = table.Number("seat_ms", kMinSeatMs, kMaxSeatMs);
  config.seat_ms = static_cast<std::uint32_t>(seat_ms.value_or(config.seat_ms));
  const auto cache_mib = table.Number("cache_mib", 8, 1 << 20);
  config.cache_mib = static_cast<std::uint32_t>(cache_mib.value_or(config.cache_mib));
  for (TomlText& word : table.Texts("quota_hook", kMaxPatterns)) {
    config.quota_hook.push_back(std::move(word.text));
  }
  if (!config.quota_hook.empty() && !config.quota_hook.front().starts_with('/')) {
    table.Fail("quota_hook",
               absl::StrCat("quota_hook = [\"", absl::CHexEscape(config.quota_hook.front()),
                            "\", …] is no absolute path of a program"));
  }
  SpaceLimits& limits = config.space_limits;
  limits.low =
      static_cast<std::uint32_t>(table.Number("space_low_percent", 0, 99).value_or(limits.low));
  limits.critical =
      static_cast<std::uint32_t>(table.Number("space_critical_percent", 0, 99)
                                     .value_or(std::min(limits.critical, limits.low)));
  // What a check needs for some ten thousand files, to that for some 10^10.
  const auto scrub_mib = table.Number("scrub_memory_mib", 1, 1 << 20);
  config.scrub_memory_mib = static_cast<std::uint32_t>(scrub_mib.value_or(config.scrub_memory_mib));
  if (const auto names = table.Choice("names", kNames)) {
    config.names = *names == kNames[0]   ? NameReplies::kDurable
                   : *names == kNames[1] ? NameReplies::kDelegated
                                         : NameReplies::kEarly;
  }
  config.log_level = table.Choice("log_level", kLogLevels).value_or(config.log_level);
  const auto volumes = table.Tables("volume", kMaxVolumes);
  // Unknown keys first: a key that is missing may be one that is misspelt.
  if (absl::Status s = table.Finish(); !s.ok()) return s;

  if (config.listen.empty()) {
    table.Fail(root, absl::StrCat("listen is missing: the address to serve, such as \"127.0.0.1:",
                                  kDefaultMdcPort, "\""));
  } else if (absl::Status s = ValidateListenAddress("listen", config.listen, config.tls.any());
             !s.ok()) {
    table.Fail("listen", std::string(s.message()));
  } else if (absl::Status s =
                 config.web_listen.empty()
                     ? absl::OkStatus()
                     : ValidateListenAddress("web_listen", config.web_listen, config.tls.any());
             !s.ok()) {
    table.Fail("web_listen", std::string(s.message()));
  } else if (!config.advertise.empty() && !IsHostAndPort(config.advertise)) {
    table.Fail("advertise", absl::StrCat("advertise = \"", absl::CHexEscape(config.advertise),
                                         "\" is not HOST:PORT"));
  } else if (volumes.empty()) {
    table.Fail(root, absl::StrCat("1 to ", kMaxVolumes, " [[volume]] tables are needed"));
  }
  if (absl::Status s = table.Finish(); !s.ok()) return s;
  for (const TomlNode* node : volumes) {
    auto volume = ReadVolume(*node, source, config);
    if (!volume.ok()) return volume.status();
    config.volumes.push_back(*std::move(volume));
  }
  return config;
}

}  // namespace

absl::StatusOr<Config> ParseConfig(std::string_view text, const std::string& source,
                                   const SharedConfig& shared) {
  const auto root = ParseToml(text, source);
  if (!root.ok()) return root.status();
  return FromDocument(*root, source, shared);
}

absl::StatusOr<Config> ReadConfig(const std::string& path) {
  const auto root = ReadToml(path);
  if (!root.ok()) return root.status();
  const auto shared = ReadSharedConfig(SharedConfigBeside(path));
  if (!shared.ok()) return shared.status();
  return FromDocument(*root, path, *shared);
}

}  // namespace reel::mdc
