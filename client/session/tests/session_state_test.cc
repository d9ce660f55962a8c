#include "client/session/session_state.h"

#include <gtest/gtest.h>

namespace reel::client {
namespace {

TEST(SessionTerms, AreThoseOfTheLastRegistration) {
  SessionTerms terms;
  v1::HelloReply hello;
  hello.set_read_only(true);
  hello.set_features(v1::FEATURE_DELEGATION);
  terms.Take(hello);
  v1::Reply renewed;
  renewed.set_commits_wait(true);
  terms.Renewed(renewed);
  EXPECT_TRUE(terms.read_only());
  EXPECT_TRUE(terms.delegates());
  EXPECT_FALSE(terms.delegates_names());  // of an earlier release
  EXPECT_FALSE(terms.delays_attributes());
  terms.Take({});
  EXPECT_FALSE(terms.read_only());
  EXPECT_FALSE(terms.delegates());
  EXPECT_FALSE(terms.commits_wait());
}

TEST(SessionTerms, HowLargeASmallFileIsMayChange) {
  SessionTerms terms;
  v1::HelloReply hello;
  hello.set_small_file_bytes(4096);
  terms.Take(hello);
  v1::Reply renewed;
  terms.Renewed(renewed);
  EXPECT_EQ(terms.small_file_bytes(), 4096u) << "an earlier release does not say it again";
  renewed.set_small_file_bytes(0);
  terms.Renewed(renewed);
  EXPECT_EQ(terms.small_file_bytes(), 0u);
  renewed.set_small_file_bytes(UINT32_MAX);
  terms.Renewed(renewed);
  EXPECT_EQ(terms.small_file_bytes(), kMaxSmallFileBytes);
}

TEST(SessionTerms, ASquashedExportIsNewsOnce) {
  SessionTerms terms;
  v1::HelloReply hello;
  hello.set_squashed(true);
  EXPECT_TRUE(terms.Take(hello));
  EXPECT_FALSE(terms.Take(hello));
  EXPECT_FALSE(terms.Take({}));
  EXPECT_TRUE(terms.Take(hello));
}

TEST(SessionPhase, WhoIsLetInAgainTakesCallsAndAClosedSessionNone) {
  SessionPhase phase;
  EXPECT_TRUE(phase.Closed().ok());
  phase.SetShutOut(ErrnoStatus(ENODEV, "revoked"));
  EXPECT_EQ(ErrnoOf(phase.Closed()), ENODEV);
  phase.SetShutOut(absl::OkStatus());
  EXPECT_TRUE(phase.Closed().ok());
  phase.Close();
  EXPECT_FALSE(phase.ending());
  phase.SetShutOut(absl::OkStatus());
  EXPECT_EQ(ErrnoOf(phase.Closed()), ESHUTDOWN);
}

TEST(SessionPhase, EndingClosesAndOneShutsDown) {
  SessionPhase phase;
  EXPECT_TRUE(phase.BeginShutdown());
  EXPECT_FALSE(phase.BeginShutdown());
  phase.End();
  EXPECT_TRUE(phase.closing());
  EXPECT_TRUE(phase.ending());
}

}  // namespace
}  // namespace reel::client
