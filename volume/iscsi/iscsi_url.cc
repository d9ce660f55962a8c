#include "volume/iscsi/iscsi_url.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "volume/base/host_name.h"
#include "volume/lun/lun.h"

namespace reel {
namespace {

constexpr absl::string_view kScheme = "iscsi://";
constexpr absl::string_view kSyntax =
    "iscsi://[USER@]HOST[:PORT][,HOST[:PORT]…]/TARGET/LUN[?OPTION=VALUE&…]";
constexpr std::size_t kMaxUrlBytes = 2048;
constexpr std::size_t kMaxNameBytes = 223;  // of an iSCSI name (RFC 7143)
constexpr std::size_t kMaxChapBytes = 255;  // what libiscsi keeps of a user or a secret
constexpr std::size_t kMaxHostBytes = 240;
constexpr std::uint32_t kMinTimeoutMs = 100;
constexpr std::uint32_t kMaxTimeoutMs = 600'000;

// Where the secret lies in the URL, [first, last) of `text`; empty when there is none. In a URL
// that is no good, rather too much than too little.
struct Span {
  std::size_t first = 0, last = 0;
};
Span SecretIn(absl::string_view text) {
  const std::size_t percent = text.find('%');
  if (percent == text.npos) return {};
  const std::size_t at = text.rfind('@');
  if (at == text.npos || at < percent) return {percent + 1, text.size()};
  return {percent + 1, at};
}

std::string WithoutSecret(absl::string_view text) {
  const Span secret = SecretIn(text);
  std::string shown = secret.last > secret.first ? absl::StrCat(text.substr(0, secret.first), "***",
                                                                text.substr(secret.last))
                                                 : std::string(text);
  for (char& c : shown) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = '?';
  }
  return shown;
}

bool IsPlain(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](unsigned char c) { return absl::ascii_isgraph(c); });
}

// HOST[:PORT] → HOST:PORT; empty when it is neither.
std::string Portal(absl::string_view text) {
  absl::string_view host = text;
  absl::string_view port = "3260";
  if (absl::StartsWith(text, "[")) {
    const std::size_t close = text.find(']');
    if (close == text.npos || close == 1) return "";
    host = text.substr(0, close + 1);
    absl::string_view rest = text.substr(close + 1);
    if (!rest.empty() && rest[0] != ':') return "";
    if (!rest.empty()) port = rest.substr(1);
    const absl::string_view inside = host.substr(1, host.size() - 2);
    if (!std::all_of(inside.begin(), inside.end(), [](unsigned char c) {
          return absl::ascii_isxdigit(c) || c == ':' || c == '.';
        })) {
      return "";
    }
  } else {
    const std::size_t colon = text.find(':');
    host = text.substr(0, colon);
    if (colon != text.npos) port = text.substr(colon + 1);
    if (!std::all_of(host.begin(), host.end(), [](unsigned char c) {
          return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_';
        })) {
      return "";
    }
  }
  std::uint32_t number = 0;
  if (host.empty() || host.size() > kMaxHostBytes || port.size() > 5 ||
      !std::all_of(port.begin(), port.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(port, &number) || number == 0 || number > 65535) {
    return "";
  }
  return absl::StrCat(host, ":", number);
}

bool IsIscsiName(absl::string_view name) {
  if (name.size() <= 4 || name.size() > kMaxNameBytes) return false;
  if (!absl::StartsWith(name, "iqn.") && !absl::StartsWith(name, "eui.") &&
      !absl::StartsWith(name, "naa.")) {
    return false;
  }
  return std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == ':' || c == '_';
  });
}

