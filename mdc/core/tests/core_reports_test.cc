// What the core tells administration of sessions, and of what they say of themselves.
#include "mdc/testing/core_harness.h"

namespace reel::mdc {
namespace {

class CoreReportsTest : public testing::Test {
 protected:
  CoreReportsTest() {
    a_.features_ = v1::FEATURE_PING;
    for (Client* client : {&a_, &b_}) {
      client->Connect();
      EXPECT_EQ(client->Hello(), 0);
    }
  }
  v1::OpenFilesReply OpenFiles(std::uint64_t only = 0) {
    v1::OpenFilesReply reply;
    harness_.core_->DescribeOpenFiles(InodeNumber(only), reply);
    return reply;
  }
  CoreHarness harness_;
  Client a_{harness_, 1}, b_{harness_, 2};
};

TEST_F(CoreReportsTest, ClientsTellOfTheirLuns) {
  v1::Request request;
  v1::LunReport& report = *request.mutable_renew()->add_luns();
  report.set_lun(harness_.volume_.pools[0].sets[0].luns[0].lun.ToBytes());
  report.set_path(std::string(1000, 'x'));
  report.set_read_bytes(7);
  request.mutable_renew()->add_luns()->set_lun("no such LUN");
  ASSERT_EQ(a_.Do(request), 0);
  v1::WhoReply who;
  harness_.core_->Describe(who);
  EXPECT_EQ(who.sessions(0).luns_size(), 0) << "of those who ask";
  harness_.core_->DescribeLuns(who);
  ASSERT_EQ(who.sessions(0).luns_size(), 1);
  EXPECT_EQ(who.sessions(0).luns(0).name(), harness_.volume_.pools[0].sets[0].luns[0].name);
  EXPECT_EQ(who.sessions(0).luns(0).read_bytes(), 7U);
  EXPECT_EQ(who.sessions(0).luns(0).path().size(), 256U);
  EXPECT_EQ(who.sessions(1).luns_size(), 0);
}

TEST_F(CoreReportsTest, ClientsTellHowTheirKernelsRequestsCome) {
  v1::Request request;
  request.mutable_renew()->set_fuse(v1::FUSE_WAY_URING);
  ASSERT_EQ(a_.Do(request), 0);
  v1::WhoReply who;
  harness_.core_->Describe(who);
  EXPECT_EQ(who.sessions(0).fuse(), v1::FUSE_WAY_URING);
  EXPECT_EQ(who.sessions(1).fuse(), v1::FUSE_WAY_UNKNOWN);
}

TEST_F(CoreReportsTest, OpenFilesAreToldWithTheirHolders) {
  const std::uint64_t file = a_.Create("file", /*open=*/true);
  ASSERT_EQ(a_.Do(Client::OpenOf(file)), 0);
  ASSERT_EQ(a_.Do(Client::LayoutOf(file, v1::TOKEN_EXCLUSIVE, true), true), 0);
  const std::uint64_t other = b_.Create("other");
  ASSERT_EQ(b_.Do(Client::LayoutOf(other, v1::TOKEN_SHARED)), 0);
  const v1::OpenFilesReply all = OpenFiles();
  ASSERT_EQ(all.files_size(), 2);
  const v1::OpenFilesReply one = OpenFiles(file);
  ASSERT_EQ(one.files_size(), 1);
  EXPECT_EQ(one.files(0).inode(), file);
  ASSERT_EQ(one.files(0).holders_size(), 1);
  EXPECT_EQ(one.files(0).holders(0).session(), a_.session_);
  EXPECT_TRUE(one.files(0).holders(0).open());
  EXPECT_EQ(one.files(0).holders(0).token(), "exclusive");
  EXPECT_EQ(OpenFiles(other).files(0).holders(0).token(), "shared");
}

TEST_F(CoreReportsTest, APongIsAnsweredAndRenewsTheLease) {
  v1::Request pong;
  pong.mutable_pong()->set_number(3);
  EXPECT_EQ(a_.Do(pong), 0);
  const auto connected = harness_.core_->connected();
  ASSERT_EQ(connected.size(), 2U);
  EXPECT_TRUE(connected[0].knows_ping);
  EXPECT_FALSE(connected[1].knows_ping);
  EXPECT_EQ(connected[0].stream, a_.stream_);
}

}  // namespace
}  // namespace reel::mdc
