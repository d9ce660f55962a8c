#include "mdc/config.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <utility>

// Compiled into this file alone, and without exceptions: the packaged library is built with them.
#undef TOML_SHARED_LIB
#undef TOML_HEADER_ONLY
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "volume/label.h"

namespace reel::mdc {
namespace {

constexpr std::size_t kMaxTextBytes = 1 << 20;
constexpr std::size_t kMaxPatterns = 1024;
constexpr std::size_t kMaxVolumes = 64;
constexpr const char* kLogLevels[] = {"trace", "debug", "info", "warn", "error"};

// One table, read key by key; the first error sticks, and Finish reports it or an unknown key.
class Table {
 public:
  Table(const toml::table& table, const std::string& source) : table_(table), source_(source) {}

  void Fail(const toml::node& node, const std::string& what) {
    if (!status_.ok()) return;
    status_ = absl::InvalidArgumentError(
        absl::StrCat(source_, ":", node.source().begin.line, ": ", what));
  }
  void Fail(const std::string& what) { Fail(table_, what); }

  const toml::node* Find(const char* key) {
    known_.emplace_back(key);
    return table_.get(key);
  }

  void Text(const char* key, std::string& value) {
    const toml::node* node = Find(key);
    if (node == nullptr) return;
    if (const auto* text = node->as_string(); text != nullptr && !text->get().empty()) {
      value = text->get();
    } else {
      Fail(*node, absl::StrCat(key, " must be a string that is not empty"));
    }
  }

  void Number(const char* key, std::uint32_t least, std::uint32_t most, std::uint32_t& value) {
    const toml::node* node = Find(key);
    if (node == nullptr) return;
    const auto* number = node->as_integer();
    if (number == nullptr || number->get() < least || number->get() > most) {
      Fail(*node, absl::StrCat(key, " must be a number from ", least, " to ", most));
      return;
    }
    value = static_cast<std::uint32_t>(number->get());
  }

  void Patterns(const char* key, std::vector<std::string>& values) {
    const toml::node* node = Find(key);
    if (node == nullptr) return;
    const toml::array* array = node->as_array();
    if (array == nullptr || array->empty() || array->size() > kMaxPatterns) {
      Fail(*node, absl::StrCat(key, " must be a list of 1 to ", kMaxPatterns, " strings"));
      return;
    }
    for (const toml::node& element : *array) {
      const auto* text = element.as_string();
      if (text == nullptr || text->get().empty()) {
        Fail(element, absl::StrCat(key, " must hold strings that are not empty"));
        return;
      }
      values.push_back(text->get());
    }
  }

  absl::Status Finish() {
    for (const auto& [key, node] : table_) {
      const std::string name(key.str());
      if (std::find(known_.begin(), known_.end(), name) != known_.end()) continue;
      Fail(node, absl::StrCat("unknown key \"", absl::CHexEscape(name), "\""));
    }
    return status_;
  }

 private:
  const toml::table& table_;
  const std::string& source_;
  std::vector<std::string> known_;
  absl::Status status_;
};

absl::StatusOr<Config::Volume> ReadVolume(const toml::node& node, const std::string& source,
                                          const Config& config) {
  const toml::table* table = node.as_table();
  if (table == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ":", node.source().begin.line, ": volume must be a list of tables"));
  }
  Table reader(*table, source);
  Config::Volume volume;
  reader.Text("name", volume.name);
  reader.Patterns("luns", volume.luns);
  if (volume.name.empty()) reader.Fail("a volume without name");
  if (absl::Status s = ValidateLunName(volume.name); !volume.name.empty() && !s.ok()) {
    reader.Fail(std::string(s.message()));
  }
  if (volume.luns.empty()) volume.luns = config.luns;
  if (volume.luns.empty()) reader.Fail("no luns, neither here nor for the whole daemon");
  for (const Config::Volume& other : config.volumes) {
    if (other.name == volume.name) {
      reader.Fail(absl::StrCat("volume ", volume.name, " stands here a second time"));
    }
  }
  if (absl::Status s = reader.Finish(); !s.ok()) return s;
  return volume;
}

