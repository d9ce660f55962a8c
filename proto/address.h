// Where a metadata controller listens: HOST:PORT, and the port that is meant where none is given.
// Threads: pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace reel {

inline constexpr std::uint16_t kDefaultMdcPort = 7440;
inline constexpr std::uint16_t kDefaultWebPort = 7443;  // of its pages, over HTTPS

// HOST, HOST:PORT, ADDRESS6 or [ADDRESS6]:PORT → HOST:PORT. INVALID_ARGUMENT says what is wanted.
absl::StatusOr<std::string> MdcAddress(std::string_view text);

// HOST:PORT taken apart; an IPv6 address comes without its brackets. INVALID_ARGUMENT.
struct HostAndPort {
  std::string host;
  std::uint16_t port = 0;  // 0: any
};
absl::StatusOr<HostAndPort> SplitAddress(std::string_view address);

// Whether HOST:PORT names this host only: 127.0.0.0/8 written out, localhost, [::1].
bool IsLoopbackAddress(std::string_view address);

// Splits HOST:PORT; without TLS, checks that the host is a loopback address.
// INVALID_ARGUMENT: `key` = …, and what is wrong with it.
absl::Status ValidateListenAddress(const std::string& key, const std::string& listen, bool tls);

}  // namespace reel
