// How sessions end where LUNs can cut them off: in which order, whatever is unknown, whoever dies.
#include "gmock/gmock.h"
#include "mdc/testing/core_harness.h"
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
    harness_.options_.reservations = true;
    harness_.Restart();
    a_.Register();
    b_.Register();
    file_ = a_.Create("file");
  }

  // a_ writes the file and falls silent; b_ wants to read it.
  void StopTheWriter() {
    ASSERT_EQ(a_.Do(Client::LayoutOf(file_, v1::TOKEN_EXCLUSIVE, /*allocate=*/true), true), 0);
    wanted_ = b_.Send(Client::LayoutOf(file_, v1::TOKEN_SHARED));
    harness_.Run();
    harness_.Pass(kLeaseMs - 200, {&b_});
  }
  void LeaseRunsOut() { harness_.Pass(400, {&b_}); }
  bool BReads() const { return b_.Answered(wanted_) && b_.Answer(wanted_).error() == 0; }
  void Fenced(FenceOutcome outcome) {
    harness_.core_->OnFenced(harness_.fences_.back().id, outcome);
    harness_.Run();
  }
  v1::Request NewKeyOf() const {
    v1::Request request;
    request.mutable_new_key()->set_lun(harness_.volume_.seat_lun.ToBytes());
    return request;
  }
  std::string StateOf(std::uint64_t session) const {
    v1::WhoReply who;
    harness_.core_->Describe(who);
    for (const auto& known : who.sessions()) {
      if (known.session() == session) return known.state();
    }
    return "none";
  }
  int Alarms() const {
    v1::ShowReply show;
    harness_.core_->Describe(show);
    return show.alarms_size();
  }
  std::uint64_t Epoch() const {
    v1::StatReply stat;
    harness_.core_->Describe(stat);
    return stat.epoch();
  }

  static constexpr std::uint64_t kLeaseMs = 10'000;
  CoreHarness harness_;
  Client a_{harness_, 1}, b_{harness_, 2}, c_{harness_, 3};
  std::uint64_t file_ = 0;
  std::uint64_t wanted_ = 0;
};

TEST_F(CoreFencingTest, EverySessionHasAKeyOfItsOwn) {
  EXPECT_NE(a_.key_, 0U);
  EXPECT_NE(a_.key_, b_.key_);
  const auto parts = PartsOfKey(harness_.volume_.volume, a_.key_);
  ASSERT_TRUE(parts.has_value());
  EXPECT_FALSE(parts->controller);
  harness_.Restart();
  EXPECT_EQ(a_.Resume(), 0);
  c_.Register();
  EXPECT_NE(c_.key_, a_.key_);
  EXPECT_NE(c_.key_, b_.key_);
}

TEST_F(CoreFencingTest, AReadOnlySessionHasNoKey) {
  harness_.options_.exports = {Export{.clients = {"host3"}, .access = Export::Access::kReadOnly}};
  harness_.Restart();
  c_.Register();
  EXPECT_EQ(c_.key_, 0U);
  EXPECT_EQ(c_.Do(NewKeyOf()), EINVAL);
}

TEST_F(CoreFencingTest, AnExportThatBecomesReadOnlyTakesTheKeyOffTheLuns) {
  const std::uint64_t key = a_.key_;
  harness_.options_.exports = {Export{.clients = {"host1"}, .access = Export::Access::kReadOnly}};
  harness_.Restart();
  EXPECT_EQ(a_.Resume(), ESTALE);
  EXPECT_EQ(b_.Resume(), 0);
  EXPECT_EQ(b_.Reclaim(), 0);
  ASSERT_THAT(harness_.fences_, SizeIs(1));
  EXPECT_THAT(harness_.fences_[0].victims, ElementsAre(key));
  EXPECT_EQ(a_.Hello(), 0);
  EXPECT_EQ(a_.key_, 0U);
  // And back: it needs one.
  harness_.options_.exports.clear();
  harness_.Restart();
  EXPECT_EQ(a_.Resume(), ESTALE);
  EXPECT_EQ(a_.Hello(), 0);
  EXPECT_NE(a_.key_, 0U);
}