// What is wrong with the option; empty when nothing is.
std::string SetOption(absl::string_view key, absl::string_view value, IscsiUrl& url) {
  if (value.empty()) return absl::StrCat("option ", key, " has no value");
  if (key == "header_digest") {
    using Digest = IscsiUrl::HeaderDigest;
    if (value == "auto") {
      url.header_digest = Digest::kAuto;
    } else if (value == "crc32c") {
      url.header_digest = Digest::kCrc32c;
    } else if (value == "none") {
      url.header_digest = Digest::kNone;
    } else {
      return "header_digest wants auto, crc32c or none";
    }
  } else if (key == "chap_secret_file") {
    url.secret_file = std::string(value);
  } else if (key == "chap_secret_env") {
    url.secret_variable = std::string(value);
  } else if (key == "initiator") {
    if (!IsIscsiName(value)) return "initiator wants an iSCSI name (iqn., eui. or naa.)";
    url.initiator = std::string(value);
  } else if (key == "timeout_ms") {
    if (!absl::SimpleAtoi(value, &url.timeout_ms) || url.timeout_ms < kMinTimeoutMs ||
        url.timeout_ms > kMaxTimeoutMs) {
      return absl::StrCat("timeout_ms wants a number from ", kMinTimeoutMs, " to ", kMaxTimeoutMs);
    }
  } else {
    return absl::StrCat("unknown option ", key,
                        " (known: header_digest, chap_secret_file, chap_secret_env, initiator, "
                        "timeout_ms)");
  }
  return "";
}

// USER[%SECRET]
std::string SetUser(absl::string_view text, IscsiUrl& url) {
  const std::size_t percent = text.find('%');
  url.user = std::string(text.substr(0, percent));
  if (percent != text.npos) url.secret = std::string(text.substr(percent + 1));
  if (url.user.empty()) return "no user name before the '@'";
  if (url.user.size() > kMaxChapBytes || url.secret.size() > kMaxChapBytes) {
    return absl::StrCat("user name or secret longer than ", kMaxChapBytes, " bytes");
  }
  return "";
}

// HOST[:PORT],HOST[:PORT],…
std::string SetPortals(absl::string_view text, IscsiUrl& url) {
  for (const absl::string_view part : absl::StrSplit(text, absl::ByAnyChar(",;"))) {
    std::string portal = Portal(part);
    if (portal.empty()) {
      return absl::StrCat("its HOST[:PORT]", part == text ? "" : absl::StrCat(" '", part, "'"),
                          " is none");
    }
    if (std::find(url.portals.begin(), url.portals.end(), portal) != url.portals.end()) {
      return absl::StrCat("it names the portal ", portal, " twice");
    }
    if (url.portals.size() == kMaxIscsiPortals) {
      return absl::StrCat("it names more than ", kMaxIscsiPortals, " portals");
    }
    url.portals.push_back(std::move(portal));
  }
  return "";
}

// Everything behind the scheme, except for the options.
std::string SetPlace(absl::string_view rest, IscsiUrl& url) {
  const std::vector<absl::string_view> parts = absl::StrSplit(rest, '/');
  if (parts.size() != 3) return "it has no /TARGET/LUN, or too many parts";
  absl::string_view portals = parts[0];
  if (const std::size_t at = portals.rfind('@'); at != portals.npos) {
    if (std::string wrong = SetUser(portals.substr(0, at), url); !wrong.empty()) return wrong;
    portals.remove_prefix(at + 1);
  }
  if (std::string wrong = SetPortals(portals, url); !wrong.empty()) return wrong;
  if (!IsIscsiName(parts[1])) return "its target wants a name that begins with iqn., eui. or naa.";
  url.target = std::string(parts[1]);
  if (parts[2].empty() || parts[2].size() > 5 || !absl::ascii_isdigit(parts[2].front()) ||
      !absl::SimpleAtoi(parts[2], &url.lun) || url.lun > kMaxIscsiLun) {
    return absl::StrCat("its LUN wants a number from 0 to ", kMaxIscsiLun);
  }
  return "";
}

