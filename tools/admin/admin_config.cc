#include "tools/admin/admin_config.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/address.h"
#include "volume/base/shared_config.h"
#include "volume/base/toml_reader.h"

namespace reel::tools {
namespace {

absl::StatusOr<AdminConfig> FromTable(const TomlNode& table, std::string_view source) {
  TomlTable reader(table, source);
  AdminConfig config;
  config.mdc = reader.Text("mdc").value_or("");
  config.volume = reader.Text("volume").value_or("");
  config.tls.ca = reader.Text("tls_ca").value_or("");
  config.tls.cert = reader.Text("tls_cert").value_or("");
  config.tls.key = reader.Text("tls_key").value_or("");
  if (absl::Status status = reader.Finish(); !status.ok()) return status;
  return config;
}

void Fill(std::string& value, const std::string& with) {
  if (value.empty()) value = with;
}

void FillFromShared(AdminConfig& given, const SharedConfig& shared) {
  if (given.mdc.empty()) {
    given.mdc = absl::StrJoin(shared.mdcs, ",", [](std::string* out, const TomlText& mdc) {
      absl::StrAppend(out, mdc.text);
    });
  }
  // Who has no certificate goes without TLS, whatever other programs believe.
  if (given.tls.any() && shared.tls_ca) Fill(given.tls.ca, shared.tls_ca->text);
}

void FillFromEnvironment(std::string& value, const char* name) {
  if (const char* text = std::getenv(name); text != nullptr) Fill(value, text);
}

}  // namespace

absl::StatusOr<AdminConfig> ParseAdminConfig(std::string_view text, std::string_view source) {
  auto table = ParseToml(text, source);
  if (!table.ok()) return table.status();
  return FromTable(*table, source);
}

absl::StatusOr<AdminConfig> CompleteAdminConfig(AdminConfig given, const std::string& path) {
  FillFromEnvironment(given.mdc, "REELADM_MDC");
  FillFromEnvironment(given.volume, "REELADM_VOLUME");
  FillFromEnvironment(given.tls.ca, "REELADM_TLS_CA");
  FillFromEnvironment(given.tls.cert, "REELADM_TLS_CERT");
  FillFromEnvironment(given.tls.key, "REELADM_TLS_KEY");
  const std::string file = path.empty() ? kAdminConfig : path;
  auto table = ReadToml(file);
  if (table.ok()) {
    auto config = FromTable(*table, file);
    if (!config.ok()) return config.status();
    Fill(given.mdc, config->mdc);
    Fill(given.volume, config->volume);
    Fill(given.tls.ca, config->tls.ca);
    Fill(given.tls.cert, config->tls.cert);
    Fill(given.tls.key, config->tls.key);
  } else if (!path.empty() || !absl::IsNotFound(table.status())) {
    return table.status();
  }
  const auto shared = ReadSharedConfig(SharedConfigBeside(file));
  if (!shared.ok()) return shared.status();
  FillFromShared(given, *shared);
  Fill(given.mdc, "127.0.0.1");
  given.mdcs.clear();
  for (const std::string& one : std::vector<std::string>(absl::StrSplit(given.mdc, ','))) {
    auto address = MdcAddress(one);
    if (!address.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("the MDC's address ", address.status().message()));
    }
    given.mdcs.push_back(*std::move(address));
  }
  return given;
}

}  // namespace reel::tools