TEST_F(CoreFencingTest, OthersWaitForTheFenceAndNoLonger) {
  StopTheWriter();
  EXPECT_THAT(harness_.fences_, IsEmpty());
  harness_.hold_fences_ = true;
  LeaseRunsOut();
  ASSERT_THAT(harness_.fences_, SizeIs(1));
  EXPECT_THAT(harness_.fences_[0].victims, ElementsAre(a_.key_));
  EXPECT_FALSE(harness_.fences_[0].lun.has_value());
  EXPECT_TRUE(harness_.fences_[0].drain);
  EXPECT_TRUE(a_.evicted_);
  EXPECT_FALSE(BReads());
  Fenced({.done = true});
  EXPECT_TRUE(BReads());
  EXPECT_EQ(harness_.Sessions(), 1U);
}

TEST_F(CoreFencingTest, NothingIsFencedBeforeTheEvictionIsDurable) {
  StopTheWriter();
  harness_.hold_syncs_ = true;
  LeaseRunsOut();
  EXPECT_THAT(harness_.fences_, IsEmpty());
  harness_.hold_syncs_ = false;
  harness_.Run();
  EXPECT_THAT(harness_.fences_, SizeIs(1));
}

TEST_F(CoreFencingTest, NothingIsGivenAwayBeforeTheEndOfTheRecordIsDurable) {
  StopTheWriter();
  harness_.hold_fences_ = true;
  LeaseRunsOut();
  harness_.hold_syncs_ = true;
  Fenced({.done = true});
  EXPECT_FALSE(BReads());
  harness_.hold_syncs_ = false;
  harness_.Run();
  EXPECT_TRUE(BReads());
}

