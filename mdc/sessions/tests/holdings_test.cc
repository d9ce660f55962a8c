#include "mdc/sessions/holdings.h"

#include "gtest/gtest.h"

namespace reel::mdc {
namespace {

constexpr SessionId kNear(1), kFar(2);
constexpr InodeNumber kFirst(7), kSecond(8);

class HoldingsTest : public ::testing::Test {
 protected:
  void HoldAll(SessionId session) {
    holdings_.tokens.Grant(session, kFirst, v1::TOKEN_SHARED);
    holdings_.attr_tokens.Grant(session, kFirst, v1::TOKEN_SHARED);
    holdings_.opens.Open(session, kFirst);
    holdings_.opens.Open(session, kSecond);
    FileLock lock;
    lock.inode = kSecond;
    lock.owner.session = session;
    lock.type = v1::LOCK_SHARED;
    holdings_.locks.Set(lock);
  }
  bool HoldsNothing(SessionId session) const {
    return holdings_.tokens.CountOf(session) == 0 && holdings_.opens.CountOf(session) == 0 &&
           holdings_.attr_tokens.Held(session, kFirst) == v1::TOKEN_NONE &&
           holdings_.locks.CountOf(session) == 0;
  }

  Holdings holdings_;
};

TEST_F(HoldingsTest, ADroppedSessionHoldsNothingAndOthersKeepWhatTheyHave) {
  HoldAll(kNear);
  HoldAll(kFar);
  Releases turn(100);
  const Holdings::Dropped dropped = holdings_.Drop(kNear, turn);
  EXPECT_TRUE(dropped.all);
  EXPECT_EQ(dropped.data, std::vector{kFirst});
  EXPECT_EQ(dropped.attributes, std::vector{kFirst});
  EXPECT_TRUE(HoldsNothing(kNear));
  EXPECT_EQ(holdings_.lock_waits.TakeDue(), kSecond);
  EXPECT_EQ(holdings_.opens.CountOf(kFar), 2u);
  EXPECT_EQ(holdings_.tokens.CountOf(kFar), 1u);
  EXPECT_EQ(holdings_.locks.CountOf(kFar), 1u);
}

TEST_F(HoldingsTest, DroppingTakesAsManyTurnsAsItNeeds) {
  HoldAll(kNear);
  Releases turn(2);
  EXPECT_FALSE(holdings_.Drop(kNear, turn).all);
  EXPECT_EQ(turn.released(), 2u);
  EXPECT_FALSE(HoldsNothing(kNear));
  for (int turns = 0; turns < 10; ++turns) {
    turn.BeginTurn();
    if (holdings_.Drop(kNear, turn).all) break;
    EXPECT_EQ(turn.room(), 0u);
  }
  EXPECT_TRUE(HoldsNothing(kNear));
  EXPECT_EQ(turn.released(), 5u);
}

TEST_F(HoldingsTest, ASessionIsDescribedByItsOpensAndTokens) {
  HoldAll(kNear);
  v1::WhoReply::Session reply;
  holdings_.Describe(kNear, reply);
  EXPECT_EQ(reply.opens(), 2u);
  EXPECT_EQ(reply.tokens(), 1u);
}

TEST_F(HoldingsTest, ARecallIsOutUntilItIsAnswered) {
  holdings_.tokens.Grant(kNear, kFirst, v1::TOKEN_EXCLUSIVE);
  const std::vector<Recall> recalls = holdings_.tokens.RecallOthers(kFar, kFirst, v1::TOKEN_NONE);
  ASSERT_EQ(recalls.size(), 1u);
  RecallClock::Out out{.since_ms = 1,
                       .kind = RecallClock::Kind::kData,
                       .inode = kFirst,
                       .number = recalls[0].number};
  EXPECT_TRUE(holdings_.IsOut(kNear, out));
  out.kind = RecallClock::Kind::kAttributes;
  EXPECT_FALSE(holdings_.IsOut(kNear, out));
  out.kind = RecallClock::Kind::kData;
  holdings_.tokens.Return(kNear, kFirst, v1::TOKEN_NONE);
  EXPECT_FALSE(holdings_.IsOut(kNear, out));
}

}  // namespace
}  // namespace reel::mdc
