// How a stream begins, and which session it gets.
#include "mdc/core/core.h"

#include "mdc/testing/core_harness.h"

namespace reel::mdc {
namespace {

class CoreRegistrationTest : public testing::Test {
 protected:
  CoreHarness harness_;
  Client a_{harness_, 1}, b_{harness_, 2}, c_{harness_, 3};
};

TEST_F(CoreRegistrationTest, AStreamBeginsWithHello) {
  a_.Connect();
  EXPECT_EQ(a_.Do(Client::GetAttrOf(1)), ENOTCONN);
  EXPECT_TRUE(a_.ended_);
  a_.Register();
  EXPECT_EQ(a_.Do(Client::GetAttrOf(1)), 0);
  EXPECT_EQ(a_.Hello(), EPROTO);  // twice
  EXPECT_TRUE(a_.ended_);
}

TEST_F(CoreRegistrationTest, HelloThatCannotBeServedIsRefused) {
  const auto refused = [&](void (*corrupt)(v1::Hello&)) {
    a_.Connect();
    v1::Request request;
    v1::Hello& hello = *request.mutable_hello();
    hello.set_protocol_min(1);
    hello.set_protocol_max(1);
    hello.set_volume("reel");
    hello.set_client(a_.uuid_.ToBytes());
    corrupt(hello);
    return a_.Do(request);
  };
  EXPECT_EQ(refused([](v1::Hello& h) { h.set_protocol_min(8), h.set_protocol_max(9); }),
            EPROTONOSUPPORT);
  EXPECT_EQ(refused([](v1::Hello& h) { h.set_volume("other"); }), ENOENT);
  EXPECT_EQ(refused([](v1::Hello& h) { h.set_client("short"); }), EINVAL);
  EXPECT_EQ(refused([](v1::Hello& h) { h.set_resume_session(77); }), ESTALE);
  EXPECT_EQ(harness_.Sessions(), 0u);
}

// Else it would send in slots that the next controller has not, again and again.
TEST_F(CoreRegistrationTest, WhoCannotDoWithFewerSlotsLaterGetsFewAtOnce) {
  harness_.options_.names = NameReplies::kDelegated;
  harness_.Restart();
  a_.Register();
  EXPECT_EQ(a_.told_.slots(), 64u);
  b_.features_ = v1::FEATURE_SMALL_FILES;
  b_.Register();
  EXPECT_EQ(b_.told_.slots(), CoreOptions::kMostSlots);
  harness_.options_.names = NameReplies::kDurable;
  harness_.Restart();
  EXPECT_EQ(b_.Resume(), 0);
  EXPECT_EQ(b_.told_.slots(), 64u);
  EXPECT_EQ(b_.Reclaim(), 0);
  harness_.Pass(15'000, {&b_});
  const std::uint64_t id = b_.SendIn(200, Client::CreateOf("what was on its way"));
  harness_.Run();
  EXPECT_TRUE(b_.Answered(id));
  EXPECT_FALSE(b_.ended_);
}

TEST_F(CoreRegistrationTest, AStreamThatIsEndedTakesItsSessionWithIt) {
  a_.Register();
  b_.Register();
  harness_.core_->EndStream(a_.stream_, "the certificate of ws1 is revoked");
  harness_.Run();
  EXPECT_TRUE(a_.ended_);
  EXPECT_EQ(a_.Resume(), ESTALE);
  EXPECT_EQ(b_.Do(Client::GetAttrOf(1)), 0);
}

TEST_F(CoreRegistrationTest, AStreamThatIsEndedBeginsNoSession) {
  a_.Connect();
  harness_.core_->OnStreamOpened(a_.stream_, "ws1");
  harness_.core_->EndStream(a_.stream_, "the certificate of ws1 is revoked");
  harness_.Run();
  EXPECT_TRUE(a_.ended_);
  EXPECT_EQ(harness_.Sessions(), 0u);
  harness_.core_->EndStream(StreamId(99), "nobody is there");
}

TEST_F(CoreRegistrationTest, TheNewestCommonProtocolIsSpokenAndFeaturesAreThoseThatBothHave) {
  const auto hello = [&](std::uint32_t oldest, std::uint32_t newest, std::uint64_t features) {
    a_.Connect();
    v1::Request request;
    v1::Hello& said = *request.mutable_hello();
    said.set_protocol_min(oldest);
    said.set_protocol_max(newest);
    said.set_features(features);
    said.set_volume("reel");
    said.set_host("ws1");
    said.set_client(a_.uuid_.ToBytes());
    return a_.Do(request);
  };
  const std::uint64_t all = ~std::uint64_t{0};
  ASSERT_EQ(hello(1, 1, 0), 0);  // as before there were ranges
  EXPECT_EQ(a_.last_.hello().protocol(), 1U);
  EXPECT_EQ(a_.last_.hello().features(), 0U);
  const ProtocolRange ours = SpokenProtocol();
  ASSERT_EQ(hello(1, ours.newest + 3, all), 0);
  EXPECT_EQ(a_.last_.hello().protocol(), ours.newest);
  const std::uint64_t by_choice = v1::FEATURE_DELEGATION;  // of the administrator
  EXPECT_EQ(a_.last_.hello().features() | by_choice, SpokenFeatures(ours));
  EXPECT_EQ(hello(ours.newest + 1, ours.newest + 2, all), EPROTONOSUPPORT);
  EXPECT_EQ(a_.last_.message(),
            absl::StrCat("no common protocol version: mount.reelfs on ws1 speaks ", ours.newest + 1,
                         " to ", ours.newest + 2, ", reel-mdcd on its host speaks ",
                         ProtocolText(ours), "; upgrade reel-mdcd on its host"));
}

TEST_F(CoreRegistrationTest, AFarewellGoesToSessionsWithTheFeature) {
  const auto hello = [](Client& client, std::uint64_t features) {
    client.Connect();
    v1::Request request;
    v1::Hello& said = *request.mutable_hello();
    said.set_protocol_min(1);
    said.set_protocol_max(2);
    said.set_features(features);
    said.set_volume("reel");
    said.set_client(client.uuid_.ToBytes());
    return client.Do(request);
  };
  ASSERT_EQ(hello(a_, v1::FEATURE_FAREWELL), 0);
  ASSERT_EQ(hello(b_, 0), 0);
  harness_.core_->SayFarewell("it goes", /*stopped=*/true);
  harness_.Run();
  ASSERT_EQ(a_.farewells_.size(), 1U);
  EXPECT_EQ(a_.farewells_[0].reason(), "it goes");
  EXPECT_TRUE(a_.farewells_[0].stopped());
  EXPECT_TRUE(b_.farewells_.empty());
  EXPECT_FALSE(b_.evicted_);
}

TEST_F(CoreRegistrationTest, TheDescriptorGoesToClientsThatLackIt) {
  a_.Connect();
  v1::Request request;
  v1::Hello& hello = *request.mutable_hello();
  hello.set_protocol_min(1);
  hello.set_protocol_max(1);
  hello.set_volume("reel");
  hello.set_client(a_.uuid_.ToBytes());
  hello.set_map_generation(3);
  hello.set_mounted_volume(harness_.volume_.volume.ToBytes());
  ASSERT_EQ(a_.Do(request), 0);
  EXPECT_TRUE(a_.last_.hello().volume_descriptor().empty());
  b_.Connect();
  hello.set_client(b_.uuid_.ToBytes());
  hello.set_map_generation(2);
  ASSERT_EQ(b_.Do(request), 0);
  const std::string& framed = b_.last_.hello().volume_descriptor();
  EXPECT_EQ(DecodeDescriptor(std::as_bytes(std::span(framed))).value(), harness_.volume_);
}

TEST_F(CoreRegistrationTest, OnlyTheSameClientResumesASession) {
  a_.Register();
  b_.Connect();
  EXPECT_EQ(b_.Hello(a_.session_), EPERM);
  EXPECT_EQ(a_.Do(Client::GetAttrOf(1)), 0);
}

TEST_F(CoreRegistrationTest, ASecondStreamReplacesTheFirst) {
  a_.Register();
  const StreamId first = a_.stream_;
  ASSERT_EQ(a_.Resume(), 0);
  EXPECT_EQ(a_.Do(Client::GetAttrOf(1)), 0);
  v1::Request late = Client::GetAttrOf(1);
  harness_.core_->OnRequest(first, late);  // was in the queue still
  harness_.Run();
  EXPECT_EQ(harness_.Sessions(), 1u);
}

TEST_F(CoreRegistrationTest, TooManySessionsAreRefused) {
  harness_.options_.max_sessions = 1;
  harness_.Restart();
  a_.Register();
  b_.Connect();
  EXPECT_EQ(b_.Hello(), EMFILE);
  v1::Request goodbye;
  goodbye.mutable_goodbye();
  EXPECT_EQ(a_.Do(goodbye), 0);
  EXPECT_TRUE(a_.ended_);
  EXPECT_EQ(b_.Hello(), 0);
}

}  // namespace
}  // namespace reel::mdc
