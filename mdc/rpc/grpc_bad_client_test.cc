// What no client of ours would send, over real connections: each is refused, and nobody else is
// disturbed by it.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <functional>

#include "gmock/gmock.h"
#include "mdc/testing/grpc_service_fixture.h"

namespace reel::mdc {
namespace {

constexpr std::uint64_t kHuge = ~std::uint64_t{0};

class BadClientTest : public ServiceTest {
 protected:
  BadClientTest() : ServiceTest({.most = 500, .most_unknown = 100, .unknown_ms = 500}) {
    good_ = Register();
    bad_ = Register();
  }
  ~BadClientTest() override { ExpectUndisturbed(); }

  // A stream on a connection of its own.
  std::unique_ptr<Stream> Connect() const {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    arguments.SetMaxSendMessageSize(-1);
    return std::make_unique<Stream>(grpc::CreateCustomChannel(
        absl::StrCat("127.0.0.1:", grpc_->port()), grpc::InsecureChannelCredentials(), arguments));
  }
  std::unique_ptr<Stream> Register() {
    auto stream = Connect();
    EXPECT_TRUE(stream->Send(HelloTo("reel")));
    EXPECT_EQ(stream->Receive(1).size(), 1u);
    return stream;
  }

  // The errno that the request is answered with; -1: the stream has ended without an answer.
  static int Ask(Stream& stream, v1::Request request) {
    v1::ClientFrame frame;
    *frame.add_requests() = std::move(request);
    if (!stream.Send(frame)) return -1;
    const auto replies = stream.Receive(1);
    return replies.empty() ? -1 : replies[0].error();
  }
  static bool HasEnded(Stream& stream) { return stream.Receive(1).empty(); }

  // Another client makes a file and looks it up.
  void ExpectUndisturbed() {
    v1::Request create;
    create.set_slot(1);
    create.set_slot_sequence(++good_sequence_);
    create.mutable_create()->set_parent(1);
    create.mutable_create()->set_name(absl::StrCat("good", good_sequence_));
    create.mutable_create()->set_mode(S_IFREG | 0644);
    EXPECT_EQ(Ask(*good_, create), 0);
    v1::Request lookup;
    lookup.mutable_lookup()->set_parent(1);
    lookup.mutable_lookup()->set_name(create.create().name());
    EXPECT_EQ(Ask(*good_, lookup), 0);
  }

