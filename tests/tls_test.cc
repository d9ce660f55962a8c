// Mutual TLS between real endpoints on the loopback: who gets in, who does not, and what they are
// told.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "mdc/rpc/grpc_server.h"
#include "mdc/serve/candidate.h"
#include "mdc/testing/test_volume.h"
#include "proto/admin.grpc.pb.h"
#include "proto/grpc/grpc_tls.h"
#include "proto/tls/tls_probe.h"
#include "tools/pki/pki.h"
#include "tools/pki/pki_life.h"

namespace reel::mdc {
namespace {

using ::testing::HasSubstr;

// The same server behind TLS, and certificates of several kinds.
class TlsTest : public testing::Test {
 protected:
  TlsTest() {
    VolumeServerOptions options;
    options.volume = "reel";
    options.luns = volume_.paths();
    options.on_failure = [](const absl::Status& status) { ADD_FAILURE() << status; };
    auto server = TakeAndServe(options, SeatOptions(), SystemClock());
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    role_.Serve(*server_);
    std::filesystem::remove_all(base_);
    std::filesystem::create_directories(base_);
    EXPECT_TRUE(reel::tools::InitPki(base_ + "/pki", 10).ok());
    EXPECT_TRUE(reel::tools::InitPki(base_ + "/other", 10).ok());
    Serve(IssueFiles("/pki", TlsRole::kMdc, "mdc1"));
  }
  ~TlsTest() override {
    EXPECT_TRUE(server_->Stop().ok());
    grpc_->Stop();
    std::filesystem::remove_all(base_);
  }

  void Serve(const TlsFiles& own) {
    if (grpc_ != nullptr) grpc_->Stop();
    auto tls = WatchedTls::Load(own, TlsRole::kMdc);
    ASSERT_TRUE(tls.ok()) << tls.status();
    auto grpc = GrpcServer::Start("127.0.0.1:0", {&role_}, volume_.paths(), *tls);
    ASSERT_TRUE(grpc.ok()) << grpc.status();
    grpc_ = *std::move(grpc);
    address_ = absl::StrCat("127.0.0.1:", grpc_->port());
  }

  TlsFiles IssueFiles(const std::string& pki, TlsRole role, const std::string& name,
                      const std::string& host = "127.0.0.1") {
    const auto files = tools::IssueCertificate(base_ + pki, {role, name, {host}, 10});
    EXPECT_TRUE(files.ok()) << files.status();
    return {base_ + pki + "/ca.crt", files->certificate, files->key};
  }
  std::optional<TlsMaterial> Material(const std::string& pki, TlsRole role,
                                      const std::string& name) {
    auto material = LoadTls(IssueFiles(pki, role, name), role);
    EXPECT_TRUE(material.ok()) << material.status();
    return *std::move(material);
  }
  std::size_t Sessions() {
    std::promise<std::size_t> count;
    server_->RunOnCore([&](Core& core) {
      v1::WhoReply who;
      core.Describe(who);
      count.set_value(static_cast<std::size_t>(who.sessions_size()));
    });
    return count.get_future().get();
  }
  // The number of the certificate that the controller shows to a new connection.
  std::string ShownSerial(const TlsMaterial& tls) {
    const auto stub = v1::Admin::NewStub(Dial(tls));
    grpc::ClientContext context;
    v1::VolumesReply reply;
    EXPECT_TRUE(stub->Volumes(&context, v1::VolumesRequest(), &reply).ok());
    const auto peer = PeerOf(*context.auth_context());
    EXPECT_TRUE(peer.ok()) << peer.status();
    return peer.ok() ? peer->serial : "";
  }
  std::shared_ptr<grpc::Channel> Dial(const std::optional<TlsMaterial>& tls) {
    return grpc::CreateChannel(address_, ChannelCredentialsOf(tls ? &*tls : nullptr));
  }
  grpc::Status Volumes(const std::optional<TlsMaterial>& tls) {
    grpc::ClientContext context;
    v1::VolumesReply reply;
    return v1::Admin::NewStub(Dial(tls))->Volumes(&context, v1::VolumesRequest(), &reply);
  }
  // How many were refused for their certificates.
  std::uint64_t Refused() {
    grpc::ClientContext context;
    v1::StatRequest request;
    request.set_volume("reel");
    v1::StatReply reply;
    EXPECT_TRUE(v1::Admin::NewStub(Dial(Material("/pki", TlsRole::kAdmin, "counter")))
                    ->Stat(&context, request, &reply)
                    .ok());
    for (const auto& counter : reply.counters()) {
      if (counter.name() == "connection.refused") return counter.value();
    }
    ADD_FAILURE() << "it is not counted";
    return 0;
  }
  // A session's stream, as a client has it.
  struct Mounted {
    explicit Mounted(const std::shared_ptr<grpc::Channel>& channel)
        : stub(v1::Mdc::NewStub(channel)), rpc(stub->Session(Bounded(&context))) {}
    static grpc::ClientContext* Bounded(grpc::ClientContext* context) {
      context->set_deadline(std::chrono::system_clock::now() + std::chrono::minutes(1));
      return context;
    }
    int Hello() {
      v1::ClientFrame frame;
      v1::Hello& hello = *frame.add_requests()->mutable_hello();
      hello.set_protocol_min(1);
      hello.set_protocol_max(1);
      hello.set_volume("reel");
      hello.set_client(Uuid::Random().ToBytes());
      const bool answered = rpc->Write(frame) && rpc->Read(&answer) && answer.replies_size() == 1;
      return answered ? answer.replies(0).error() : -1;
    }
    const std::unique_ptr<v1::Mdc::Stub> stub;
    grpc::ClientContext context;
    const std::unique_ptr<grpc::ClientReaderWriter<v1::ClientFrame, v1::ServerFrame>> rpc;
    v1::ServerFrame answer;  // the last
  };
  // The errno of the answer to Hello; -1 when the stream ends without one.
  int HelloError(const std::optional<TlsMaterial>& tls) {
    Mounted mounted(Dial(tls));
    const int error = mounted.Hello();
    mounted.context.TryCancel();
    return error;
  }
  std::string Probe(const std::optional<TlsMaterial>& tls) {
    return std::string(ProbeMdc(address_, tls ? &*tls : nullptr, 2000).message());
  }

