// Sessions that renew their leases and answer no recall: when they are evicted, and when not.
#include "gmock/gmock.h"
#include "mdc/base/fence_times.h"
#include "mdc/testing/core_harness.h"

namespace reel::mdc {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

class CoreRecallsTest : public testing::Test {
 protected:
  CoreRecallsTest() : CoreRecallsTest(/*reservations=*/true) {}
  explicit CoreRecallsTest(bool reservations) {
    harness_.options_.reservations = reservations;
    harness_.Restart();
    harness_.core_->OnLunsSeen({});
    a_.Register();
    b_.Register();
    file_ = a_.Create("file");
  }

  // a_ writes the file, b_ wants to read it.
  void Recall() {
    ASSERT_EQ(a_.Do(Client::LayoutOf(file_, v1::TOKEN_EXCLUSIVE, /*allocate=*/true), true), 0);
    wanted_ = b_.Send(Client::LayoutOf(file_, v1::TOKEN_SHARED));
    harness_.Run();
    ASSERT_THAT(a_.recalls_, SizeIs(1));
  }
  void Say(Client& client, bool any, std::uint32_t stalled_ms, const std::string& trouble = "") {
    v1::Request request;
    v1::RecallWork& work = *request.mutable_renew()->mutable_work();
    work.set_any(any);
    work.set_stalled_ms(stalled_ms);
    work.set_trouble(trouble);
    EXPECT_EQ(client.Do(request), 0);
  }
  int GiveUp(Client& client) {
    v1::Request request;
    request.mutable_give_up()->set_lun(harness_.volume_.seat_lun.ToBytes());
    request.mutable_give_up()->set_reason("lun0: no route");
    return client.Do(request);
  }
  void Pass(std::uint64_t ms) { harness_.Pass(ms, {&a_, &b_}); }
  bool BReads() const { return b_.Answered(wanted_) && b_.Answer(wanted_).error() == 0; }
  std::vector<std::string> Alarms() const {
    v1::ShowReply show;
    harness_.core_->Describe(show);
    EXPECT_EQ(show.alarms_size(), show.alarm_kinds_size()) << "each has a kind";
    return {show.alarms().begin(), show.alarms().end()};
  }

