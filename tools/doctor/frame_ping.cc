#include "tools/doctor/frame_ping.h"

#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "volume/lun/fd_lun.h"

namespace reel::tools {
namespace {

constexpr std::uint32_t kIpHeaderBytes = 20;
constexpr std::uint32_t kSmallFrameBytes = 84;
constexpr int kTries = 2;  // a frame may be lost for other reasons

std::uint16_t ChecksumOf(const std::vector<std::uint8_t>& bytes) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < bytes.size(); i += 2) {
    const std::uint32_t low = i + 1 < bytes.size() ? bytes[i + 1] : 0;
    sum += (std::uint32_t{bytes[i]} << 8) + low;
  }
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return htons(static_cast<std::uint16_t>(~sum));
}

// Sends pings to one host, and waits for their answers.
class Pinger {
 public:
  explicit Pinger(const sockaddr_in& peer) : peer_(peer) {
    // Without a privilege where the kernel allows it (net.ipv4.ping_group_range).
    for (const int kind : {SOCK_DGRAM, SOCK_RAW}) {
      fd_ = UniqueFd(socket(AF_INET, kind | SOCK_CLOEXEC, IPPROTO_ICMP));
      raw_ = kind == SOCK_RAW;
      if (fd_.valid()) break;
    }
    const int whole = IP_PMTUDISC_PROBE;  // never in fragments, whatever was learnt of the path
    if (fd_.valid()) setsockopt(fd_.get(), IPPROTO_IP, IP_MTU_DISCOVER, &whole, sizeof(whole));
  }

  bool usable() const { return fd_.valid(); }

  bool Answers(std::uint32_t frame_bytes, std::uint32_t timeout_ms) {
    for (int i = 0; i < kTries; ++i) {
      if (Send(frame_bytes) && Await(timeout_ms)) return true;
    }
    return false;
  }

 private:
  bool Send(std::uint32_t frame_bytes) {
    std::vector<std::uint8_t> message(std::max<std::size_t>(frame_bytes, kSmallFrameBytes) -
                                      kIpHeaderBytes);
    icmphdr header{};
    header.type = ICMP_ECHO;
    header.un.echo.id = htons(static_cast<std::uint16_t>(getpid()));
    header.un.echo.sequence = htons(++sequence_);
    std::memcpy(message.data(), &header, sizeof(header));
    header.checksum = ChecksumOf(message);
    std::memcpy(message.data(), &header, sizeof(header));
    return sendto(fd_.get(), message.data(), message.size(), 0,
                  reinterpret_cast<const sockaddr*>(&peer_),
                  sizeof(peer_)) == static_cast<ssize_t>(message.size());
  }

  bool IsAnswer(const std::vector<std::uint8_t>& packet, std::size_t size) const {
    // A raw socket sees the IP header, and the answers to all processes.
    const std::size_t skipped = raw_ && size > 0 ? (packet[0] & 0x0f) * std::size_t{4} : 0;
    icmphdr header{};
    if (size < skipped + sizeof(header)) return false;
    std::memcpy(&header, packet.data() + skipped, sizeof(header));
    const bool own = !raw_ || header.un.echo.id == htons(static_cast<std::uint16_t>(getpid()));
    return header.type == ICMP_ECHOREPLY && own && header.un.echo.sequence == htons(sequence_);
  }

  bool Await(std::uint32_t timeout_ms) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point end = Clock::now() + std::chrono::milliseconds(timeout_ms);
    std::vector<std::uint8_t> packet(1 << 16);
    while (true) {
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
      pollfd waiting{.fd = fd_.get(), .events = POLLIN, .revents = 0};
      if (left <= 0 || poll(&waiting, 1, static_cast<int>(left)) != 1) return false;
      sockaddr_in from{};
      socklen_t from_size = sizeof(from);
      const ssize_t size = recvfrom(fd_.get(), packet.data(), packet.size(), MSG_DONTWAIT,
                                    reinterpret_cast<sockaddr*>(&from), &from_size);
      if (size > 0 && from.sin_addr.s_addr == peer_.sin_addr.s_addr &&
          IsAnswer(packet, static_cast<std::size_t>(size))) {
        return true;
      }
    }
  }

  const sockaddr_in peer_;
  UniqueFd fd_;
  bool raw_ = false;
  std::uint16_t sequence_ = 0;
};

}  // namespace

std::optional<bool> FramesPass(const sockaddr_storage& peer, std::uint32_t frame_bytes,
                               std::uint32_t timeout_ms) {
  if (peer.ss_family != AF_INET) return std::nullopt;
  constexpr std::uint32_t kMaxPacketBytes = 65'535;
  Pinger pinger(reinterpret_cast<const sockaddr_in&>(peer));
  if (!pinger.usable() || !pinger.Answers(kSmallFrameBytes, timeout_ms)) return std::nullopt;
  return pinger.Answers(std::min(frame_bytes, kMaxPacketBytes), timeout_ms);
}

}  // namespace reel::tools
