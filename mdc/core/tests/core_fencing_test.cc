// How sessions end where LUNs can cut them off: in which order, whatever is unknown, whoever dies.
#include "gmock/gmock.h"
#include "mdc/testing/core_world.h"
#include "volume/format/reservation_key.h"

namespace reel::mdc {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;
using testing::UnorderedElementsAre;

class CoreFencingTest : public testing::Test {
 protected:
  CoreFencingTest() {
    world_.options_.reservations = true;
    world_.Restart();
    a_.Register();
    b_.Register();
    file_ = a_.Create("file");
  }

  // a_ writes the file and falls silent; b_ wants to read it.
  void StopTheWriter() {
    ASSERT_EQ(a_.Do(Client::LayoutOf(file_, v1::TOKEN_EXCLUSIVE, /*allocate=*/true), true), 0);
    wanted_ = b_.Send(Client::LayoutOf(file_, v1::TOKEN_SHARED));
    world_.Run();
    world_.Pass(kLeaseMs - 200, {&b_});
  }
  void LeaseRunsOut() { world_.Pass(400, {&b_}); }
  bool BReads() const { return b_.Answered(wanted_) && b_.Answer(wanted_).error() == 0; }
  void Fenced(FenceOutcome outcome) {
    world_.core_->OnFenced(world_.fences_.back().id, outcome);
    world_.Run();
  }
  v1::Request NewKeyOf() const {
    v1::Request request;
    request.mutable_new_key()->set_lun(world_.volume_.seat.ToBytes());
    return request;
  }
  std::string StateOf(std::uint64_t session) const {
    v1::WhoReply who;
    world_.core_->Describe(who);
    for (const auto& known : who.sessions()) {
      if (known.session() == session) return known.state();
    }
    return "none";
  }
  int Alarms() const {
    v1::ShowReply show;
    world_.core_->Describe(show);
    return show.alarms_size();
  }
  std::uint64_t Epoch() const {
    v1::StatReply stat;
    world_.core_->Describe(stat);
    return stat.epoch();
  }

