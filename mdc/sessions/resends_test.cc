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
using Kind = Resends::Kind;
using Sent = std::tuple<SessionId, Kind, std::uint64_t>;

constexpr SessionId kA(1), kB(2), kC(3);

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
  out_ = {{kA, Kind::kData, 3},
          {kA, Kind::kData, 9},
          {kA, Kind::kAttributes, 1},
          {kA, Kind::kLocks, 5}};
  resends_.Add(kA);
  EXPECT_THAT(Begin(), ElementsAre(Sent{kA, Kind::kData, 3}, Sent{kA, Kind::kData, 9},
                                   Sent{kA, Kind::kAttributes, 1}, Sent{kA, Kind::kLocks, 5}));
  EXPECT_TRUE(resends_.empty());
  EXPECT_FALSE(resends_.used_up());
}

TEST_F(ResendsTest, NothingGoesOutBeforeATurnThatBegins) {
  out_ = {{kA, Kind::kData, 3}};
  resends_.Add(kA);
  EXPECT_THAT(GoOn(), IsEmpty());
  EXPECT_TRUE(resends_.WillSend(kA, Kind::kData, InodeNumber(3)));
  EXPECT_THAT(Begin(), ElementsAre(Sent{kA, Kind::kData, 3}));
}

TEST_F(ResendsTest, ATurnGoesOnWhereTheLastOneEnded) {
  out_ = {{kA, Kind::kData, 3}, {kA, Kind::kData, 9}, {kA, Kind::kAttributes, 1}};
  resends_.Add(kA);
  EXPECT_THAT(Begin(2), ElementsAre(Sent{kA, Kind::kData, 3}, Sent{kA, Kind::kData, 9}));
  EXPECT_TRUE(resends_.used_up());
  EXPECT_THAT(GoOn(2), ElementsAre(Sent{kA, Kind::kAttributes, 1}));
  EXPECT_TRUE(resends_.empty());
}

// The first one's recalls have taken the whole turn: the second one's are where they were.
TEST_F(ResendsTest, ASessionWithoutRoomInATurnLosesNoRecall) {
  for (std::uint64_t inode = 1; inode <= 4; ++inode) out_.insert({kA, Kind::kData, inode});
  out_.insert({kB, Kind::kData, 1});
  out_.insert({kC, Kind::kLocks, 7});
  resends_.Add(kA);
  resends_.Add(kB);
  resends_.Add(kC);
  EXPECT_EQ(Begin(4).size(), 4u);
  EXPECT_TRUE(resends_.WillSend(kB, Kind::kData, InodeNumber(1)));
  EXPECT_THAT(GoOn(4), ElementsAre(Sent{kB, Kind::kData, 1}, Sent{kC, Kind::kLocks, 7}));
  EXPECT_TRUE(resends_.empty());
}

TEST_F(ResendsTest, WhatIsRecalledBehindThePlaceGoesOutByItself) {
  for (std::uint64_t inode = 1; inode <= 4; ++inode) out_.insert({kA, Kind::kAttributes, inode});
  resends_.Add(kA);
  EXPECT_EQ(Begin(2).size(), 2u);
  EXPECT_FALSE(resends_.WillSend(kA, Kind::kData, InodeNumber(9)));
  EXPECT_FALSE(resends_.WillSend(kA, Kind::kAttributes, InodeNumber(2)));
  EXPECT_TRUE(resends_.WillSend(kA, Kind::kAttributes, InodeNumber(3)));
  EXPECT_TRUE(resends_.WillSend(kA, Kind::kLocks, InodeNumber(1)));
  EXPECT_FALSE(resends_.WillSend(kB, Kind::kLocks, InodeNumber(1)));
}

TEST_F(ResendsTest, WhoResumesOnceMoreIsToldAllOfIt) {
  out_ = {{kA, Kind::kData, 3}, {kA, Kind::kData, 9}};
  resends_.Add(kA);
  EXPECT_EQ(Begin(1).size(), 1u);
  resends_.Add(kA);
  EXPECT_THAT(GoOn(), IsEmpty());
  EXPECT_EQ(Begin().size(), 2u);
}

TEST_F(ResendsTest, ASessionThatHasEndedIsToldNothing) {
  out_ = {{kA, Kind::kData, 3}, {kB, Kind::kData, 9}};
  resends_.Add(kA);
  resends_.Add(kB);
  resends_.DropIf([](SessionId session) { return session == kA; });
  EXPECT_THAT(Begin(), ElementsAre(Sent{kB, Kind::kData, 9}));
}

}  // namespace
}  // namespace reel::mdc
