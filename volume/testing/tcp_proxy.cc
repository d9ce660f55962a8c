#include "volume/testing/tcp_proxy.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>

namespace reel {
namespace {

// Of an iSCSI header: the end of the residual count, which nobody looks at after a whole transfer.
constexpr ssize_t kSpoiledByte = 47;
constexpr std::size_t kHeaderBytes = 48;
constexpr std::uint8_t kCheckCondition = 0x02;
constexpr std::byte kScsiCommand{0x01};
constexpr std::byte kScsiResponse{0x21};
constexpr std::byte kScsiDataIn{0x25};

sockaddr_in Loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<std::uint16_t>(port));
  return address;
}

bool SendAll(int to, const std::byte* data, std::size_t size) {
  while (size > 0) {
    const ssize_t sent = send(to, data, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    data += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

}  // namespace

TcpProxy::TcpProxy(int port)
    : server_port_(port),
      listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)),
      wake_(eventfd(0, EFD_CLOEXEC)) {
  sockaddr_in address = Loopback(0);
  socklen_t size = sizeof address;
  if (bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), size) == 0 &&
      listen(listener_.get(), 16) == 0 &&
      getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0) {
    port_ = ntohs(address.sin_port);
  }
  thread_ = std::thread([this] { Run(); });
}

TcpProxy::~TcpProxy() {
  {
    MutexLock lock(mutex_);
    stop_ = true;
  }
  eventfd_write(wake_.get(), 1);
  thread_.join();
}

int TcpProxy::connections() {
  MutexLock lock(mutex_);
  return connections_;
}

void TcpProxy::HoldAnswers() {
  MutexLock lock(mutex_);
  hold_ = true;
  request_bytes_ = 0;
  eventfd_write(wake_.get(), 1);
}

void TcpProxy::CountRequests() {
  MutexLock lock(mutex_);
  request_bytes_ = 0;
}

void TcpProxy::CorruptNextAnswer() {
  MutexLock lock(mutex_);
  corrupt_ = true;
}

void TcpProxy::ForgeAnswers(const Forgery& forgery) {
  MutexLock lock(mutex_);
  forgery_ = forgery;
}

int TcpProxy::forgeries_left() {
  MutexLock lock(mutex_);
  return forgery_.count;
}

// RFC 7143, 11.4 and 11.7: a SCSI Response, or the Data-In with which the target has sent its
// status, too.
bool TcpProxy::IsToBeForged(const std::byte* answer, std::size_t size) const {
  constexpr std::byte kStatusIsThere{0x01};
  if (forgery_.count == 0 || size < kHeaderBytes || answer[3] != std::byte{0}) return false;
  if (!forgery_.operation) return size == kHeaderBytes && answer[0] == kScsiResponse;
  if (*forgery_.operation != operation_) return false;
  return answer[0] == kScsiResponse ||
         (answer[0] == kScsiDataIn && (answer[1] & kStatusIsThere) != std::byte{0});
}

// The answer becomes a SCSI Response, with sense data in fixed format (SPC-4, 4.5.3) behind its
// header. Its data are left out.
std::size_t TcpProxy::Forge(std::byte* answer, std::size_t size) {
  constexpr std::size_t kSenseBytes = 18;
  const std::size_t skipped = std::min(skip_bytes_, size);
  skip_bytes_ -= skipped;
  std::copy(answer + skipped, answer + size, answer);
  size -= skipped;
  if (!IsToBeForged(answer, size)) return size;
  --forgery_.count;
  const std::size_t data_bytes = std::to_integer<std::size_t>(answer[5]) << 16 |
                                 std::to_integer<std::size_t>(answer[6]) << 8 |
                                 std::to_integer<std::size_t>(answer[7]);
  const std::size_t answer_bytes = kHeaderBytes + (data_bytes + 3) / 4 * 4;
  skip_bytes_ = answer_bytes - std::min(answer_bytes, size);
  answer[0] = kScsiResponse;
  answer[1] = std::byte{0x80};
  std::fill(answer + 5, answer + 8, std::byte{0});
  std::fill(answer + 36, answer + kHeaderBytes, std::byte{0});
  answer[3] = static_cast<std::byte>(forgery_.status);
  if (forgery_.status != kCheckCondition) return kHeaderBytes;
  std::byte* const sense = answer + kHeaderBytes + 2;
  std::fill(answer + kHeaderBytes, sense + kSenseBytes, std::byte{0});
  answer[7] = std::byte{2 + kSenseBytes};             // of the data segment, with …
  answer[kHeaderBytes + 1] = std::byte{kSenseBytes};  // … its length before the sense data
  sense[0] = std::byte{0x70};
  sense[2] = static_cast<std::byte>(forgery_.key);
  sense[7] = std::byte{kSenseBytes - 8};
  sense[12] = static_cast<std::byte>(forgery_.code >> 8);
  sense[13] = static_cast<std::byte>(forgery_.code & 0xff);
  return kHeaderBytes + 2 + kSenseBytes;
}