TEST_F(CoreFencingTest, AnUnknownFenceIsRepeatedAndWithholdsOnlyItsSession) {
  StopTheWriter();
  harness_.hold_fences_ = true;
  LeaseRunsOut();
  for (int tries = 1; tries <= 5; ++tries) {
    ASSERT_THAT(harness_.fences_, SizeIs(tries));
    Fenced({.problem = "lun0: no answer"});
    EXPECT_EQ(StateOf(a_.session_), "ending: lun0: no answer");
    EXPECT_EQ(Alarms(), 1);
    EXPECT_FALSE(BReads());
    b_.Create(absl::StrCat("other", tries));  // everything else goes on
    ASSERT_THAT(harness_.fences_, SizeIs(tries)) << "not at once";
    harness_.Pass(5'000, {&b_});
  }
  Fenced({.done = true});
  EXPECT_TRUE(BReads());
  EXPECT_EQ(Alarms(), 0);
  EXPECT_EQ(StateOf(a_.session_), "none");
}

TEST_F(CoreFencingTest, ALateOutcomeOfAnEarlierTryCountsForNothing) {
  StopTheWriter();
  harness_.hold_fences_ = true;
  LeaseRunsOut();
  const FenceId first = harness_.fences_.back().id;
  Fenced({.problem = "no answer"});
  harness_.Pass(5'000, {&b_});
  ASSERT_THAT(harness_.fences_, SizeIs(2));
  harness_.core_->OnFenced(first, {.done = true});
  harness_.Run();
  EXPECT_FALSE(BReads());
}

TEST_F(CoreFencingTest, WithoutAResetTheQuarantineIsWaitedOut) {
  StopTheWriter();
  harness_.hold_fences_ = true;
  LeaseRunsOut();
  Fenced({.done = true, .quarantine_ms = 30'000});
  harness_.Pass(29'000, {&b_});
  EXPECT_FALSE(BReads());
  harness_.Pass(1'200, {&b_});
  EXPECT_TRUE(BReads());
}

// The controller dies at each step; the next one goes on, and gives nothing away before.
TEST_F(CoreFencingTest, AnEvictionIsResumedWhereverTheControllerDies) {
  for (const char* step : {"recorded", "ordered", "unknown", "fenced"}) {
    SCOPED_TRACE(step);
    CoreHarness harness;
    harness.options_.reservations = true;
    harness.Restart();
    Client a(harness, 1), b(harness, 2);
    a.Register();
    b.Register();
    harness.hold_fences_ = true;
    ASSERT_TRUE(harness.core_->EvictSession(SessionId(a.session_), "a test").ok());
    const std::string_view at(step);
    if (at == "recorded") {
      ASSERT_TRUE(harness.db().Sync().ok());
    } else {
      harness.Run();
      ASSERT_THAT(harness.fences_, SizeIs(1));
    }
    if (at == "unknown") harness.core_->OnFenced(harness.fences_[0].id, {.problem = "no answer"});
    if (at == "fenced") {  // its record's end is not durable, but in memory the store has it
      harness.Pass(10'000, {&b});
      harness.hold_syncs_ = true;
      harness.core_->OnFenced(harness.fences_[0].id, {.done = true});
    }
    const std::size_t before = harness.fences_.size();
    harness.Restart();
    harness.hold_fences_ = true;
    EXPECT_EQ(a.Resume(), ESTALE);
    ASSERT_EQ(b.Resume(), 0);
    ASSERT_EQ(b.Reclaim(), 0);
    const std::uint64_t asked = b.Send(Client::GetAttrOf(1));
    harness.Run();
    if (at != "fenced") {
      ASSERT_THAT(harness.fences_, SizeIs(before + 1));
      EXPECT_THAT(harness.fences_.back().victims, ElementsAre(a.key_));
      EXPECT_FALSE(b.Answered(asked)) << "nobody knows what the other one held";
      harness.core_->OnFenced(harness.fences_.back().id, {.done = true});
      harness.Run();
      EXPECT_FALSE(b.Answered(asked)) << "it may still read";
      harness.Pass(10'000, {&b});
    }
    EXPECT_TRUE(b.Answered(asked));
    EXPECT_EQ(harness.Sessions(), 1U);
  }
}

TEST_F(CoreFencingTest, AFencedSessionMayReadUntilItsLeaseEnds) {
  ASSERT_EQ(a_.Do(Client::LayoutOf(file_, v1::TOKEN_EXCLUSIVE, /*allocate=*/true), true), 0);
  wanted_ = b_.Send(Client::LayoutOf(file_, v1::TOKEN_SHARED));
  ASSERT_TRUE(harness_.core_->EvictSession(SessionId(a_.session_), "a test").ok());
  harness_.Pass(9'900, {&b_});
  EXPECT_FALSE(b_.Answered(wanted_));
  harness_.Pass(100, {&b_});
  EXPECT_TRUE(b_.Answered(wanted_));
}

TEST_F(CoreFencingTest, GoodbyeIsFencedPolitely) {
  ASSERT_EQ(a_.Do(Client::LayoutOf(file_, v1::TOKEN_EXCLUSIVE, /*allocate=*/true), true), 0);
  wanted_ = b_.Send(Client::LayoutOf(file_, v1::TOKEN_SHARED));
  harness_.hold_fences_ = true;
  v1::Request goodbye;
  goodbye.mutable_goodbye();
  EXPECT_EQ(a_.Do(goodbye), 0);
  EXPECT_TRUE(a_.ended_);
  EXPECT_EQ(harness_.Counter("session.evictions"), 0U);
  ASSERT_THAT(harness_.fences_, SizeIs(1));
  EXPECT_FALSE(harness_.fences_[0].drain);
  EXPECT_FALSE(BReads());
  Fenced({.done = true});
  EXPECT_TRUE(BReads());
}

TEST_F(CoreFencingTest, APoliteFenceThatFailsIsDrainedTheNextTime) {
  harness_.hold_fences_ = true;
  v1::Request goodbye;
  goodbye.mutable_goodbye();
  EXPECT_EQ(a_.Do(goodbye), 0);
  ASSERT_THAT(harness_.fences_, SizeIs(1));
  Fenced({.problem = "no answer"});
  harness_.Pass(500, {&b_});
  ASSERT_THAT(harness_.fences_, SizeIs(2));
  EXPECT_TRUE(harness_.fences_[1].drain) << "the first try may have taken the key away";
}

TEST_F(CoreFencingTest, AGoodbyeWithALostPathIsDrained) {
  v1::Request goodbye;
  goodbye.mutable_goodbye()->set_unfinished(true);
  EXPECT_EQ(a_.Do(goodbye), 0);
  ASSERT_THAT(harness_.fences_, SizeIs(1));
  EXPECT_TRUE(harness_.fences_[0].drain);
}

TEST_F(CoreFencingTest, ANewPathGetsAKeyOnceTheOldKeyIsGone) {
  harness_.hold_fences_ = true;
  const std::uint64_t asked = a_.Send(NewKeyOf());
  harness_.Run();
  ASSERT_THAT(harness_.fences_, SizeIs(1));
  EXPECT_THAT(harness_.fences_[0].victims, ElementsAre(a_.key_));
  EXPECT_EQ(harness_.fences_[0].lun, harness_.volume_.seat_lun);
  EXPECT_FALSE(a_.Answered(asked));
  Fenced({.done = true});
  ASSERT_TRUE(a_.Answered(asked));
  const std::uint64_t second = a_.Answer(asked).key().key();
  EXPECT_NE(second, 0U);
  EXPECT_NE(second, a_.key_);

  harness_.hold_fences_ = false;
  ASSERT_EQ(a_.Do(NewKeyOf()), 0);
  const std::uint64_t third = a_.last_.key().key();
  EXPECT_THAT(harness_.fences_.back().victims, UnorderedElementsAre(a_.key_, second));
  // Whatever may be registered goes with the session.
  ASSERT_TRUE(harness_.core_->EvictSession(SessionId(a_.session_), "a test").ok());
  harness_.Run();
  EXPECT_THAT(harness_.fences_.back().victims, UnorderedElementsAre(a_.key_, third));
}

TEST_F(CoreFencingTest, AKeyAskedForTwiceGoesToTheLastRequest) {
  harness_.hold_fences_ = true;
  a_.Send(NewKeyOf());
  harness_.Run();
  ASSERT_EQ(a_.Resume(), 0);
  const std::uint64_t asked = a_.Send(NewKeyOf());
  harness_.Run();
  ASSERT_THAT(harness_.fences_, SizeIs(1));
  Fenced({.done = true});
  EXPECT_TRUE(a_.Answered(asked));
}

TEST_F(CoreFencingTest, AKeyThatWasNeverDeliveredIsFencedToo) {
  harness_.hold_fences_ = true;
  a_.Send(NewKeyOf());
  harness_.Run();
  Fenced({.problem = "no answer"});
  EXPECT_EQ(StateOf(a_.session_), "serving, waits for a key: no answer");
  ASSERT_TRUE(harness_.core_->EvictSession(SessionId(a_.session_), "a test").ok());
  harness_.Run();
  EXPECT_THAT(harness_.fences_.back().victims, SizeIs(2));
}

TEST_F(CoreFencingTest, UnownedKeysAreRemoved) {
  const std::uint64_t stray = MakeSessionKey(harness_.volume_.volume, reel::Epoch(Epoch()), 4711);
  harness_.core_->OnKeysSeen({a_.key_, stray, b_.key_});
  harness_.Run();
  ASSERT_THAT(harness_.fences_, SizeIs(1));
  EXPECT_THAT(harness_.fences_[0].victims, ElementsAre(stray));
  harness_.core_->OnKeysSeen({a_.key_, b_.key_});
  harness_.Run();
  EXPECT_THAT(harness_.fences_, SizeIs(1));
}

TEST_F(CoreFencingTest, AClientThatRegistersAnewIsFencedUnderItsOldKey) {
  const std::uint64_t old = a_.key_;
  a_.Register();
  EXPECT_NE(a_.key_, old);
  ASSERT_THAT(harness_.fences_, SizeIs(1));
  EXPECT_THAT(harness_.fences_[0].victims, ElementsAre(old));
  EXPECT_EQ(harness_.Sessions(), 2U);
  EXPECT_EQ(a_.Do(Client::GetAttrOf(1)), 0);
}

}  // namespace
}  // namespace reel::mdc
