#include "tools/doctor/frame_facts.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "tools/doctor/frame_ping.h"
#include "volume/lun/fd_lun.h"

namespace reel::tools {
namespace {

constexpr std::uint32_t kPingMs = 500;

// A connection to HOST:PORT; an invalid descriptor where there is none in time.
UniqueFd ConnectTo(const std::string& peer, std::uint32_t timeout_ms) {
  const std::size_t colon = peer.rfind(':');
  std::string host = peer.substr(0, colon);
  if (host.starts_with('[')) host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), peer.substr(colon + 1).c_str(), &hints, &list) != 0) {
    return UniqueFd();
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owned(list, &freeaddrinfo);
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    UniqueFd fd(socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (!fd.valid()) continue;
    if (connect(fd.get(), at->ai_addr, at->ai_addrlen) != 0 && errno != EINPROGRESS) continue;
    pollfd waiting{.fd = fd.get(), .events = POLLOUT, .revents = 0};
    int error = 0;
    socklen_t size = sizeof(error);
    if (poll(&waiting, 1, static_cast<int>(timeout_ms)) == 1 &&
        getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0) {
      return fd;
    }
  }
  return UniqueFd();
}

bool SameAddress(const sockaddr_storage& one, const sockaddr* other) {
  if (other == nullptr || other->sa_family != one.ss_family) return false;
  if (one.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(one).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in*>(other)->sin_addr.s_addr;
  }
  return one.ss_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6&>(one).sin6_addr,
                     &reinterpret_cast<const sockaddr_in6*>(other)->sin6_addr,
                     sizeof(in6_addr)) == 0;
}

// The interface with that address of this host; empty: none, or the loopback one.
std::string InterfaceOf(const sockaddr_storage& address) {
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return "";
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owned(list, &freeifaddrs);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (!SameAddress(address, at->ifa_addr)) continue;
    return (at->ifa_flags & IFF_LOOPBACK) != 0 ? "" : at->ifa_name;
  }
  return "";
}

bool SameHost(int fd) {
  sockaddr_storage there{};
  socklen_t size = sizeof(there);
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&there), &size) != 0) return false;
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return false;
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owned(list, &freeifaddrs);
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next) {
    if (SameAddress(there, at->ifa_addr)) return true;
  }
  return false;
}

}  // namespace

std::optional<FrameFacts> ReadFrameFacts(const std::string& peer, std::uint32_t timeout_ms) {
  const UniqueFd fd = ConnectTo(peer, timeout_ms);
  if (!fd.valid() || SameHost(fd.get())) return std::nullopt;
  sockaddr_storage here{};
  socklen_t size = sizeof(here);
  if (getsockname(fd.get(), reinterpret_cast<sockaddr*>(&here), &size) != 0) return std::nullopt;
  FrameFacts facts{.interface = InterfaceOf(here)};
  if (facts.interface.empty()) return std::nullopt;
  ifreq request{};
  facts.interface.copy(request.ifr_name, IFNAMSIZ - 1);
  if (ioctl(fd.get(), SIOCGIFMTU, &request) != 0) return std::nullopt;
  facts.mtu = static_cast<std::uint32_t>(request.ifr_mtu);
  int segment = 0;
  size = sizeof(segment);
  if (getsockopt(fd.get(), IPPROTO_TCP, TCP_MAXSEG, &segment, &size) != 0) return std::nullopt;
  facts.segment_bytes = static_cast<std::uint32_t>(segment);
  sockaddr_storage there{};
  size = sizeof(there);
  if (getpeername(fd.get(), reinterpret_cast<sockaddr*>(&there), &size) == 0) {
    facts.pass = FramesPass(there, facts.mtu, std::min(timeout_ms, kPingMs));
  }
  return facts;
}

}  // namespace reel::tools
