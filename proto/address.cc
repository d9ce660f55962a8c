#include "proto/address.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace reel {

absl::StatusOr<std::string> MdcAddress(std::string_view text_view) {
  const std::string text(text_view);
  const absl::Status wrong = absl::InvalidArgumentError(
      absl::StrCat("\"", absl::CHexEscape(text.substr(0, 300)), "\": wants HOST or HOST:PORT"));
  if (text.empty() || text.front() == ':' || text.find_first_of(" /,\n") != text.npos) return wrong;
  const std::size_t colons = static_cast<std::size_t>(std::count(text.begin(), text.end(), ':'));
  const std::size_t bracket = text.rfind(']');
  if (text.front() == '[') {
    if (bracket == text.npos) return wrong;
    if (bracket + 1 == text.size()) return absl::StrCat(text, ":", kDefaultMdcPort);
    if (text[bracket + 1] != ':') return wrong;
  } else if (colons == 0) {
    return absl::StrCat(text, ":", kDefaultMdcPort);
  } else if (colons > 1) {
    return absl::StrCat("[", text, "]:", kDefaultMdcPort);
  }
  std::uint32_t port = 0;
  if (!absl::SimpleAtoi(text.substr(text.rfind(':') + 1), &port) || port == 0 || port > 65535) {
    return wrong;
  }
  return text;
}

absl::StatusOr<HostAndPort> SplitAddress(std::string_view address) {
  const std::string text(address);
  const std::size_t colon = text.rfind(':');
  std::uint32_t port = 0;
  if (colon == text.npos || colon == 0 || !absl::SimpleAtoi(text.substr(colon + 1), &port) ||
      port > 65'535) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", absl::CHexEscape(text.substr(0, 300)), "\" is not HOST:PORT"));
  }
  std::string host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  return HostAndPort{std::move(host), static_cast<std::uint16_t>(port)};
}

bool IsLoopbackAddress(std::string_view address) {
  const std::string_view host = address.substr(0, address.rfind(':'));
  if (host == "localhost" || host == "[::1]") return true;
  const auto digit_or_dot = [](char c) { return c == '.' || (c >= '0' && c <= '9'); };
  return host.starts_with("127.") && std::count(host.begin(), host.end(), '.') == 3 &&
         std::all_of(host.begin(), host.end(), digit_or_dot);
}

absl::Status ValidateListenAddress(const std::string& key, const std::string& listen, bool tls) {
  if (!SplitAddress(listen).ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(key, " = \"", absl::CHexEscape(listen), "\" is not HOST:PORT"));
  }
  if (!tls && !IsLoopbackAddress(listen)) {
    return absl::InvalidArgumentError(absl::StrCat(
        key, " = \"", absl::CHexEscape(listen),
        "\": without TLS anybody on the network could read, change and administer the volumes, so "
        "only loopback addresses are served; set tls_ca, tls_cert and tls_key, or use 127.0.0.1"));
  }
  return absl::OkStatus();
}

}  // namespace reel