  std::unique_ptr<Stream> good_, bad_;
  std::uint64_t good_sequence_ = 0;
};

TEST_F(BadClientTest, InvalidRequestsGetTheirErrors) {
  std::uint64_t sequence = 0;
  const auto in_slot = [&](v1::Request& request) {
    request.set_slot(1);
    request.set_slot_sequence(++sequence);
  };
  const struct {
    int error;
    std::function<void(v1::Request&)> make;
  } rows[] = {
      {EINVAL, [](auto& r) { r.mutable_reclaim()->set_done(true); }},
      {ESTALE, [](auto& r) { r.mutable_get_attr()->set_inode(kHuge); }},
      {ESTALE, [](auto& r) { r.mutable_open()->set_inode(77); }},
      {0, [](auto& r) { r.mutable_close()->set_inode(77); }},  // never opened: nothing to do
      {0, [](auto& r) { r.mutable_attr_return()->add_inodes(77); }},
      {0,
       [&](auto& r) {  // an answer to a recall that nobody has sent
         in_slot(r);
         r.mutable_layout_return()->set_inode(77);
       }},
      {EINVAL,
       [&](auto& r) {
         in_slot(r);
         r.mutable_layout_return()->set_mode(static_cast<v1::TokenMode>(99));
       }},
      {EINVAL,
       [&](auto& r) {
         in_slot(r);
         r.mutable_layout_return()->set_first_block(kHuge);
       }},
      {EINVAL,
       [](auto& r) {
         r.mutable_layout_get()->set_inode(1);
         r.mutable_layout_get()->set_mode(static_cast<v1::TokenMode>(99));
       }},
      {ENOENT, [](auto& r) { r.mutable_lookup()->set_parent(1); }},
      {EINVAL,
       [](auto& r) {
         r.mutable_lookup()->set_parent(1);
         r.mutable_lookup()->set_name(std::string("a\0b", 3));
       }},
      {ENAMETOOLONG,
       [](auto& r) {
         r.mutable_lookup()->set_parent(1);
         r.mutable_lookup()->set_name(std::string(1 << 20, 'x'));
       }},
      {0,
       [](auto& r) {  // a limit that no reply keeps
         r.mutable_read_dir()->set_inode(1);
         r.mutable_read_dir()->set_limit_bytes(~0u);
       }},
      {0,
       [](auto& r) {
         r.mutable_read_dir()->set_inode(1);
         r.mutable_read_dir()->set_cookie(kHuge);
       }},
      {EINVAL,
       [](auto& r) {
         r.mutable_set_lock()->mutable_lock()->set_inode(1);
         r.mutable_set_lock()->mutable_lock()->set_first(kHuge);
         r.mutable_set_lock()->mutable_lock()->set_type(v1::LOCK_SHARED);
       }},
      {EINVAL, [](auto& r) { r.mutable_test_lock()->mutable_lock()->set_inode(1); }},
      {0, [](auto& r) { r.mutable_cancel_lock()->set_wait(77); }},
  };
  for (const auto& row : rows) {
    v1::Request request;
    request.set_id(7);
    row.make(request);
    EXPECT_EQ(Ask(*bad_, request), row.error) << request.ShortDebugString().substr(0, 200);
  }
}

TEST_F(BadClientTest, CommitsWithoutAGrantAreRefused) {
  v1::Request create;
  create.set_slot(1);
  create.set_slot_sequence(1);
  create.mutable_create()->set_parent(1);
  create.mutable_create()->set_name("file");
  create.mutable_create()->set_mode(S_IFREG | 0644);
  create.mutable_create()->set_open(true);
  create.mutable_create()->set_token(v1::TOKEN_EXCLUSIVE);
  v1::ClientFrame frame;
  *frame.add_requests() = create;
  ASSERT_TRUE(bad_->Send(frame));
  const auto made = bad_->Receive(1);
  ASSERT_EQ(made.at(0).error(), 0);
  const std::uint64_t inode = made[0].entry().attr().inode();
  std::uint64_t sequence = 1;
  const auto commit = [&](Stream& stream, std::uint64_t& next, std::uint64_t first,
                          std::uint64_t length) {
    v1::Request request;
    request.set_slot(1);
    request.set_slot_sequence(++next);
    request.mutable_layout_commit()->set_inode(inode);
    request.mutable_layout_commit()->add_written()->set_file_block(first);
    request.mutable_layout_commit()->mutable_written(0)->set_length_blocks(length);
    return Ask(stream, request);
  };
  EXPECT_EQ(commit(*bad_, sequence, 5, 1), ESTALE);
  EXPECT_EQ(commit(*bad_, sequence, kHuge, 1), EINVAL);
  EXPECT_EQ(commit(*bad_, sequence, 1, kHuge), EINVAL);
  EXPECT_EQ(commit(*bad_, sequence, 0, 0), EINVAL);
  EXPECT_EQ(commit(*good_, good_sequence_, 0, 1), EPERM) << "without the token";
}

TEST_F(BadClientTest, AnInvalidSlotEndsItsStreamOnly) {
  for (const auto& [slot, sequence] : {std::pair{kHuge, 1ull}, {1ull, 0ull}, {1ull, 5ull}}) {
    auto stream = Register();
    v1::Request request;
    request.set_slot(static_cast<std::uint32_t>(slot));
    request.set_slot_sequence(sequence);
    request.mutable_unlink()->set_parent(1);
    request.mutable_unlink()->set_name("x");
    EXPECT_EQ(Ask(*stream, request), EPROTO);
    EXPECT_TRUE(HasEnded(*stream));
  }
  auto stream = Register();
  v1::Request no_slot;
  no_slot.mutable_unlink()->set_parent(1);
  EXPECT_EQ(Ask(*stream, no_slot), EPROTO);
  EXPECT_TRUE(HasEnded(*stream));
}

TEST_F(BadClientTest, AnothersSessionCannotBeTaken) {
  for (const std::uint64_t session : {1ull, 2ull, 77ull, 1ull << 63}) {
    auto stream = Connect();
    v1::ClientFrame hello = HelloTo("reel");
    hello.mutable_requests(0)->mutable_hello()->set_resume_session(session);
    EXPECT_EQ(Ask(*stream, hello.requests(0)), session <= 2 ? EPERM : ESTALE);
  }
}

TEST_F(BadClientTest, FramesUpToTheLimitAreServedAndLargerOnesEndTheStream) {
  v1::ClientFrame frame;
  v1::Request& request = *frame.add_requests();
  request.mutable_lookup()->set_parent(1);
  const std::size_t rest = frame.ByteSizeLong() + 16;  // and the lengths' own bytes
  request.mutable_lookup()->set_name(std::string(kMaxFrameBytes - rest, 'x'));
  ASSERT_LE(frame.ByteSizeLong(), std::size_t{kMaxFrameBytes});
  ASSERT_TRUE(bad_->Send(frame));
  EXPECT_EQ(bad_->Receive(1).at(0).error(), ENAMETOOLONG);
  request.mutable_lookup()->set_name(std::string(kMaxFrameBytes, 'x'));
  (void)bad_->Send(frame);
  EXPECT_TRUE(HasEnded(*bad_));
  EXPECT_EQ(bad_->rpc->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST_F(BadClientTest, AStreamWithoutHelloIsEndedInTime) {
  auto mute = Connect();
  EXPECT_TRUE(HasEnded(*mute));
  EXPECT_FALSE(mute->rpc->Finish().ok());

  Stream second(channel_);  // on the connection of one that has said Hello
  ASSERT_TRUE(second.Send(HelloTo("reel")));
  ASSERT_EQ(second.Receive(1).size(), 1u);
  Stream another(channel_);
  EXPECT_TRUE(HasEnded(another));
  EXPECT_FALSE(another.rpc->Finish().ok());
  v1::Request look;
  look.mutable_get_attr()->set_inode(1);
  EXPECT_EQ(Ask(second, look), 0);
}

TEST_F(BadClientTest, SilentConnectionsShutNoClientOut) {
  std::vector<UniqueFd> mute;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(grpc_->port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  for (int i = 0; i < 400; ++i) {
    mute.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(connect(mute.back().get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    if (i % 2 != 0) {  // half of HTTP/2's first line
      ASSERT_EQ(send(mute.back().get(), "PRI * HTTP", 10, MSG_NOSIGNAL), 10);
    }
    if (i % 100 == 99) ExpectUndisturbed();
  }
  EXPECT_NE(Register(), nullptr);
  for (const UniqueFd& fd : mute) {  // until each is ended
    char bytes[256];
    while (recv(fd.get(), bytes, sizeof bytes, 0) > 0) {
    }
  }
}

TEST_F(BadClientTest, AClientThatReadsNoRepliesIsCutOff) {
  v1::Request set;
  set.set_slot(1);
  set.set_slot_sequence(1);
  set.mutable_set_xattr()->set_inode(1);
  set.mutable_set_xattr()->set_name("user.large");
  set.mutable_set_xattr()->set_value(std::string(60'000, 'x'));
  ASSERT_EQ(Ask(*bad_, set), 0);
  v1::ClientFrame frame;
  for (int i = 0; i < 100; ++i) {
    v1::GetXattr& get = *frame.add_requests()->mutable_get_xattr();
    get.set_inode(1);
    get.set_name("user.large");
  }
  int sent = 0;
  while (sent < 1000 && bad_->Send(frame)) {  // a failed Send: the stream has ended
    if (++sent % 10 == 0) ExpectUndisturbed();
  }
  EXPECT_LT(sent, 1000);
}

}  // namespace
}  // namespace reel::mdc
