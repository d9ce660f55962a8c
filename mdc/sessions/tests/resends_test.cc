#include "mdc/sessions/resends.h"

#include <cstdint>
#include <set>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace reel::mdc {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using RecallKind = Resends::Kind;
using Sent = std::tuple<SessionId, RecallKind, std::uint64_t>;

constexpr SessionId kFirst(1), kSecond(2), kThird(3);

class ResendsTest : public testing::Test {
 protected:
  // What goes out in a turn.
  std::vector<Sent> Turn(Resends::Turn turn, std::size_t most) {
    std::vector<Sent> sent;
    resends_.BeginTurn(turn, most);
    while (const auto slice = resends_.Next()) {
      std::vector<Sent> found;
      for (const Sent& recall : out_) {
        if (std::get<0>(recall) == slice->session && std::get<1>(recall) == slice->kind &&
            std::get<2>(recall) >= slice->from.value() && found.size() < slice->most) {
          found.push_back(recall);
        }
      }
      const InodeNumber last(found.empty() ? 0 : std::get<2>(found.back()));
      resends_.Found(*slice, found.size(), last);
      for (const Sent& recall : found) {
        EXPECT_FALSE(
            resends_.WillSend(slice->session, slice->kind, InodeNumber(std::get<2>(recall))));
      }
      sent.insert(sent.end(), found.begin(), found.end());
    }
    EXPECT_LE(sent.size(), most);
    return sent;
  }
  std::vector<Sent> Begin(std::size_t most = 100) { return Turn(Resends::Turn::kBegin, most); }
  std::vector<Sent> GoOn(std::size_t most = 100) { return Turn(Resends::Turn::kGoOn, most); }

  std::set<Sent> out_;
  Resends resends_;
};

TEST_F(ResendsTest, AllRecallsThatAreOutGoOutOnce) {
  out_ = {{kFirst, RecallKind::kData, 3},
          {kFirst, RecallKind::kData, 9},
          {kFirst, RecallKind::kAttributes, 1},
          {kFirst, RecallKind::kLocks, 5}};
  resends_.Add(kFirst);
  EXPECT_THAT(
      Begin(),
      ElementsAre(Sent{kFirst, RecallKind::kData, 3}, Sent{kFirst, RecallKind::kData, 9},
                  Sent{kFirst, RecallKind::kAttributes, 1}, Sent{kFirst, RecallKind::kLocks, 5}));
  EXPECT_TRUE(resends_.empty());
  EXPECT_FALSE(resends_.used_up());
}

TEST_F(ResendsTest, NothingGoesOutBeforeATurnThatBegins) {
  out_ = {{kFirst, RecallKind::kData, 3}};
  resends_.Add(kFirst);
  EXPECT_THAT(GoOn(), IsEmpty());
  EXPECT_TRUE(resends_.WillSend(kFirst, RecallKind::kData, InodeNumber(3)));
  EXPECT_THAT(Begin(), ElementsAre(Sent{kFirst, RecallKind::kData, 3}));
}

TEST_F(ResendsTest, ATurnGoesOnWhereTheLastOneEnded) {
  out_ = {{kFirst, RecallKind::kData, 3},
          {kFirst, RecallKind::kData, 9},
          {kFirst, RecallKind::kAttributes, 1}};
  resends_.Add(kFirst);
  EXPECT_THAT(Begin(2),
              ElementsAre(Sent{kFirst, RecallKind::kData, 3}, Sent{kFirst, RecallKind::kData, 9}));
  EXPECT_TRUE(resends_.used_up());
  EXPECT_THAT(GoOn(2), ElementsAre(Sent{kFirst, RecallKind::kAttributes, 1}));
  EXPECT_TRUE(resends_.empty());
}

// The first one's recalls have taken the whole turn: the second one's are where they were.
TEST_F(ResendsTest, ASessionWithoutRoomInATurnLosesNoRecall) {
  for (std::uint64_t inode = 1; inode <= 4; ++inode)
    out_.insert({kFirst, RecallKind::kData, inode});
  out_.insert({kSecond, RecallKind::kData, 1});
  out_.insert({kThird, RecallKind::kLocks, 7});
  resends_.Add(kFirst);
  resends_.Add(kSecond);
  resends_.Add(kThird);
  EXPECT_EQ(Begin(4).size(), 4u);
  EXPECT_TRUE(resends_.WillSend(kSecond, RecallKind::kData, InodeNumber(1)));
  EXPECT_THAT(GoOn(4), ElementsAre(Sent{kSecond, RecallKind::kData, 1},
                                   Sent{kThird, RecallKind::kLocks, 7}));
  EXPECT_TRUE(resends_.empty());
}

TEST_F(ResendsTest, ARecallBehindThePlaceIsSentByItself) {
  for (std::uint64_t inode = 1; inode <= 4; ++inode)
    out_.insert({kFirst, RecallKind::kAttributes, inode});
  resends_.Add(kFirst);
  EXPECT_EQ(Begin(2).size(), 2u);
  EXPECT_FALSE(resends_.WillSend(kFirst, RecallKind::kData, InodeNumber(9)));
  EXPECT_FALSE(resends_.WillSend(kFirst, RecallKind::kAttributes, InodeNumber(2)));
  EXPECT_TRUE(resends_.WillSend(kFirst, RecallKind::kAttributes, InodeNumber(3)));
  EXPECT_TRUE(resends_.WillSend(kFirst, RecallKind::kLocks, InodeNumber(1)));
  EXPECT_FALSE(resends_.WillSend(kSecond, RecallKind::kLocks, InodeNumber(1)));
}

TEST_F(ResendsTest, ASessionThatResumesAgainGetsAllRecalls) {
  out_ = {{kFirst, RecallKind::kData, 3}, {kFirst, RecallKind::kData, 9}};
  resends_.Add(kFirst);
  EXPECT_EQ(Begin(1).size(), 1u);
  resends_.Add(kFirst);
  EXPECT_THAT(GoOn(), IsEmpty());
  EXPECT_EQ(Begin().size(), 2u);
}

TEST_F(ResendsTest, AnEndedSessionGetsNothing) {
  out_ = {{kFirst, RecallKind::kData, 3}, {kSecond, RecallKind::kData, 9}};
  resends_.Add(kFirst);
  resends_.Add(kSecond);
  resends_.DropIf([](SessionId session) { return session == kFirst; });
  EXPECT_THAT(Begin(), ElementsAre(Sent{kSecond, RecallKind::kData, 9}));
}

}  // namespace
}  // namespace reel::mdc