  static constexpr std::uint64_t kLeaseMs = 10'000;
  static constexpr std::uint64_t kLimitMs = RecallLimitMs(kLeaseMs);
  CoreHarness harness_;
  Client a_{harness_, 1}, b_{harness_, 2}, c_{harness_, 3};
  std::uint64_t file_ = 0;
  std::uint64_t wanted_ = 0;
};

TEST_F(CoreRecallsTest, ASessionThatAnswersNoRecallIsEvictedThoughItRenews) {
  Recall();
  Pass(kLimitMs - 1'000);
  EXPECT_FALSE(a_.evicted_);
  EXPECT_THAT(Alarms(), ElementsAre(HasSubstr("session 1 of host1 has not answered a recall")));
  Pass(2'000);
  EXPECT_TRUE(a_.evicted_);
  ASSERT_THAT(harness_.fences_, SizeIs(1));
  EXPECT_THAT(harness_.fences_[0].victims, ElementsAre(a_.key_));
  EXPECT_FALSE(BReads()) << "its client may read until its lease is over";
  Pass(kLeaseMs);
  EXPECT_TRUE(BReads());
  EXPECT_THAT(Alarms(), ElementsAre(HasSubstr("session 1 of host1 was evicted: it has not "
                                              "answered a recall for 60 s")));
}

TEST_F(CoreRecallsTest, ASessionThatProgressesIsNotEvictedSoon) {
  Recall();
  for (std::uint64_t past_ms = 0; past_ms < RecallMostMs(kLeaseMs) - 10'000; past_ms += 5'000) {
    Say(a_, true, kLimitMs / 2 - 1);
    Pass(5'000);
    ASSERT_FALSE(a_.evicted_) << past_ms;
  }
  for (int i = 0; i < 3; ++i) {
    if (!a_.evicted_) Say(a_, true, 0);
    Pass(5'000);
  }
  EXPECT_TRUE(a_.evicted_) << "not for ever";
}

TEST_F(CoreRecallsTest, AStalledSessionIsEvictedSoon) {
  Recall();
  Pass(kLimitMs - 1'000);
  Say(a_, true, kLimitMs / 2, "lun0: no route");
  EXPECT_THAT(Alarms(), SizeIs(2));
  Pass(2'000);
  EXPECT_TRUE(a_.evicted_);
  Pass(kLeaseMs);
  EXPECT_THAT(Alarms(), ElementsAre(HasSubstr("lun0: no route")));
}

TEST_F(CoreRecallsTest, ASessionThatForgotTheRecallIsEvictedSoon) {
  Recall();
  Pass(kLimitMs - 1'000);
  Say(a_, false, 0);
  Pass(2'000);
  EXPECT_TRUE(a_.evicted_);
}

TEST_F(CoreRecallsTest, RecallsThatAreAnsweredDoNotAdd) {
  Recall();
  const std::uint64_t until_ms = harness_.clock_.now_ms + 2 * kLimitMs;
  while (harness_.clock_.now_ms <
         until_ms) {  // the file goes to and fro, each answer takes a while
    Pass(3'000);
    ASSERT_EQ(a_.Do(Client::ReturnOf(file_), true), 0);
    ASSERT_TRUE(BReads());
    const std::uint64_t back = a_.SendIn(1, Client::LayoutOf(file_, v1::TOKEN_EXCLUSIVE, true));
    harness_.Run();
    Pass(3'000);
    ASSERT_EQ(b_.Do(Client::ReturnOf(file_), true), 0);
    ASSERT_TRUE(a_.Answered(back));
    wanted_ = b_.Send(Client::LayoutOf(file_, v1::TOKEN_SHARED));
    harness_.Run();
  }
  EXPECT_FALSE(a_.evicted_);
  EXPECT_FALSE(b_.evicted_);
}

TEST_F(CoreRecallsTest, ASessionThatWaitsForAnotherGetsTwiceTheTime) {
  Recall();
  c_.Register();
  ASSERT_EQ(c_.Do(Client::CreateOf("other"), true), 0);
  const std::uint64_t other = c_.last_.entry().attr().inode();
  ASSERT_EQ(c_.Do(Client::LayoutOf(other, v1::TOKEN_EXCLUSIVE), false), 0);
  a_.Send(Client::LayoutOf(other, v1::TOKEN_SHARED));
  harness_.Run();
  harness_.Pass(kLimitMs + 1'000, {&a_, &b_, &c_});
  EXPECT_FALSE(a_.evicted_);
  EXPECT_TRUE(c_.evicted_);
}

TEST_F(CoreRecallsTest, ASessionThatGivesUpIsEvictedAtOnce) {
  Recall();
  EXPECT_EQ(GiveUp(a_), EAGAIN) << "nobody waits for long";
  Pass(kLeaseMs / 2);
  harness_.core_->OnLunsSeen({});
  EXPECT_EQ(GiveUp(a_), -1);
  EXPECT_TRUE(a_.evicted_);
  ASSERT_THAT(harness_.fences_, SizeIs(1));
  EXPECT_FALSE(BReads());
  harness_.Pass(GaveUpMs(kLeaseMs) + 100, {&b_});
  EXPECT_TRUE(BReads()) << "its lease is over by its own clock";
  EXPECT_THAT(Alarms(), ElementsAre(HasSubstr("lun0: no route")));
}

class CoreRecallsWithoutReservationsTest : public CoreRecallsTest {
 protected:
  CoreRecallsWithoutReservationsTest() : CoreRecallsTest(/*reservations=*/false) {}
};

TEST_F(CoreRecallsWithoutReservationsTest, TheLeaseIsWaitedOut) {
  Recall();
  Pass(kLeaseMs / 2);
  EXPECT_EQ(GiveUp(a_), -1);
  EXPECT_TRUE(a_.evicted_);
  harness_.Pass(kLeaseMs - 200, {&b_});
  EXPECT_FALSE(BReads());
  harness_.Pass(400, {&b_});
  EXPECT_TRUE(BReads());
}

TEST_F(CoreRecallsTest, NoSessionIsEvictedForALunThatTheControllerLost) {
  Recall();
  Pass(kLeaseMs);
  harness_.core_->OnLunsSeen({harness_.volume_.seat_lun});
  EXPECT_EQ(GiveUp(a_), EAGAIN);
  Pass(2 * kLimitMs);
  EXPECT_EQ(GiveUp(a_), EAGAIN);
  EXPECT_FALSE(a_.evicted_);
  harness_.core_->OnLunsSeen({});
  EXPECT_EQ(GiveUp(a_), -1);
  EXPECT_TRUE(a_.evicted_);
}

TEST_F(CoreRecallsTest, AnOldProbeOfTheLunsDoesNotCount) {
  Recall();
  Pass(kLeaseMs);  // a look that has no answer yet
  EXPECT_EQ(GiveUp(a_), EAGAIN);
  EXPECT_FALSE(a_.evicted_);
}

TEST_F(CoreRecallsTest, AnAttributeTokenIsToBeReturnedToo) {
  a_.caches_ = true;
  ASSERT_EQ(a_.Resume(), 0);
  harness_.Tick();
  ASSERT_EQ(a_.Do(Client::LookupOf("file")), 0);
  v1::Request chmod;
  chmod.mutable_set_attr()->set_inode(file_);
  chmod.mutable_set_attr()->set_fields(v1::SetAttr::MODE);
  chmod.mutable_set_attr()->set_mode(0600);
  const std::uint64_t wanted = b_.SendIn(1, chmod);
  harness_.Run();
  ASSERT_THAT(a_.attr_recalls_, ElementsAre(file_));
  Pass(kLimitMs + kLeaseMs + 1'000);
  EXPECT_TRUE(a_.evicted_);
  ASSERT_TRUE(b_.Answered(wanted));
  EXPECT_EQ(b_.Answer(wanted).error(), 0);
  EXPECT_FALSE(b_.evicted_);
  EXPECT_THAT(b_.recalls_, IsEmpty());
}

}  // namespace
}  // namespace reel::mdc
