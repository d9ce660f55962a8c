// How a standby hears of the controller that it watches, over a real connection on the loopback.
#include "mdc/rpc/peers/grpc_peers.h"

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "mdc/testing/grpc_service_fixture.h"

namespace reel::mdc {
namespace {

// No answer takes so long, however busy the machine is.
constexpr std::uint64_t kWaitMs = 60'000;

class GrpcPeersTest : public ServiceTest {
 protected:
  static std::unique_ptr<GrpcServer> Listen(VolumeRole& role) {
    auto server = GrpcServer::Start("127.0.0.1:0", {&role}, {});
    EXPECT_TRUE(server.ok()) << server.status();
    return *std::move(server);
  }
  PeerAnswer Ask(const GrpcServer& server, const std::string& volume = "reel") {
    return peers_.Ask(absl::StrCat("127.0.0.1:", server.port()), volume, kWaitMs);
  }
  GrpcPeers peers_{nullptr};
};

TEST_F(GrpcPeersTest, AStandbyAnswersThatItDoesNotServe) {
  VolumeRole role("reel");
  role.SetHolder(Uuid::Random());
  const auto standby = Listen(role);
  const PeerAnswer answer = Ask(*standby);
  ASSERT_TRUE(answer.said);
  EXPECT_EQ(answer.said->promise.holder, role.holder());
  EXPECT_EQ(answer.said->promise.epoch, Epoch(0));
}

TEST_F(GrpcPeersTest, WhoServesImageFilesPromisesNothing) {
  VolumeRole role("reel");
  role.SetHolder(Uuid::Random());
  role.Serve(*server_);
  const auto active = Listen(role);
  const PeerAnswer answer = Ask(*active);
  ASSERT_TRUE(answer.said);
  EXPECT_EQ(answer.said->promise.epoch, server_->epoch());
  EXPECT_EQ(answer.said->promise.answer_ms, 0U);
}

TEST_F(GrpcPeersTest, AProcessThatHasGoneIsToldFromOneThatSaysNothing) {
  VolumeRole role("reel");
  role.SetHolder(Uuid::Random());
  auto controller = Listen(role);
  EXPECT_TRUE(Ask(*controller).said);
  EXPECT_EQ(Ask(*controller, "other").failure, PeerFailure::kRefused);
  const std::string address = absl::StrCat("127.0.0.1:", controller->port());
  controller.reset();
  const PeerAnswer gone = peers_.Ask(address, "reel", kWaitMs);
  EXPECT_FALSE(gone.said);
  EXPECT_EQ(gone.failure, PeerFailure::kBroken);
}

}  // namespace
}  // namespace reel::mdc
