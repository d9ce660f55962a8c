#include "proto/web/https_server.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "httplib.h"
#include "volume/lun/fd_lun.h"

namespace reel {
namespace {

// (What takes certificates is shown by tests/e2e/test_metrics.py.)
class HttpsServerTest : public ::testing::Test {
 protected:
  HttpsServerTest() {
    auto server = HttpsServer::Start(
        "127.0.0.1:0", /*tls=*/nullptr,
        {{"/page", [](const HttpsServer::Request& request) {
            return HttpsServer::Answer{.body = absl::StrCat("of ", request.path)};
          }}});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  httplib::Client Browser() const { return httplib::Client("127.0.0.1", server_->port()); }

  std::unique_ptr<HttpsServer> server_;
};

TEST_F(HttpsServerTest, PagesAreServedByPath) {
  const auto answer = Browser().Get("/page?words");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->body, "of /page");
  EXPECT_EQ(answer->get_header_value("X-Frame-Options"), "DENY");
  EXPECT_EQ(Browser().Get("/other")->status, 404);
}

TEST_F(HttpsServerTest, NothingIsChangedThroughPages) {
  EXPECT_EQ(Browser().Post("/page", "words", "text/plain")->status, 405);
  EXPECT_EQ(Browser().Delete("/page")->status, 405);
}

TEST_F(HttpsServerTest, APortThatIsTakenIsServedWhenItIsFree) {
  const auto second = HttpsServer::Start(absl::StrCat("127.0.0.1:", server_->port()), nullptr, {});
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(Browser().Get("/page")->status, 200) << "the first one's still";
  server_->Stop();
  httplib::Result answer = Browser().Get("/page");
  while (!answer) answer = Browser().Get("/page");
  EXPECT_EQ(answer->status, 404) << "the second one has no such page";
}

TEST_F(HttpsServerTest, ARequestIsNoLongerThanItMayBe) {
  const httplib::Headers long_one{{"X-Long", std::string(HttpsServer::kMostRequestBytes, 'x')}};
  const auto answer = Browser().Get("/page", long_one);
  EXPECT_TRUE(!answer || answer->status >= 400);
  EXPECT_EQ(Browser().Get("/page")->status, 200);
}

TEST_F(HttpsServerTest, APageIsMadeOnceHoweverManyPartsOfItAreAskedFor) {
  const auto answer = Browser().Get("/page", {{"Range", "bytes=0-,0-,0-"}});
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->body, "of /page");
}

TEST_F(HttpsServerTest, StopWaitsForNoPeer) {
  const UniqueFd silent(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<std::uint16_t>(server_->port()));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(connect(silent.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ASSERT_EQ(send(silent.get(), "GET /pa", 7, 0), 7);
  server_->Stop();
  char end = 0;
  EXPECT_LE(recv(silent.get(), &end, 1, 0), 0);
}

TEST_F(HttpsServerTest, WithoutTlsOnlyThisHostIsServed) {
  for (const char* address : {"0.0.0.0:0", "10.0.0.1:0", "127.0.0.1", "127.0.0.1:70000"}) {
    EXPECT_EQ(HttpsServer::Start(address, nullptr, {}).status().code(),
              absl::StatusCode::kInvalidArgument)
        << address;
  }
}

}  // namespace
}  // namespace reel
