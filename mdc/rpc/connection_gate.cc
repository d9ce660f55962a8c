#include "mdc/rpc/connection_gate.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "proto/address.h"
#include "spdlog/spdlog.h"
#include "volume/base/env.h"

namespace reel::mdc {
namespace {

constexpr int kBacklog = 4096;
constexpr std::size_t kOtherDescriptors = 256;  // LUNs, the store, logs
constexpr std::chrono::seconds kTellEvery(10);
constexpr int kNoDescriptorWaitMs = 100;

// ADDRESS:PORT or [ADDRESS]:PORT, as in gRPC's names without the family; zones are left out.
std::string PeerOf(const sockaddr_storage& address) {
  char text[INET6_ADDRSTRLEN] = "";
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return absl::StrCat(text, ":", ntohs(v4.sin_port));
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
    inet_ntop(AF_INET, &v6.sin6_addr.s6_addr[12], text, sizeof text);
    return absl::StrCat(text, ":", ntohs(v6.sin6_port));
  }
  inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
  return absl::StrCat("[", text, "]:", ntohs(v6.sin6_port));
}

// gRPC's name of a peer, in the form of PeerOf.
std::string PeerNamed(std::string_view name) {
  name.remove_prefix(std::min(name.size(), name.find(':') + 1));
  std::string peer = absl::StrReplaceAll(std::string(name), {{"%5B", "["}, {"%5D", "]"}});
  const std::size_t zone = peer.find('%');
  if (zone != std::string::npos) peer.erase(zone, peer.find(']', zone) - zone);
  return peer;
}

absl::StatusOr<UniqueFd> ListenAt(const addrinfo& address) {
  UniqueFd fd(socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  const int off = 0;
  if (fd.get() >= 0) {
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // those accepted inherit it
    if (address.ai_family == AF_INET6) {
      setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    }
  }
  if (fd.get() < 0 || bind(fd.get(), address.ai_addr, address.ai_addrlen) != 0 ||
      listen(fd.get(), kBacklog) != 0) {
    return absl::ErrnoToStatus(errno, "cannot listen");
  }
  return fd;
}

int PortOf(int listener) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET ? reinterpret_cast<sockaddr_in&>(address).sin_port
                                            : reinterpret_cast<sockaddr_in6&>(address).sin6_port);
}

void Watch(const UniqueFd& epoll, int fd, std::uint32_t events, void* tag) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = tag;
  epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &event);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConnectionGate>> ConnectionGate::Listen(const std::string& address,
                                                                       Options options) {
  rlimit descriptors{};
  getrlimit(RLIMIT_NOFILE, &descriptors);
  const std::size_t left = std::max<std::size_t>(descriptors.rlim_cur, 2 * kOtherDescriptors);
  options.most = std::min(options.most, (left - kOtherDescriptors) / 2);  // each has two
  options.most_unknown = std::min(options.most_unknown, options.most);
  auto gate = absl::WrapUnique(new ConnectionGate(options));
  const absl::StatusOr<HostAndPort> place = SplitAddress(address);
  if (!place.ok()) return absl::UnavailableError(place.status().message());
  gate->epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
  gate->stop_ = UniqueFd(eventfd(0, EFD_CLOEXEC));
  absl::Status status = gate->Bind(place->host, absl::StrCat(place->port));
  if (!status.ok()) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", address, ": ", status.message(),
                                               ": is another daemon using the address?"));
  }
  return gate;
}

// A name may stand for several addresses; the first gives the port to all.
absl::Status ConnectionGate::Bind(const std::string& host, const std::string& port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int error =
      getaddrinfo(host.empty() ? nullptr : host.c_str(), port.c_str(), &hints, &found);
  if (error != 0) return absl::UnavailableError(gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, &freeaddrinfo);
  absl::Status failure = absl::UnavailableError("no address");
  for (const addrinfo* next = found; next != nullptr; next = next->ai_next) {
    if (!listeners_.empty()) {
      auto* v6 = reinterpret_cast<sockaddr_in6*>(next->ai_addr);  // sin_port is at the same place
      v6->sin6_port = htons(static_cast<std::uint16_t>(port_));
    }
    auto listener = ListenAt(*next);
    if (!listener.ok()) {
      failure = listener.status();
      continue;
    }
    if (listeners_.empty()) port_ = PortOf(listener->get());
    listeners_.push_back(*std::move(listener));
  }
  return listeners_.empty() ? failure : absl::OkStatus();
}

void ConnectionGate::Start(std::function<void(int)> take) {
  take_ = std::move(take);
  Watch(epoll_, stop_.get(), EPOLLIN, nullptr);
  for (UniqueFd& listener : listeners_) Watch(epoll_, listener.get(), EPOLLIN, &listener);
  thread_ = std::thread([this] { Main(); });
}

void ConnectionGate::Stop() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  (void)!write(stop_.get(), &one, sizeof one);
  thread_.join();
  listeners_.clear();
}

