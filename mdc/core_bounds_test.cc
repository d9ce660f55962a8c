// What one session may cost the controller, in bytes: of what it asks for, and of what it claims.
#include "mdc/core_world.h"
#include "mdc/lock_table.h"
#include "mdc/token_table.h"

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
    world_.Restart();
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

  World world_;
  Client a_{world_, 1}, b_{world_, 2};
};

TEST_F(CoreBoundsTest, RequestsThatWaitAreBoundedByTheirMemory) {
  BeginGrace();
  ASSERT_EQ(a_.Reclaim(), 0);
  const v1::Request large = Client::LookupOf(std::string(std::size_t{1} << 20, 'x'));
  int sent = 0;
  for (; sent < 1'000 && !a_.ended_; ++sent) {
    a_.Send(large);
    world_.Run();
  }
  EXPECT_GT(sent, 100);
  EXPECT_LT(sent, 150);
  EXPECT_EQ(a_.Answer(a_.last_id_).error(), EPROTO);
  // It is that stream's alone, and gone with it.
  ASSERT_EQ(a_.Resume(), 0);
  for (int i = 0; i < 50; ++i) a_.Send(large);
  world_.Run();
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
  for (int i = 0; i < 100'000; ++i) large.mutable_layout_return()->mutable_commit()->add_written();
  ASSERT_LT(large.ByteSizeLong(), 300'000u);
  std::uint32_t slot = 0;
  while (slot < 60 && !a_.ended_) {
    a_.SendIn(++slot, large);
    world_.Run();
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
    world_.hold_syncs_ = true;
    a_.SendIn(1, set);
    int sent = 0;
    for (bool refused = false; sent < 3'000 && !refused; ++sent) {
      const std::uint64_t id = a_.Send(get);
      world_.Run();
      refused = a_.Answered(id);
    }
    EXPECT_GT(sent, 1'000);
    EXPECT_LT(sent, 1'300);
    EXPECT_EQ(a_.Answer(a_.last_id_).error(), EPROTO);
    // The others go on, and so does this one when it is over.
    v1::Request renew;
    renew.mutable_renew();
    EXPECT_EQ(b_.Do(renew), 0);
    world_.hold_syncs_ = false;
    world_.Run();
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
  for (; goes_on && claimed < 4 * kMaxTokenPieces; claimed += kEach) {
    v1::Reclaim claims;
    for (int i = 0; i < kEach; ++i) {
      v1::HeldToken& token = *claims.add_tokens();
      token.set_inode(++inode);
      token.set_mode(v1::TOKEN_SHARED);
    }
    goes_on = Claims(claims);
  }
  EXPECT_FALSE(goes_on);
  EXPECT_GT(claimed, kMaxTokenPieces);
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

}  // namespace
}  // namespace reel::mdc
