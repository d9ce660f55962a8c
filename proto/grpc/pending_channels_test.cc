#include "proto/grpc/pending_channels.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <grpcpp/server_posix.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <vector>

#include "proto/mdc.grpc.pb.h"
#include "volume/lun/fd_lun.h"

namespace reel {
namespace {

using State = PendingChannels::State;
using std::chrono::milliseconds;

constexpr milliseconds kShort{50};

// A host whose kernel takes connections, and whose server is slow to.
class PendingChannelsTest : public testing::Test {
 protected:
  PendingChannelsTest() : listener_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(listen(listener_.get(), 16), 0);
    EXPECT_EQ(getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    address_ = "127.0.0.1:" + std::to_string(ntohs(address.sin_port));
  }

  State Try(milliseconds timeout = kShort) {
    PendingChannels::Attempt attempt =
        channels_.Await(address_, timeout, [&](grpc::ChannelArguments& arguments) {
          ++made_;
          arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
          return grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), arguments);
        });
    EXPECT_EQ(attempt.channel != nullptr, attempt.state == State::kReady);
    return attempt.state;
  }

  // The connections that wait there.
  std::vector<UniqueFd> Accept() {
    std::vector<UniqueFd> accepted;
    pollfd ready{.fd = listener_.get(), .events = POLLIN, .revents = 0};
    while (poll(&ready, 1, 0) == 1) {
      accepted.emplace_back(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    }
    return accepted;
  }

  UniqueFd listener_;
  std::string address_;
  PendingChannels channels_;
  int made_ = 0;
};

TEST_F(PendingChannelsTest, ASlowHostsConnectionGoesOnBetweenTries) {
  EXPECT_EQ(Try(), State::kBegun);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(Try(), State::kContinued);
  EXPECT_EQ(made_, 1);
  std::vector<UniqueFd> accepted = Accept();
  ASSERT_EQ(accepted.size(), 1U);

  v1::Mdc::Service service;
  grpc::ServerBuilder builder;
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const int fd = accepted[0].Release();
  ASSERT_EQ(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
  grpc::AddInsecureChannelFromFd(server.get(), fd);
  EXPECT_EQ(Try(milliseconds(ConnectMs())), State::kReady);
  EXPECT_EQ(made_, 1);
  server->Shutdown();
}

TEST_F(PendingChannelsTest, OneThatFailedIsBegunAnew) {
  EXPECT_EQ(Try(), State::kBegun);
  Accept();  // and closed
  EXPECT_EQ(Try(milliseconds(ConnectMs())), State::kRefused);
  EXPECT_EQ(Try(), State::kBegun);
  EXPECT_EQ(made_, 2);
}

TEST_F(PendingChannelsTest, NothingIsKeptWhereNobodyIsLookedForAnyMore) {
  EXPECT_EQ(Try(), State::kBegun);
  channels_.Clear();
  EXPECT_EQ(Try(), State::kBegun);
  EXPECT_EQ(made_, 2);
}

TEST_F(PendingChannelsTest, NobodyListens) {
  listener_ = UniqueFd();
  EXPECT_EQ(Try(milliseconds(ConnectMs())), State::kRefused);
  EXPECT_EQ(Try(milliseconds(ConnectMs())), State::kRefused);
  EXPECT_EQ(made_, 2);
}

}  // namespace
}  // namespace reel