  static constexpr std::uint64_t kLeaseMs = 10'000;
  World world_;
  Client a_{world_, 1}, b_{world_, 2}, c_{world_, 3};
  std::uint64_t file_ = 0;
  std::uint64_t wanted_ = 0;
};

TEST_F(CoreFencingTest, EverySessionHasAKeyOfItsOwn) {
  EXPECT_NE(a_.key_, 0U);
  EXPECT_NE(a_.key_, b_.key_);
  const auto parts = PartsOfKey(world_.volume_.volume, a_.key_);
  ASSERT_TRUE(parts.has_value());
  EXPECT_FALSE(parts->controller);
  world_.Restart();
  EXPECT_EQ(a_.Resume(), 0);
  c_.Register();
  EXPECT_NE(c_.key_, a_.key_);
  EXPECT_NE(c_.key_, b_.key_);
}

TEST_F(CoreFencingTest, WhoMayNotWriteHasNone) {
  world_.options_.exports = {Export{.clients = {"host3"}, .access = Export::Access::kReadOnly}};
  world_.Restart();
  c_.Register();
  EXPECT_EQ(c_.key_, 0U);
  EXPECT_EQ(c_.Do(NewKeyOf()), EINVAL);
}

TEST_F(CoreFencingTest, AnExportThatBecomesReadOnlyTakesTheKeyOffTheLuns) {
  const std::uint64_t key = a_.key_;
  world_.options_.exports = {Export{.clients = {"host1"}, .access = Export::Access::kReadOnly}};
  world_.Restart();
  EXPECT_EQ(a_.Resume(), ESTALE);
  EXPECT_EQ(b_.Resume(), 0);
  EXPECT_EQ(b_.Reclaim(), 0);
  ASSERT_THAT(world_.fences_, SizeIs(1));
  EXPECT_THAT(world_.fences_[0].victims, ElementsAre(key));
  EXPECT_EQ(a_.Hello(), 0);
  EXPECT_EQ(a_.key_, 0U);
  // And back: it needs one.
  world_.options_.exports.clear();
  world_.Restart();
  EXPECT_EQ(a_.Resume(), ESTALE);
  EXPECT_EQ(a_.Hello(), 0);
  EXPECT_NE(a_.key_, 0U);
}

TEST_F(CoreFencingTest, OthersWaitForTheFenceAndNoLonger) {
  StopTheWriter();
  EXPECT_THAT(world_.fences_, IsEmpty());
  world_.hold_fences_ = true;
  LeaseRunsOut();
  ASSERT_THAT(world_.fences_, SizeIs(1));
  EXPECT_THAT(world_.fences_[0].victims, ElementsAre(a_.key_));
  EXPECT_FALSE(world_.fences_[0].lun.has_value());
  EXPECT_TRUE(world_.fences_[0].drain);
  EXPECT_TRUE(a_.evicted_);
  EXPECT_FALSE(BReads());
  Fenced({.done = true});
  EXPECT_TRUE(BReads());
  EXPECT_EQ(world_.Sessions(), 1U);
}

TEST_F(CoreFencingTest, NothingIsFencedBeforeTheEvictionIsDurable) {
  StopTheWriter();
  world_.hold_syncs_ = true;
  LeaseRunsOut();
  EXPECT_THAT(world_.fences_, IsEmpty());
  world_.hold_syncs_ = false;
  world_.Run();
  EXPECT_THAT(world_.fences_, SizeIs(1));
}

TEST_F(CoreFencingTest, NothingIsGivenAwayBeforeTheEndOfTheRecordIsDurable) {
  StopTheWriter();
  world_.hold_fences_ = true;
  LeaseRunsOut();
  world_.hold_syncs_ = true;
  Fenced({.done = true});
  EXPECT_FALSE(BReads());
  world_.hold_syncs_ = false;
  world_.Run();
  EXPECT_TRUE(BReads());
}

TEST_F(CoreFencingTest, WhatIsUnknownIsTriedAgainAndWithholdsOnlyThat) {
  StopTheWriter();
  world_.hold_fences_ = true;
  LeaseRunsOut();
  for (int tries = 1; tries <= 5; ++tries) {
    ASSERT_THAT(world_.fences_, SizeIs(tries));
    Fenced({.problem = "lun0: no answer"});
    EXPECT_EQ(StateOf(a_.session_), "ending: lun0: no answer");
    EXPECT_EQ(Alarms(), 1);
    EXPECT_FALSE(BReads());
    b_.Create(absl::StrCat("other", tries));  // everything else goes on
    ASSERT_THAT(world_.fences_, SizeIs(tries)) << "not at once";
    world_.Pass(5'000, {&b_});
  }
  Fenced({.done = true});
  EXPECT_TRUE(BReads());
  EXPECT_EQ(Alarms(), 0);
  EXPECT_EQ(StateOf(a_.session_), "none");
}

TEST_F(CoreFencingTest, ALateOutcomeOfAnEarlierTryCountsForNothing) {
  StopTheWriter();
  world_.hold_fences_ = true;
  LeaseRunsOut();
  const FenceId first = world_.fences_.back().id;
  Fenced({.problem = "no answer"});
  world_.Pass(5'000, {&b_});
  ASSERT_THAT(world_.fences_, SizeIs(2));
  world_.core_->OnFenced(first, {.done = true});
  world_.Run();
  EXPECT_FALSE(BReads());
}

TEST_F(CoreFencingTest, WithoutAResetItsCommandsAreWaitedOut) {
  StopTheWriter();
  world_.hold_fences_ = true;
  LeaseRunsOut();
  Fenced({.done = true, .quarantine_ms = 30'000});
  world_.Pass(29'000, {&b_});
  EXPECT_FALSE(BReads());
  world_.Pass(1'200, {&b_});
  EXPECT_TRUE(BReads());
}

// The controller dies at each step; the next one goes on, and gives nothing away before.
TEST_F(CoreFencingTest, AnEvictionIsResumedWhereverTheControllerDies) {
  for (const char* step : {"recorded", "ordered", "unknown", "fenced"}) {
    SCOPED_TRACE(step);
    World world;
    world.options_.reservations = true;
    world.Restart();
    Client a(world, 1), b(world, 2);
    a.Register();
    b.Register();
    world.hold_fences_ = true;
    ASSERT_TRUE(world.core_->EvictSession(SessionId(a.session_), "a test").ok());
    const std::string_view at(step);
    if (at == "recorded") {
      ASSERT_TRUE(world.db().Sync().ok());
    } else {
      world.Run();
      ASSERT_THAT(world.fences_, SizeIs(1));
    }
    if (at == "unknown") world.core_->OnFenced(world.fences_[0].id, {.problem = "no answer"});
    if (at == "fenced") {  // its record's end is not durable, but in memory the store has it
      world.Pass(10'000, {&b});
      world.hold_syncs_ = true;
      world.core_->OnFenced(world.fences_[0].id, {.done = true});
    }
    const std::size_t before = world.fences_.size();
    world.Restart();
    world.hold_fences_ = true;
    EXPECT_EQ(a.Resume(), ESTALE);
    ASSERT_EQ(b.Resume(), 0);
    ASSERT_EQ(b.Reclaim(), 0);
    const std::uint64_t asked = b.Send(Client::GetAttrOf(1));
    world.Run();
    if (at != "fenced") {
      ASSERT_THAT(world.fences_, SizeIs(before + 1));
      EXPECT_THAT(world.fences_.back().victims, ElementsAre(a.key_));
      EXPECT_FALSE(b.Answered(asked)) << "nobody knows what the other one held";
      world.core_->OnFenced(world.fences_.back().id, {.done = true});
      world.Run();
      EXPECT_FALSE(b.Answered(asked)) << "it may still read";
      world.Pass(10'000, {&b});
    }
    EXPECT_TRUE(b.Answered(asked));
    EXPECT_EQ(world.Sessions(), 1U);
  }
}

TEST_F(CoreFencingTest, WhoIsFencedWhileItsLeaseRunsMayReadUntilThatIsOver) {
  ASSERT_EQ(a_.Do(Client::LayoutOf(file_, v1::TOKEN_EXCLUSIVE, /*allocate=*/true), true), 0);
  wanted_ = b_.Send(Client::LayoutOf(file_, v1::TOKEN_SHARED));
  ASSERT_TRUE(world_.core_->EvictSession(SessionId(a_.session_), "a test").ok());
  world_.Pass(9'900, {&b_});
  EXPECT_FALSE(b_.Answered(wanted_));
  world_.Pass(100, {&b_});
  EXPECT_TRUE(b_.Answered(wanted_));
}

TEST_F(CoreFencingTest, GoodbyeIsFencedPolitely) {
  ASSERT_EQ(a_.Do(Client::LayoutOf(file_, v1::TOKEN_EXCLUSIVE, /*allocate=*/true), true), 0);
  wanted_ = b_.Send(Client::LayoutOf(file_, v1::TOKEN_SHARED));
  world_.hold_fences_ = true;
  v1::Request goodbye;
  goodbye.mutable_goodbye();
  EXPECT_EQ(a_.Do(goodbye), 0);
  EXPECT_TRUE(a_.ended_);
  EXPECT_EQ(world_.Counter("session.evictions"), 0U);
  ASSERT_THAT(world_.fences_, SizeIs(1));
  EXPECT_FALSE(world_.fences_[0].drain);
  EXPECT_FALSE(BReads());
  Fenced({.done = true});
  EXPECT_TRUE(BReads());
}

TEST_F(CoreFencingTest, APoliteFenceThatFailsIsDrainedTheNextTime) {
  world_.hold_fences_ = true;
  v1::Request goodbye;
  goodbye.mutable_goodbye();
  EXPECT_EQ(a_.Do(goodbye), 0);
  ASSERT_THAT(world_.fences_, SizeIs(1));
  Fenced({.problem = "no answer"});
  world_.Pass(500, {&b_});
  ASSERT_THAT(world_.fences_, SizeIs(2));
  EXPECT_TRUE(world_.fences_[1].drain) << "the first try may have taken the key away";
}

TEST_F(CoreFencingTest, AGoodbyeWithALostPathIsDrained) {
  v1::Request goodbye;
  goodbye.mutable_goodbye()->set_unfinished(true);
  EXPECT_EQ(a_.Do(goodbye), 0);
  ASSERT_THAT(world_.fences_, SizeIs(1));
  EXPECT_TRUE(world_.fences_[0].drain);
}

TEST_F(CoreFencingTest, ANewPathGetsAKeyWhenTheOldOneIsOff) {
  world_.hold_fences_ = true;
  const std::uint64_t asked = a_.Send(NewKeyOf());
  world_.Run();
  ASSERT_THAT(world_.fences_, SizeIs(1));
  EXPECT_THAT(world_.fences_[0].victims, ElementsAre(a_.key_));
  EXPECT_EQ(world_.fences_[0].lun, world_.volume_.seat);
  EXPECT_FALSE(a_.Answered(asked));
  Fenced({.done = true});
  ASSERT_TRUE(a_.Answered(asked));
  const std::uint64_t second = a_.Answer(asked).key().key();
  EXPECT_NE(second, 0U);
  EXPECT_NE(second, a_.key_);

  world_.hold_fences_ = false;
  ASSERT_EQ(a_.Do(NewKeyOf()), 0);
  const std::uint64_t third = a_.last_.key().key();
  EXPECT_THAT(world_.fences_.back().victims, UnorderedElementsAre(a_.key_, second));
  // Whatever may be registered goes with the session.
  ASSERT_TRUE(world_.core_->EvictSession(SessionId(a_.session_), "a test").ok());
  world_.Run();
  EXPECT_THAT(world_.fences_.back().victims, UnorderedElementsAre(a_.key_, third));
}

TEST_F(CoreFencingTest, AKeyThatIsAskedForTwiceIsGivenToWhoAskedLast) {
  world_.hold_fences_ = true;
  a_.Send(NewKeyOf());
  world_.Run();
  ASSERT_EQ(a_.Resume(), 0);
  const std::uint64_t asked = a_.Send(NewKeyOf());
  world_.Run();
  ASSERT_THAT(world_.fences_, SizeIs(1));
  Fenced({.done = true});
  EXPECT_TRUE(a_.Answered(asked));
}

TEST_F(CoreFencingTest, AKeyThatWasNeverToldIsFencedWithTheOthers) {
  world_.hold_fences_ = true;
  a_.Send(NewKeyOf());
  world_.Run();
  Fenced({.problem = "no answer"});
  EXPECT_EQ(StateOf(a_.session_), "serving, waits for a key: no answer");
  ASSERT_TRUE(world_.core_->EvictSession(SessionId(a_.session_), "a test").ok());
  world_.Run();
  EXPECT_THAT(world_.fences_.back().victims, SizeIs(2));
}

TEST_F(CoreFencingTest, KeysOfNobodyAreTakenAway) {
  const std::uint64_t stray = MakeSessionKey(world_.volume_.volume, reel::Epoch(Epoch()), 4711);
  world_.core_->OnKeysSeen({a_.key_, stray, b_.key_});
  world_.Run();
  ASSERT_THAT(world_.fences_, SizeIs(1));
  EXPECT_THAT(world_.fences_[0].victims, ElementsAre(stray));
  world_.core_->OnKeysSeen({a_.key_, b_.key_});
  world_.Run();
  EXPECT_THAT(world_.fences_, SizeIs(1));
}

TEST_F(CoreFencingTest, AClientThatRegistersAnewIsFencedAsItWas) {
  const std::uint64_t old = a_.key_;
  a_.Register();
  EXPECT_NE(a_.key_, old);
  ASSERT_THAT(world_.fences_, SizeIs(1));
  EXPECT_THAT(world_.fences_[0].victims, ElementsAre(old));
  EXPECT_EQ(world_.Sessions(), 2U);
  EXPECT_EQ(a_.Do(Client::GetAttrOf(1)), 0);
}

}  // namespace
}  // namespace reel::mdc