  TestVolumeOnImages volume_;
  VolumeRole role_{"reel"};
  std::unique_ptr<VolumeServer> server_;
  std::unique_ptr<GrpcServer> grpc_;
  const std::string base_ = testing::TempDir() + "reel_service_test";
  std::string address_;
};

TEST_F(TlsTest, EachRoleDoesItsOwnWork) {
  const auto client = Material("/pki", TlsRole::kClient, "ws1");
  const auto admin = Material("/pki", TlsRole::kAdmin, "boss");
  EXPECT_EQ(HelloError(client), 0);
  EXPECT_EQ(HelloError(admin), EACCES);
  EXPECT_TRUE(Volumes(admin).ok());
  const grpc::Status refused = Volumes(client);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(refused.error_message(), HasSubstr("the certificate of ws1 has the role client"));
  // Every call, not only the first.
  const auto stub = v1::Admin::NewStub(Dial(client));
  grpc::ClientContext contexts[4];
  v1::DisksReply disks;
  v1::ShowReply show;
  v1::StatReply stat;
  v1::WhoReply who;
  constexpr auto kDenied = grpc::StatusCode::PERMISSION_DENIED;
  EXPECT_EQ(stub->Disks(&contexts[0], v1::DisksRequest(), &disks).error_code(), kDenied);
  EXPECT_EQ(stub->Show(&contexts[1], v1::ShowRequest(), &show).error_code(), kDenied);
  EXPECT_EQ(stub->Stat(&contexts[2], v1::StatRequest(), &stat).error_code(), kDenied);
  EXPECT_EQ(stub->Who(&contexts[3], v1::WhoRequest(), &who).error_code(), kDenied);
  EXPECT_EQ(Refused(), 6u);
}

TEST_F(TlsTest, UntrustedPeersLearnWhy) {
  EXPECT_EQ(Probe(Material("/pki", TlsRole::kClient, "ws1")), "");
  const auto stranger = Material("/other", TlsRole::kClient, "ws1");
  EXPECT_EQ(HelloError(stranger), -1);
  EXPECT_FALSE(Volumes(stranger).ok());
  EXPECT_THAT(Probe(stranger), HasSubstr("the controller's certificate is not accepted"));
  // Believes the controller, but is not of its authority.
  auto half = stranger;
  half->ca_pem = Material("/pki", TlsRole::kClient, "ws2")->ca_pem;
  EXPECT_EQ(HelloError(half), -1);
  EXPECT_THAT(Probe(half), HasSubstr("the controller refuses this certificate"));
  EXPECT_EQ(HelloError(std::nullopt), -1);
  EXPECT_THAT(Probe(std::nullopt), HasSubstr("the controller wants TLS"));
  EXPECT_GE(Refused(), 4u) << "a handshake of each kind";
}

TEST_F(TlsTest, AControllerIsForItsHosts) {
  Serve(IssueFiles("/pki", TlsRole::kMdc, "mdc2", "mdc2.example"));
  const auto client = Material("/pki", TlsRole::kClient, "ws1");
  EXPECT_EQ(HelloError(client), -1);
  EXPECT_THAT(Probe(client), HasSubstr("is not for 127.0.0.1 but for mdc2.example"));
}

// A client's certificate may be for a host, and TLS takes it for a server's then.
TEST_F(TlsTest, WhoIsDialledIsAControllerByItsRole) {
  const auto believed = [&](const std::string& address) {
    const auto admin = Material("/pki", TlsRole::kAdmin,
                                absl::StrCat("admin", address.substr(address.find(':') + 1)));
    grpc::ClientContext context;
    v1::VolumesReply reply;
    (void)v1::Admin::NewStub(grpc::CreateChannel(address, ChannelCredentialsOf(&*admin)))
        ->Volumes(&context, v1::VolumesRequest(), &reply);
    EXPECT_TRUE(PeerOf(*context.auth_context()).ok()) << "they have met";
    const Revocations none;
    return CheckController(*context.auth_context(), &none);
  };
  EXPECT_TRUE(believed(address_).ok());
  auto client = WatchedTls::Load(IssueFiles("/pki", TlsRole::kClient, "ws1"), TlsRole::kClient);
  ASSERT_TRUE(client.ok()) << client.status();
  v1::Admin::Service service;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", ServerCredentialsOf(*client), &port);
  builder.RegisterService(&service);
  const std::unique_ptr<grpc::Server> other = builder.BuildAndStart();
  ASSERT_NE(other, nullptr);
  const absl::Status told = believed(absl::StrCat("127.0.0.1:", port));
  EXPECT_TRUE(absl::IsPermissionDenied(told)) << told;
  other->Shutdown();
}

TEST_F(TlsTest, AClientWithTlsWantsAControllerWithTls) {
  Serve({});
  const auto client = Material("/pki", TlsRole::kClient, "ws1");
  EXPECT_EQ(HelloError(client), -1);
  EXPECT_THAT(Probe(client), HasSubstr("does not speak TLS"));
}

TEST_F(TlsTest, ARenewedCertificateIsShownToNewConnectionsAndEndsNone) {
  const auto admin = Material("/pki", TlsRole::kAdmin, "boss");
  Mounted mounted(Dial(Material("/pki", TlsRole::kClient, "ws1")));
  ASSERT_EQ(mounted.Hello(), 0);
  const std::string before = ShownSerial(*admin);
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(tools::RenewCertificates(base_ + "/pki", {"mdc1"}, 30, 90).ok());
    EXPECT_NE(ShownSerial(*admin), before);
  }
  EXPECT_EQ(Sessions(), 1u);
}

TEST_F(TlsTest, ARevokedHolderIsEndedAndOthersGoOn) {
  const auto thief = Material("/pki", TlsRole::kClient, "ws1");
  const auto admin = Material("/pki", TlsRole::kAdmin, "boss");
  Mounted stolen(Dial(thief));
  ASSERT_EQ(stolen.Hello(), 0);
  Mounted other(Dial(Material("/pki", TlsRole::kClient, "ws2")));
  ASSERT_EQ(other.Hello(), 0);
  ASSERT_EQ(Sessions(), 2u);

  ASSERT_TRUE(tools::RevokeCertificates(base_ + "/pki", "ws1", "").ok());
  ASSERT_TRUE(stolen.rpc->Read(&stolen.answer)) << "a last word";
  ASSERT_EQ(stolen.answer.callbacks_size(), 1);
  EXPECT_EQ(stolen.answer.callbacks(0).evicted().reason(), "the certificate of ws1 is revoked");
  EXPECT_FALSE(stolen.rpc->Read(&stolen.answer));
  EXPECT_EQ(HelloError(thief), EACCES);
  EXPECT_EQ(HelloError(Material("/pki", TlsRole::kClient, "ws1")), 0) << "another one of that name";
  other.context.TryCancel();

  ASSERT_TRUE(tools::RevokeCertificates(base_ + "/pki", "boss", "").ok());
  grpc::Status status;
  do status = Volumes(admin);
  while (status.ok());
  EXPECT_THAT(status.error_message(), HasSubstr("the certificate of boss ("));
  EXPECT_THAT(status.error_message(), HasSubstr("is revoked"));
}

TEST_F(TlsTest, AListThatIsGoneOrDamagedLetsNobodyInAgain) {
  const auto thief = Material("/pki", TlsRole::kClient, "ws1");
  ASSERT_TRUE(tools::RevokeCertificates(base_ + "/pki", "ws1", "").ok());
  const TlsFiles own = IssueFiles("/pki", TlsRole::kMdc, "mdc2");
  Serve(own);
  EXPECT_EQ(HelloError(thief), EACCES) << "known from the start";
  std::filesystem::remove(base_ + "/pki/ca.crl");
  Mounted other(Dial(Material("/pki", TlsRole::kClient, "ws2")));
  ASSERT_EQ(other.Hello(), 0);
  ASSERT_TRUE(tools::RevokeCertificates(base_ + "/pki", "ws2", "").ok());
  EXPECT_TRUE(other.rpc->Read(&other.answer)) << "a list of others is taken in";
  std::ofstream(base_ + "/pki/ca.crl") << "rubbish";
  auto tls = WatchedTls::Load(own, TlsRole::kMdc);
  ASSERT_TRUE(tls.ok());
  const auto refused = GrpcServer::Start("127.0.0.1:0", {&role_}, volume_.paths(), *tls);
  EXPECT_TRUE(absl::IsInvalidArgument(refused.status())) << refused.status();
}

}  // namespace
}  // namespace reel::mdc
