// What a session says of itself unasked, and when it is asked.
#include <gtest/gtest.h>

#include <cerrno>
#include <future>
#include <thread>
#include <utility>

#include "client/session/session.h"
#include "client/testing/fake_mdc.h"
#include "proto/status.h"
#include "volume/base/env.h"
#include "volume/testing/sample_volume.h"

namespace reel::client {
namespace {

class ReportingEvents final : public SessionEvents {
 public:
  void OnRecall(std::uint64_t, v1::TokenMode, const TokenSpan&) override {}
  void OnEvicted() override {}
  std::vector<v1::Reclaim> CollectReclaims() override { return {}; }
  void Describe(v1::Renew& renewal) const override {
    v1::LunReport& report = *renewal.add_luns();
    report.set_path("lun0.img");
    report.set_written_bytes(7);
    renewal.set_fuse(v1::FUSE_WAY_URING);
  }
};

class SessionReportsTest : public testing::Test {
 protected:
  SessionReportsTest() {
    Session::Options options;
    options.volume = "studio";
    options.mdcs = {"a:1", "b:1"};
    auto connected = Session::Connect(options, mdc_, events_, SystemClock());
    EXPECT_TRUE(connected.ok()) << connected.status();
    session_ = *std::move(connected);
  }
  ~SessionReportsTest() override {
    session_->Shutdown();
    EXPECT_EQ(mdc_.wrongs(), std::vector<std::string>());
  }
  template <typename Condition>
  static void Until(Condition condition) {
    while (!condition()) std::this_thread::yield();
  }

  FakeMdc mdc_{FakeMdcOptions{.descriptor = SampleVolume({{4, {{16, 2}}}})}};
  ReportingEvents events_;
  std::unique_ptr<Session> session_;
};

TEST_F(SessionReportsTest, APingIsAnsweredAtOnce) {
  mdc_.Ping(session_->session_id(), 5);
  Until([&] { return mdc_.CountOf(v1::Request::kPong) == 1; });
  mdc_.Ping(session_->session_id(), 6);
  Until([&] { return mdc_.CountOf(v1::Request::kPong) == 2; });
}

TEST_F(SessionReportsTest, RenewalsTellOfTheLunsAndOfTheConnection) {
  Until([&] { return mdc_.last_renewal().luns_size() > 0; });
  const v1::Renew renewal = mdc_.last_renewal();
  EXPECT_EQ(renewal.luns(0).path(), "lun0.img");
  EXPECT_EQ(renewal.luns(0).written_bytes(), 7U);
  EXPECT_EQ(renewal.fuse(), v1::FUSE_WAY_URING);
}

// A report of traffic that never ended would be the last one of its mount.
TEST_F(SessionReportsTest, AReportThatDiesWithItsStreamHasAnEnd) {
  mdc_.HoldReplies(v1::Request::kTraffic);
  std::promise<absl::Status> ended;
  v1::Request request;
  request.mutable_traffic();
  session_->Start(std::move(request),
                  [&](const absl::StatusOr<v1::Reply>& reply) { ended.set_value(reply.status()); });
  mdc_.DropStreams();
  EXPECT_EQ(ErrnoOf(ended.get_future().get()), ECONNRESET);
}

}  // namespace
}  // namespace reel::client
