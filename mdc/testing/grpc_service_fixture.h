// The vocabulary of tests that speak to the daemon's gRPC face over real connections on the
// loopback.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "mdc/rpc/grpc_server.h"
#include "mdc/serve/candidate.h"
#include "mdc/testing/test_volume.h"
#include "proto/mdc.grpc.pb.h"

namespace reel::mdc {

class ServiceTest : public testing::Test {
 protected:
  explicit ServiceTest(const ConnectionGate::Options& connections = {}) {
    VolumeServerOptions options;
    options.volume = "reel";
    options.luns = volume_.paths();
    options.on_failure = [](const absl::Status& status) { ADD_FAILURE() << status; };
    auto server = TakeAndServe(options, SeatOptions(), SystemClock());
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    role_.Serve(*server_);
    auto grpc = GrpcServer::Start("127.0.0.1:0", {&role_}, volume_.paths(), nullptr, connections);
    EXPECT_TRUE(grpc.ok()) << grpc.status();
    grpc_ = *std::move(grpc);
    channel_ = grpc::CreateChannel(absl::StrCat("127.0.0.1:", grpc_->port()),
                                   grpc::InsecureChannelCredentials());
  }
  ~ServiceTest() override {
    if (server_ != nullptr && !stopped_) {
      EXPECT_TRUE(server_->Stop().ok());
    }
    grpc_->Stop();
  }

  struct Stream {
    explicit Stream(const std::shared_ptr<grpc::Channel>& channel)
        : stub(v1::Mdc::NewStub(channel)), rpc(stub->Session(&context)) {}
    bool Send(const v1::ClientFrame& frame) { return rpc->Write(frame); }
    // The next `count` replies, whatever frames they come in.
    std::vector<v1::Reply> Receive(std::size_t count) {
      std::vector<v1::Reply> replies;
      v1::ServerFrame frame;
      while (replies.size() < count && rpc->Read(&frame)) {
        replies.insert(replies.end(), frame.replies().begin(), frame.replies().end());
      }
      return replies;
    }
    grpc::ClientContext context;
    std::unique_ptr<v1::Mdc::Stub> stub;
    std::unique_ptr<grpc::ClientReaderWriter<v1::ClientFrame, v1::ServerFrame>> rpc;
  };
  static v1::ClientFrame HelloTo(const std::string& volume) {
    v1::ClientFrame frame;
    v1::Request& request = *frame.add_requests();
    request.set_id(1);
    v1::Hello& hello = *request.mutable_hello();
    hello.set_protocol_min(1);
    hello.set_protocol_max(1);
    hello.set_volume(volume);
    hello.set_host("here");
    hello.set_client(Uuid::Random().ToBytes());
    return frame;
  }

  TestVolumeOnImages volume_;
  VolumeRole role_{"reel"};
  std::unique_ptr<VolumeServer> server_;
  std::unique_ptr<GrpcServer> grpc_;
  std::shared_ptr<grpc::Channel> channel_;
  bool stopped_ = false;
};

}  // namespace reel::mdc
