// The daemon's gRPC face, over a real connection on the loopback.
#include "mdc/rpc/service.h"

#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mdc/testing/grpc_service_fixture.h"
#include "proto/admin.grpc.pb.h"
#include "proto/tls/tls_probe.h"

namespace reel::mdc {
namespace {

using ::testing::HasSubstr;

TEST_F(ServiceTest, ASessionFromHelloToGoodbye) {
  Stream stream(channel_);
  ASSERT_TRUE(stream.Send(HelloTo("reel")));
  auto replies = stream.Receive(1);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_GT(replies[0].hello().session(), 0u);

  v1::ClientFrame frame;
  for (std::uint32_t slot = 1; slot <= 20; ++slot) {
    v1::Request& request = *frame.add_requests();
    request.set_id(100 + slot);
    request.set_slot(slot);
    request.set_slot_sequence(1);
    request.mutable_create()->set_parent(1);
    request.mutable_create()->set_name(absl::StrCat("file", slot));
    request.mutable_create()->set_mode(S_IFREG | 0644);
  }
  ASSERT_TRUE(stream.Send(frame));
  replies = stream.Receive(20);
  ASSERT_EQ(replies.size(), 20u);
  for (const v1::Reply& reply : replies) EXPECT_EQ(reply.error(), 0) << reply.message();

  v1::ClientFrame goodbye;
  goodbye.add_requests()->mutable_goodbye();
  ASSERT_TRUE(stream.Send(goodbye));
  EXPECT_EQ(stream.Receive(1).size(), 1u);
  EXPECT_TRUE(stream.Receive(1).empty());  // the stream has ended
  EXPECT_TRUE(stream.rpc->Finish().ok());
}

TEST_F(ServiceTest, StreamsThatBeginWronglyAreEnded) {
  Stream other(channel_);
  ASSERT_TRUE(other.Send(HelloTo("other")));
  auto replies = other.Receive(1);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].error(), ENOENT);
  EXPECT_TRUE(other.Receive(1).empty());
  EXPECT_EQ(other.rpc->Finish().error_code(), grpc::StatusCode::NOT_FOUND);

  Stream mute(channel_);
  v1::ClientFrame frame;
  frame.add_requests()->mutable_renew();
  ASSERT_TRUE(mute.Send(frame));
  EXPECT_EQ(mute.Receive(1).at(0).error(), ENOTCONN);
  EXPECT_EQ(mute.rpc->Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);

  Stream empty(channel_);
  ASSERT_TRUE(empty.Send(v1::ClientFrame()));
  EXPECT_EQ(empty.Receive(1).at(0).error(), ENOTCONN);
}

TEST_F(ServiceTest, AClientThatVanishesIsNoticed) {
  auto stream = std::make_unique<Stream>(channel_);
  ASSERT_TRUE(stream->Send(HelloTo("reel")));
  ASSERT_EQ(stream->Receive(1).size(), 1u);
  stream->context.TryCancel();
  stream.reset();
  auto stub = v1::Admin::NewStub(channel_);
  for (bool connected = true; connected;) {  // bounded by the test's own time limit
    grpc::ClientContext context;
    v1::WhoRequest request;
    v1::WhoReply reply;
    request.set_volume("reel");
    ASSERT_TRUE(stub->Who(&context, request, &reply).ok());
    ASSERT_EQ(reply.sessions_size(), 1);  // registered until its lease is over
    connected = reply.sessions(0).connected();
  }
}