bool TcpProxy::AwaitRequests(std::uint64_t bytes) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  MutexLock lock(mutex_);
  while (request_bytes_ < bytes) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    changed_.WaitFor(mutex_, std::chrono::milliseconds(1000));
  }
  return true;
}

void TcpProxy::Cut() {
  MutexLock lock(mutex_);
  cut_ = true;
  eventfd_write(wake_.get(), 1);
  while (cut_) changed_.Wait(mutex_);
}

void TcpProxy::Run() {
  for (;;) {
    bool hold = false;
    {
      MutexLock lock(mutex_);
      if (stop_) return;
      if (cut_) {
        pairs_.clear();
        cut_ = hold_ = false;
        changed_.NotifyAll();
      }
      hold = hold_;
    }
    std::vector<pollfd> events{{.fd = wake_.get(), .events = POLLIN, .revents = 0},
                               {.fd = listener_.get(), .events = POLLIN, .revents = 0}};
    for (const auto& pair : pairs_) {
      events.push_back({.fd = pair->client.get(), .events = POLLIN, .revents = 0});
      events.push_back({.fd = hold ? -1 : pair->server.get(), .events = POLLIN, .revents = 0});
    }
    if (poll(events.data(), events.size(), -1) < 0) continue;
    if (events[0].revents != 0) {  // the rules may have changed
      eventfd_t count = 0;
      eventfd_read(wake_.get(), &count);
      continue;
    }
    for (std::size_t i = pairs_.size(); i-- > 0;) {
      const Pair& pair = *pairs_[i];
      const bool alive =
          (events[2 + 2 * i].revents == 0 ||
           Forward(pair.client.get(), pair.server.get(), false)) &&
          (events[3 + 2 * i].revents == 0 || Forward(pair.server.get(), pair.client.get(), true));
      if (!alive) pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (events[1].revents != 0) Accept();
  }
}

void TcpProxy::Accept() {
  auto pair = std::make_unique<Pair>();
  pair->client = UniqueFd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  pair->server = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = Loopback(server_port_);
  {
    MutexLock lock(mutex_);
    ++connections_;
  }
  if (connect(pair->server.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) ==
      0) {
    pairs_.push_back(std::move(pair));
  }
}

bool TcpProxy::Forward(int from, int to, bool answer) {
  std::array<std::byte, 65536> buffer;
  const ssize_t size = recv(from, buffer.data(), buffer.size(), 0);
  if (size <= 0) return false;
  auto length = static_cast<std::size_t>(size);
  {
    MutexLock lock(mutex_);
    if (answer && corrupt_ && size > kSpoiledByte) {
      buffer[kSpoiledByte] ^= std::byte{1};
      corrupt_ = false;
    }
    if (answer) length = Forge(buffer.data(), length);
    if (!answer && length >= kHeaderBytes && (buffer[0] & std::byte{0x3f}) == kScsiCommand) {
      operation_ = std::to_integer<std::uint8_t>(buffer[32]);
    }
  }
  if (!SendAll(to, buffer.data(), length)) return false;
  if (answer) return true;
  MutexLock lock(mutex_);
  request_bytes_ += static_cast<std::uint64_t>(size);
  changed_.NotifyAll();
  return true;
}

}  // namespace reel