void ConnectionGate::Welcome(std::string_view peer) {
  MutexLock lock(mutex_);
  const auto found = by_peer_.find(PeerNamed(peer));
  if (found == by_peer_.end() || std::exchange(found->second->known, true)) return;
  known_.splice(known_.end(), unknown_, found->second);
}

void ConnectionGate::CountRefused() {
  MutexLock lock(mutex_);
  ++refused_;
}

void ConnectionGate::RefusedByTls(std::string_view why) {
  MutexLock lock(mutex_);
  ++refused_;
  if (const auto more = refusals_.Admit(SystemClock().NowMs())) {
    spdlog::warn("a connection from {} is refused: TLS: {}{}", Unknown(), why, *more);
  }
}

std::uint64_t ConnectionGate::refused() const {
  MutexLock lock(mutex_);
  return refused_;
}

// gRPC does not say which connection it was: one of the newest, or the peer has gone already.
std::string ConnectionGate::Unknown() const {
  if (unknown_.empty()) return last_gone_;
  std::string text = unknown_.back().peer;
  if (unknown_.size() > 1) absl::StrAppend(&text, " or ", std::prev(unknown_.end(), 2)->peer);
  if (unknown_.size() > 2) absl::StrAppend(&text, " or another one");
  return text;
}

void ConnectionGate::Main() {
  std::array<epoll_event, 256> events{};
  for (;;) {
    const int count = epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 500);
    std::vector<int> ready;
    {
      MutexLock lock(mutex_);
      for (int i = 0; i < std::max(count, 0); ++i) {
        void* tag = events[static_cast<std::size_t>(i)].data.ptr;
        if (tag == nullptr) return;
        const auto listener =
            std::find_if(listeners_.begin(), listeners_.end(),
                         [&](const UniqueFd& candidate) { return &candidate == tag; });
        if (listener != listeners_.end()) {
          ready.push_back(listener->get());
        } else {
          const Place gone = by_peer_.at(static_cast<Connection*>(tag)->peer);
          if (!gone->known) last_gone_ = gone->peer;
          Forget(gone);
        }
      }
    }
    // Behind the ends: those make room, and what they are about may not be forgotten before.
    for (const int listener : ready) AcceptAll(listener);
    EndOverdue(std::chrono::steady_clock::now());
  }
}

void ConnectionGate::AcceptAll(int listener) {
  for (std::size_t i = 0; i < options_.most_unknown; ++i) {  // then others have a turn
    UniqueFd fd(accept4(listener, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd.get() >= 0) {
      Admit(std::move(fd));
    } else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      pollfd stop{.fd = stop_.get(), .events = POLLIN, .revents = 0};
      poll(&stop, 1, kNoDescriptorWaitMs);
      MutexLock lock(mutex_);
      if (!unknown_.empty()) End(unknown_.begin());
      return;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      return;
    }
  }
}

void ConnectionGate::Admit(UniqueFd fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  if (getpeername(fd.get(), reinterpret_cast<sockaddr*>(&address), &length) != 0) return;
  {
    MutexLock lock(mutex_);
    const bool full = unknown_.size() + known_.size() >= options_.most;
    if (unknown_.size() >= options_.most_unknown || (full && !unknown_.empty())) {
      End(unknown_.begin());
    }
    UniqueFd twin(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
    if (twin.get() < 0 || unknown_.size() + known_.size() >= options_.most) {
      ++ended_;
      last_ended_ = PeerOf(address);
      return;
    }
    const Time ends =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(options_.unknown_ms);
    unknown_.push_back({std::move(twin), PeerOf(address), ends});
    const Place place = std::prev(unknown_.end());
    // An older one of this name is dead, and its end not yet seen.
    if (const auto old = by_peer_.find(place->peer); old != by_peer_.end()) Forget(old->second);
    by_peer_[place->peer] = place;
    Watch(epoll_, place->fd.get(), EPOLLRDHUP, &*place);
  }
  take_(fd.Release());
}

void ConnectionGate::EndOverdue(Time now) {
  MutexLock lock(mutex_);
  while (!unknown_.empty() && unknown_.front().ends <= now) End(unknown_.begin());
  if (ended_ == 0 || now < reported_ + kTellEvery) return;
  spdlog::warn(
      "{} connections were ended, which did not say in time who they are, or for which "
      "there was no room; the last from {}",
      ended_, last_ended_);
  reported_ = now;
  ended_ = 0;
}

void ConnectionGate::End(Place place) {
  ++ended_;
  last_ended_ = place->peer;
  shutdown(place->fd.get(), SHUT_RDWR);
  Forget(place);
}

void ConnectionGate::Forget(Place place) {
  by_peer_.erase(place->peer);
  // Closing the duplicate does not take it out of the set while its twin is open.
  epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, place->fd.get(), nullptr);
  (place->known ? known_ : unknown_).erase(place);
}

}  // namespace reel::mdc