bool IsLoopback(const std::string& host) {
  if (host == "localhost" || host == "[::1]") return true;
  // 127.0.0.0/8, written out.
  int dots = 0;
  for (const char c : host) {
    if (c == '.') {
      ++dots;
    } else if (c < '0' || c > '9') {
      return false;
    }
  }
  return dots == 3 && host.rfind("127.", 0) == 0;
}

}  // namespace

absl::Status ValidateListenAddress(const std::string& listen) {
  const std::size_t colon = listen.rfind(':');
  std::uint32_t port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(listen.substr(colon + 1), &port) || port > 65'535) {
    return absl::InvalidArgumentError(
        absl::StrCat("listen = \"", absl::CHexEscape(listen), "\" is not HOST:PORT"));
  }
  if (!IsLoopback(listen.substr(0, colon))) {
    return absl::InvalidArgumentError(
        absl::StrCat("listen = \"", absl::CHexEscape(listen),
                     "\": this version has no TLS and listens on loopback addresses only; use "
                     "127.0.0.1:PORT"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Config> ParseConfig(std::string_view text, const std::string& source) {
  if (text.size() > kMaxTextBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ":1: larger than ", kMaxTextBytes, " bytes"));
  }
  const toml::parse_result parsed = toml::parse(text, source);
  if (!parsed) {
    return absl::InvalidArgumentError(absl::StrCat(source, ":", parsed.error().source().begin.line,
                                                   ": ",
                                                   std::string(parsed.error().description())));
  }
  const toml::table& root = parsed.table();
  Table table(root, source);
  Config config;
  table.Text("listen", config.listen);
  table.Patterns("luns", config.luns);
  // Below a second a busy host would be evicted; above ten minutes nobody would wait for its files.
  table.Number("session_lease_ms", 1'000, 600'000, config.session_lease_ms);
  table.Number("cache_mib", 8, 1 << 20, config.cache_mib);
  table.Text("log_level", config.log_level);
  if (const toml::node* level = root.get("log_level");
      level != nullptr && std::find(std::begin(kLogLevels), std::end(kLogLevels),
                                    config.log_level) == std::end(kLogLevels)) {
    table.Fail(*level, "log_level must be trace, debug, info, warn or error");
  }
  if (absl::Status s = ValidateListenAddress(config.listen); !config.listen.empty() && !s.ok()) {
    table.Fail(*root.get("listen"), std::string(s.message()));
  }
  const toml::node* volumes = table.Find("volume");
  const toml::array* list = volumes != nullptr ? volumes->as_array() : nullptr;
  // Unknown keys first: a key that is missing may be one that is misspelt.
  if (absl::Status s = table.Finish(); !s.ok()) return s;
  if (config.listen.empty()) {
    table.Fail("listen is missing: the address to serve, such as \"127.0.0.1:4711\"");
  } else if (list == nullptr || list->empty() || list->size() > kMaxVolumes) {
    table.Fail(absl::StrCat("1 to ", kMaxVolumes, " [[volume]] tables are needed"));
  }
  if (absl::Status s = table.Finish(); !s.ok()) return s;
  for (const toml::node& node : *list) {
    auto volume = ReadVolume(node, source, config);
    if (!volume.ok()) return volume.status();
    config.volumes.push_back(*std::move(volume));
  }
  return config;
}

absl::StatusOr<Config> ReadConfig(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const int error = errno;
    const std::string message = absl::StrCat(path, ": ", std::strerror(error));
    return error == ENOENT   ? absl::NotFoundError(message)
           : error == EACCES ? absl::PermissionDeniedError(message)
                             : absl::UnavailableError(message);
  }
  std::ostringstream text;
  text << file.rdbuf();
  if (file.bad()) return absl::UnavailableError(absl::StrCat(path, ": cannot be read"));
  return ParseConfig(text.str(), path);
}

}  // namespace reel::mdc
