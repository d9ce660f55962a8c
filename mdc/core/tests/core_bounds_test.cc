// What one session may cost the controller, in bytes: of what it asks for, and of what it claims.
#include "mdc/base/progress.h"
#include "mdc/tables/lock_table.h"
#include "mdc/tables/token_table.h"
#include "mdc/testing/core_harness.h"

namespace reel::mdc {
namespace {

class CoreBoundsTest : public testing::Test {
 protected:
  CoreBoundsTest() {
    a_.Register();
    b_.Register();
  }
  // b_ holds up grace; a_ has claimed nothing yet.
  void BeginGrace() {
    harness_.Restart();
    ASSERT_EQ(a_.Resume(), 0);
  }
  // Whether a_ may go on after these claims.
  bool Claims(const v1::Reclaim& claims) {
    v1::Request request;
    *request.mutable_reclaim() = claims;
    EXPECT_LT(request.ByteSizeLong(), std::size_t{4} << 20);  // one message
    const int error = a_.Do(request);
    return error == 0 && !a_.evicted_;
  }

  CoreHarness harness_;
  Client a_{harness_, 1}, b_{harness_, 2};
};

TEST_F(CoreBoundsTest, RequestsThatWaitAreBoundedByTheirMemory) {
  BeginGrace();
  ASSERT_EQ(a_.Reclaim(), 0);
  const v1::Request large = Client::LookupOf(std::string(std::size_t{1} << 20, 'x'));
  int sent = 0;
  for (; sent < 1'000 && !a_.ended_; ++sent) {
    a_.Send(large);
    harness_.Run();
  }
  EXPECT_GT(sent, 350);
  EXPECT_LT(sent, 400);
  EXPECT_EQ(a_.Answer(a_.last_id_).error(), EPROTO);
  // It is that stream's alone, and gone with it.
  ASSERT_EQ(a_.Resume(), 0);
  for (int i = 0; i < 200; ++i) a_.Send(large);
  harness_.Run();
  EXPECT_FALSE(a_.ended_);
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  EXPECT_EQ(a_.Answer(a_.last_id_).error(), ENAMETOOLONG);
  // What was answered is forgotten.
  for (int i = 0; i < 300; ++i) EXPECT_EQ(a_.Do(large), ENAMETOOLONG);
}

TEST_F(CoreBoundsTest, MessagesOfManyPartsCountWithWhatTheyTakeInMemory) {
  BeginGrace();
  ASSERT_EQ(a_.Reclaim(), 0);
  v1::Request large;
  for (int i = 0; i < 100'000; ++i) large.mutable_layout_commit()->add_written();
  ASSERT_LT(large.ByteSizeLong(), 300'000u);
  std::uint32_t slot = 0;
  while (slot < CoreOptions::kMostSlots && !a_.ended_) {
    a_.SendIn(++slot, large);
    harness_.Run();
  }
  EXPECT_TRUE(a_.ended_);
}

// As where a LUN with metadata hangs.
TEST_F(CoreBoundsTest, AnswersThatWaitToBecomeDurableAreBounded) {
  v1::Request set;
  set.mutable_set_xattr()->set_inode(1);
  set.mutable_set_xattr()->set_name("user.large");
  set.mutable_set_xattr()->set_value(std::string(60'000, 'x'));
  v1::Request get;
  get.mutable_get_xattr()->set_inode(1);
  get.mutable_get_xattr()->set_name("user.large");
  for (int round = 0; round < 2; ++round) {
    harness_.hold_syncs_ = true;
    a_.SendIn(1, set);
    int sent = 0;
    for (bool refused = false; sent < 3'000 && !refused; ++sent) {
      const std::uint64_t id = a_.Send(get);
      harness_.Run();
      refused = a_.Answered(id);
    }
    EXPECT_GT(sent, 1'000);
    EXPECT_LT(sent, 1'300);
    EXPECT_EQ(a_.Answer(a_.last_id_).error(), EPROTO);
    // The others go on, and so does this one when it is over.
    v1::Request renew;
    renew.mutable_renew();
    EXPECT_EQ(b_.Do(renew), 0);
    harness_.hold_syncs_ = false;
    harness_.Run();
    EXPECT_TRUE(a_.ended_);
    ASSERT_EQ(a_.Resume(), 0);
    for (int i = 0; i < 1'500; ++i) EXPECT_EQ(a_.Do(get), 0);
  }
}

TEST_F(CoreBoundsTest, OpensThatAreClaimedAreBounded) {
  BeginGrace();
  std::uint64_t inode = 1;
  v1::Reclaim claims;
  for (std::uint64_t i = 0; i < kMaxOpens / 2; ++i) claims.add_opens(++inode);
  EXPECT_TRUE(Claims(claims));
  EXPECT_TRUE(Claims(claims));  // the same ones
  claims.clear_opens();
  for (std::uint64_t i = 0; i < kMaxOpens / 2; ++i) claims.add_opens(++inode);
  EXPECT_TRUE(Claims(claims));
  claims.clear_opens();
  claims.add_opens(++inode);
  EXPECT_FALSE(Claims(claims));
}

TEST_F(CoreBoundsTest, TokensThatAreClaimedAreBounded) {
  BeginGrace();
  std::uint64_t inode = 1;
  bool goes_on = true;
  std::uint64_t claimed = 0;
  constexpr int kEach = 200'000;
  for (; goes_on && claimed < 4 * kMaxTokenRanges; claimed += kEach) {
    v1::Reclaim claims;
    for (int i = 0; i < kEach; ++i) {
      v1::HeldToken& token = *claims.add_tokens();
      token.set_inode(++inode);
      token.set_mode(v1::TOKEN_SHARED);
    }
    goes_on = Claims(claims);
  }
  EXPECT_FALSE(goes_on);
  EXPECT_GT(claimed, kMaxTokenRanges);
}

TEST_F(CoreBoundsTest, LocksThatAreClaimedAreBounded) {
  BeginGrace();
  std::uint64_t inode = 1;
  bool goes_on = true;
  std::uint64_t claimed = 0;
  constexpr int kEach = 100'000;
  for (; goes_on && claimed < 4 * kMaxLocks; claimed += kEach) {
    v1::Reclaim claims;
    for (int i = 0; i < kEach; ++i) {
      v1::FileLock& lock = *claims.add_locks();
      lock.set_inode(++inode);
      lock.set_owner(1);
      lock.set_type(v1::LOCK_SHARED);
      lock.set_last(1);
    }
    goes_on = Claims(claims);
  }
  EXPECT_FALSE(goes_on);
  EXPECT_GT(claimed, kMaxLocks);
}

// ---- sessions that hold a million
// ----------------------------------------------------------------------------------

class HoldingsTest : public CoreBoundsTest {
 protected:
  static constexpr std::uint64_t kMany = 1'000'000;
  static constexpr std::uint64_t kLocked = 100'000;
  static constexpr std::uint64_t kTotal = kMany + kMany / 2 + kLocked;

  // In a new epoch a_ claims tokens of a million inodes, half of them open, and locks.
  void ClaimMany() {
    file_ = a_.Create("file", true);
    harness_.options_.session_lease_ms = 60'000;
    BeginGrace();
    for (std::uint64_t inode = file_; inode < file_ + kMany;) {
      v1::Reclaim claims;
      for (std::uint64_t i = 0; i < kMany / 5; ++i, ++inode) {
        claims.add_tokens()->set_inode(inode);
        claims.mutable_tokens(static_cast<int>(i))->set_mode(v1::TOKEN_EXCLUSIVE);
        if (i % 2 == 0) claims.add_opens(inode);
      }
      ASSERT_TRUE(Claims(claims));
    }
    v1::Reclaim locks;
    for (std::uint64_t i = 0; i < kLocked; ++i) {
      v1::FileLock& lock = *locks.add_locks();
      lock.set_inode(file_ + i);
      lock.set_owner(1);
      lock.set_type(v1::LOCK_EXCLUSIVE);
      lock.set_last(1);
    }
    ASSERT_TRUE(Claims(locks));
    ASSERT_EQ(b_.Resume(), 0);
    ASSERT_EQ(b_.Reclaim(), 0);
  }
  std::uint64_t Released() const { return harness_.Counter("session.released"); }
  // Turns of the core until all of it is given away: each gives a part.
  void ExpectReleaseInSteps() {
    std::uint64_t released = Released();
    EXPECT_LE(released, kStepHoldings);
    std::uint64_t turns = 1;
    for (; released < kTotal && turns < 1'000; ++turns) {
      harness_.Tick();
      EXPECT_LE(Released() - released, kStepHoldings);
      released = Released();
    }
    EXPECT_GE(turns, kTotal / kStepHoldings);
    EXPECT_EQ(released, kTotal);
  }

  std::uint64_t file_ = 0;
};

TEST_F(HoldingsTest, AnEndedSessionsHoldingsAreReleasedInSteps) {
  ClaimMany();
  ASSERT_EQ(a_.Reclaim(), 0);
  const std::uint64_t get = b_.Send(Client::LayoutOf(file_, v1::TOKEN_EXCLUSIVE));
  harness_.Run();
  EXPECT_FALSE(b_.Answered(get));
  harness_.hold_syncs_ = true;  // the next step follows a sync, or a tick
  v1::Request goodbye;
  goodbye.mutable_goodbye();
  a_.Send(goodbye);
  harness_.Run();
  EXPECT_TRUE(b_.Answered(get));
  EXPECT_EQ(b_.Do(Client::LookupOf("nothing")), ENOENT);
  ExpectReleaseInSteps();
}

TEST_F(HoldingsTest, StepsFollowSyncsAndNeedNoTick) {
  ClaimMany();
  ASSERT_EQ(a_.Reclaim(), 0);
  v1::Request goodbye;
  goodbye.mutable_goodbye();
  a_.Send(goodbye);
  harness_.Run();
  EXPECT_EQ(Released(), kTotal);
}

TEST_F(HoldingsTest, ClaimsOfAResumedSessionAreForgottenInSteps) {
  ClaimMany();
  harness_.hold_syncs_ = true;
  EXPECT_EQ(a_.Resume(), -1);  // they would be mixed with the new ones
  const std::uint64_t hello = a_.last_id_;
  ExpectReleaseInSteps();
  harness_.Tick();
  ASSERT_TRUE(a_.Answered(hello));
  EXPECT_EQ(a_.Answer(hello).error(), 0);
  v1::Reclaim claims;
  claims.add_tokens()->set_inode(file_);
  claims.mutable_tokens(0)->set_mode(v1::TOKEN_EXCLUSIVE);
  ASSERT_EQ(a_.Reclaim(claims), 0);
  harness_.Tick();
  v1::WhoReply who;
  harness_.core_->Describe(who);
  EXPECT_EQ(who.sessions(0).tokens(), 1u);
}

TEST_F(HoldingsTest, RecallsAreSentAgainInSteps) {
  constexpr std::uint64_t kFiles = 8'000;
  Client c{harness_, 3};
  c.Register();
  std::vector<std::uint64_t> files;
  for (std::uint64_t i = 0; i < kFiles; ++i) {
    files.push_back(a_.Create(absl::StrCat("file", i)));
    ASSERT_EQ(a_.Do(Client::LayoutOf(files.back(), v1::TOKEN_EXCLUSIVE)), 0);
  }
  a_.Disconnect();
  for (std::uint64_t i = 0; i < kFiles; ++i) {
    (i < kFiles / 2 ? b_ : c).Send(Client::LayoutOf(files[i], v1::TOKEN_SHARED));
  }
  harness_.Run();
  ASSERT_TRUE(a_.recalls_.empty());
  harness_.hold_syncs_ = true;
  ASSERT_EQ(a_.Resume(), 0);
  harness_.Tick();
  EXPECT_EQ(a_.recalls_.size(), kStepHoldings);
  harness_.Tick();
  ASSERT_EQ(a_.recalls_.size(), kFiles);
  for (std::uint64_t i = 0; i < kFiles; ++i) EXPECT_EQ(a_.recalls_[i].inode(), files[i]);
  harness_.Tick();
  EXPECT_EQ(a_.recalls_.size(), kFiles);
}

}  // namespace
}  // namespace reel::mdc