TEST_F(ServiceTest, StoppingEndsStreamsInOrder) {
  Stream stream(channel_);
  ASSERT_TRUE(stream.Send(HelloTo("reel")));
  ASSERT_EQ(stream.Receive(1).size(), 1u);
  stopped_ = true;
  ASSERT_TRUE(server_->Stop().ok());
  EXPECT_TRUE(stream.Receive(1).empty());
  EXPECT_TRUE(stream.rpc->Finish().ok());
  auto stub = v1::Admin::NewStub(channel_);
  grpc::ClientContext context;
  v1::WhoRequest request;
  v1::WhoReply reply;
  request.set_volume("reel");
  EXPECT_EQ(stub->Who(&context, request, &reply).error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST_F(ServiceTest, AdministrationNegotiatesItsProtocol) {
  auto stub = v1::Admin::NewStub(channel_);
  const auto ask = [&](const char* said, std::string* answered) {
    grpc::ClientContext context;
    if (said != nullptr) context.AddMetadata(kProtocolMetadata, said);
    v1::VolumesReply reply;
    const grpc::Status status = stub->Volumes(&context, v1::VolumesRequest(), &reply);
    const auto& trailers = context.GetServerTrailingMetadata();
    const auto found = trailers.find(kProtocolMetadata);
    if (found != trailers.end()) answered->assign(found->second.data(), found->second.size());
    return status;
  };
  const std::string spoken = EncodeProtocol(SpokenProtocol());
  for (const char* said : {static_cast<const char*>(nullptr), "1-1", "2-9", "nonsense"}) {
    std::string answered;
    EXPECT_TRUE(ask(said, &answered).ok());
    EXPECT_EQ(answered, spoken);
  }
  std::string answered;
  const grpc::Status refused = ask("8-9", &answered);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_NE(refused.error_message().find("speaks 8 to 9"), std::string::npos);
  EXPECT_NE(refused.error_message().find("upgrade reel-mdcd on"), std::string::npos);
  EXPECT_EQ(answered, spoken);
}

TEST_F(ServiceTest, AStandbyNamesTheActiveController) {
  VolumeRole role("reel");
  role.Know(Uuid::Random(), {.epoch = Epoch(7), .address = "mdc1:7440", .host = "studio1"});
  auto standby = GrpcServer::Start("127.0.0.1:0", {&role}, {});
  ASSERT_TRUE(standby.ok()) << standby.status();
  const auto channel = grpc::CreateChannel(absl::StrCat("127.0.0.1:", (*standby)->port()),
                                           grpc::InsecureChannelCredentials());
  Stream stream(channel);
  ASSERT_TRUE(stream.Send(HelloTo("reel")));
  const auto replies = stream.Receive(1);
  ASSERT_EQ(replies.size(), 1u);
  EXPECT_EQ(replies[0].error(), EREMOTE);
  EXPECT_EQ(replies[0].active(), "mdc1:7440");
  EXPECT_EQ(stream.rpc->Finish().error_code(), grpc::StatusCode::FAILED_PRECONDITION);

  v1::WhereRequest where;
  v1::WhereReply there;
  where.set_volume("reel");
  for (const bool serving : {false, true}) {
    grpc::ClientContext context;
    ASSERT_TRUE(
        v1::Mdc::NewStub(serving ? channel_ : channel)->Where(&context, where, &there).ok());
    EXPECT_EQ(there.here(), serving);
    EXPECT_EQ(there.epoch(), serving ? server_->epoch().value() : 7);
  }

  grpc::ClientContext context;
  v1::WhoRequest request;
  v1::WhoReply who;
  request.set_volume("reel");
  const grpc::Status refused = v1::Admin::NewStub(channel)->Who(&context, request, &who);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(context.GetServerTrailingMetadata().find("reel-active")->second, "mdc1:7440");
  (*standby)->Stop();
}

TEST_F(ServiceTest, AProbeNamesTheController) {
  const std::string address = absl::StrCat("127.0.0.1:", grpc_->port());
  EXPECT_TRUE(ProbeMdc(address, nullptr, 2000).ok());
  grpc_->Stop();
  const absl::Status gone = ProbeMdc(address, nullptr, 2000);
  EXPECT_TRUE(absl::IsUnavailable(gone));
  EXPECT_THAT(std::string(gone.message()), HasSubstr("Connection refused"));
}

TEST_F(ServiceTest, AdministrationAnswers) {
  auto stub = v1::Admin::NewStub(channel_);
  grpc::ClientContext contexts[5];
  v1::VolumesReply volumes;
  ASSERT_TRUE(stub->Volumes(&contexts[0], v1::VolumesRequest(), &volumes).ok());
  ASSERT_EQ(volumes.volumes_size(), 1);
  EXPECT_EQ(volumes.volumes(0).epoch(), server_->epoch().value());
  v1::DisksReply disks;
  ASSERT_TRUE(stub->Disks(&contexts[1], v1::DisksRequest(), &disks).ok());
  ASSERT_EQ(disks.disks_size(), 2);
  EXPECT_EQ(disks.disks(0).state(), "ok");
  EXPECT_EQ(disks.disks(0).pool(), "data");
  v1::ShowRequest show;
  v1::ShowReply shown;
  show.set_volume("reel");
  ASSERT_TRUE(stub->Show(&contexts[2], show, &shown).ok());
  EXPECT_EQ(shown.pools(0).luns_size(), 2);
  v1::StatRequest stat;
  v1::StatReply counters;
  stat.set_volume("reel");
  ASSERT_TRUE(stub->Stat(&contexts[3], stat, &counters).ok());
  EXPECT_GT(counters.counters_size(), 10);
  stat.set_volume("other");
  EXPECT_EQ(stub->Stat(&contexts[4], stat, &counters).error_code(), grpc::StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace reel::mdc