std::string Parse(absl::string_view text, IscsiUrl& url) {
  if (!absl::StartsWith(text, kScheme)) return "it does not begin with iscsi://";
  if (text.size() > kMaxUrlBytes) return absl::StrCat("longer than ", kMaxUrlBytes, " bytes");
  if (!IsPlain(text)) return "it holds blanks, or bytes that no URL has";
  absl::string_view rest = text.substr(kScheme.size());
  absl::string_view options;
  // A secret may hold a '?': options begin behind the last part.
  if (const std::size_t mark = rest.find('?', std::min(rest.find('/'), rest.size()));
      mark != rest.npos) {
    options = rest.substr(mark + 1);
    rest = rest.substr(0, mark);
  }
  if (std::string wrong = SetPlace(rest, url); !wrong.empty()) return wrong;
  for (absl::string_view option : absl::StrSplit(options, '&', absl::SkipEmpty())) {
    const std::size_t equals = option.find('=');
    const absl::string_view value =
        equals == option.npos ? absl::string_view() : option.substr(equals + 1);
    if (std::string wrong = SetOption(option.substr(0, equals), value, url); !wrong.empty()) {
      return wrong;
    }
  }
  const int secrets = (url.secret.empty() ? 0 : 1) + (url.secret_file.empty() ? 0 : 1) +
                      (url.secret_variable.empty() ? 0 : 1);
  if (secrets > 1) return "it says twice where the CHAP secret is";
  if (secrets > 0 && url.user.empty()) return "a CHAP secret wants a USER before the '@'";
  return "";
}

// The value of "InitiatorName=" in open-iscsi's file; empty when there is none.
std::string SystemInitiatorName() {
  std::ifstream file("/etc/iscsi/initiatorname.iscsi");
  std::string line;
  while (std::getline(file, line)) {
    absl::string_view text = absl::StripAsciiWhitespace(line);
    constexpr absl::string_view kKey = "InitiatorName=";
    if (!absl::StartsWith(text, kKey)) continue;
    text.remove_prefix(kKey.size());
    if (IsIscsiName(text)) return std::string(text);
  }
  return "";
}

absl::StatusOr<std::string> SecretFromFile(const IscsiUrl& url) {
  std::ifstream file(url.secret_file);
  std::string line;
  if (!std::getline(file, line)) {
    return absl::FailedPreconditionError(absl::StrCat(
        url.shown, ": the CHAP secret's file ", url.secret_file, " cannot be read, or is empty"));
  }
  absl::StripTrailingAsciiWhitespace(&line);
  return line;
}

}  // namespace

bool IsIscsiUrl(const std::string& name) {
  return absl::StartsWith(name, kScheme);
}

std::string LunNameForPeople(const std::string& name) {
  return IsIscsiUrl(name) ? WithoutSecret(name) : name;
}

absl::StatusOr<IscsiUrl> ParseIscsiUrl(const std::string& text) {
  IscsiUrl url;
  const std::string wrong = Parse(text, url);
  if (!wrong.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(WithoutSecret(absl::string_view(text).substr(0, kMaxUrlBytes)), ": ", wrong,
                     "; write ", kSyntax));
  }
  url.shown = WithoutSecret(text);
  return url;
}

absl::StatusOr<std::string> ChapSecret(const IscsiUrl& url) {
  if (url.user.empty() || !url.secret.empty()) return url.secret;
  std::string secret;
  if (!url.secret_file.empty()) {
    absl::StatusOr<std::string> line = SecretFromFile(url);
    if (!line.ok()) return line.status();
    secret = *std::move(line);
  } else {
    const char* const variable =
        url.secret_variable.empty() ? "REELFS_CHAP_SECRET" : url.secret_variable.c_str();
    const char* const value = std::getenv(variable);
    if (value != nullptr) secret = value;
    if (secret.empty()) {
      return absl::FailedPreconditionError(
          absl::StrCat(url.shown, ": no CHAP secret in the variable ", variable,
                       "; set it, or name a file by chap_secret_file="));
    }
  }
  if (secret.empty() || secret.size() > kMaxChapBytes) {
    return absl::InvalidArgumentError(absl::StrCat(url.shown, ": the CHAP secret wants 1 to ",
                                                   kMaxChapBytes, " bytes on the first line"));
  }
  return secret;
}

std::string InitiatorName(const IscsiUrl& url) {
  if (!url.initiator.empty()) return url.initiator;
  if (std::string name = SystemInitiatorName(); !name.empty()) return name;
  std::string name = absl::StrCat("iqn.2026-11.org.reelfs:", absl::AsciiStrToLower(HostName()));
  std::replace_if(
      name.begin(), name.end(),
      [](unsigned char c) { return !absl::ascii_isalnum(c) && c != '.' && c != '-' && c != ':'; },
      '-');
  return name;
}

}  // namespace reel
