#include "mdc/rpc/connection_gate.h"

#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace reel::mdc {
namespace {

// A client's end of a connection.
class Caller {
 public:
  explicit Caller(int port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto* to = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(connect(fd_.get(), to, sizeof address), 0) << errno;
    socklen_t length = sizeof address;
    getsockname(fd_.get(), to, &length);
    name_ = absl::StrCat("ipv4:127.0.0.1:", ntohs(address.sin_port));
  }

  const std::string& name() const { return name_; }
  // Waits for its end (the test's own time limit bounds that).
  bool IsEnded() {
    char byte = 0;
    return recv(fd_.get(), &byte, 1, 0) <= 0;
  }
  // Waits for a byte from the server.
  bool IsServed() {
    char byte = 0;
    return recv(fd_.get(), &byte, 1, 0) == 1;
  }

 private:
  UniqueFd fd_;
  std::string name_;
};

// Keeps what it is given, and greets it with a byte.
class Server {
 public:
  explicit Server(ConnectionGate::Options options) {
    auto gate = ConnectionGate::Listen("127.0.0.1:0", options);
    EXPECT_TRUE(gate.ok()) << gate.status();
    gate_ = *std::move(gate);
    gate_->Start([this](int fd) {
      EXPECT_EQ(send(fd, "!", 1, MSG_NOSIGNAL), 1);
      MutexLock lock(mutex_);
      taken_.emplace_back(fd);
    });
  }
  ~Server() { gate_->Stop(); }
  ConnectionGate& gate() { return *gate_; }
  Caller Call() { return Caller(gate_->port()); }

 private:
  Mutex mutex_;
  std::vector<UniqueFd> taken_ ABSL_GUARDED_BY(mutex_);
  std::unique_ptr<ConnectionGate> gate_;
};

constexpr std::uint64_t kNever = 3'600'000;

TEST(ConnectionGate, AFloodEndsTheOldestSilentConnection) {
  Server server({.most = 100, .most_unknown = 3, .unknown_ms = kNever});
  Caller known = server.Call();
  ASSERT_TRUE(known.IsServed());
  server.gate().Welcome(known.name());
  std::vector<Caller> flood;
  for (int i = 0; i < 50; ++i) {
    flood.push_back(server.Call());
    ASSERT_TRUE(flood.back().IsServed());
  }
  for (int i = 0; i < 47; ++i) EXPECT_TRUE(flood[static_cast<std::size_t>(i)].IsEnded());
  Caller late = server.Call();
  EXPECT_TRUE(late.IsServed());
  EXPECT_TRUE(flood[47].IsEnded());
}

TEST(ConnectionGate, CountsRefusedConnections) {
  Server server({.unknown_ms = kNever});
  Caller caller = server.Call();
  ASSERT_TRUE(caller.IsServed());
  server.gate().RefusedByTls("certificate verify failed");
  server.gate().CountRefused();
  EXPECT_EQ(server.gate().refused(), 2u);
}

TEST(ConnectionGate, ASilentConnectionIsEndedInTime) {
  Server server({.unknown_ms = 200});
  Caller known = server.Call();
  ASSERT_TRUE(known.IsServed());
  server.gate().Welcome(known.name());
  Caller mute = server.Call();
  ASSERT_TRUE(mute.IsServed());
  EXPECT_TRUE(mute.IsEnded());
}

TEST(ConnectionGate, WhenAllAreKnownNoMoreAreLetIn) {
  Server server({.most = 2, .unknown_ms = kNever});
  {
    Caller one = server.Call();
    Caller two = server.Call();
    for (Caller* caller : {&one, &two}) {
      ASSERT_TRUE(caller->IsServed());
      server.gate().Welcome(caller->name());
    }
    EXPECT_TRUE(server.Call().IsEnded());
  }
  for (bool served = false; !served;) served = server.Call().IsServed();  // once their end is seen
}

TEST(ConnectionGate, AnAddressHasOneConnection) {
  auto one = ConnectionGate::Listen("[::1]:0", {});
  if (!one.ok()) GTEST_SKIP() << "no IPv6 here: " << one.status();
  const auto two = ConnectionGate::Listen(absl::StrCat("[::1]:", (*one)->port()), {});
  EXPECT_TRUE(absl::IsUnavailable(two.status())) << two.status();
  EXPECT_FALSE(ConnectionGate::Listen("no.such.host.invalid:1", {}).ok());
}

}  // namespace
}  // namespace reel::mdc
