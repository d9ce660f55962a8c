// A change takes effect once, and nothing is said before what it saw is durable.
#include "mdc/core/core.h"

#include "gmock/gmock.h"
#include "mdc/testing/core_harness.h"

namespace reel::mdc {
namespace {

using testing::ElementsAre;

class CoreRepliesTest : public testing::Test {
 protected:
  CoreHarness harness_;
  Client a_{harness_, 1}, b_{harness_, 2}, c_{harness_, 3};
};

TEST_F(CoreRepliesTest, ARepeatedMutationIsAnsweredFromItsReply) {
  a_.Register();
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(a_.Resume(), 0);
  --a_.sequences_[1];
  EXPECT_EQ(a_.Create("file"), inode);
  EXPECT_EQ(harness_.Counter("operation.repetitions"), 1u);
}

TEST_F(CoreRepliesTest, ARepeatedMutationIsAnsweredAfterARestartToo) {
  a_.Register();
  const std::uint64_t inode = a_.Create("file", /*open=*/true);
  ASSERT_EQ(a_.Do(Client::UnlinkOf("file"), true), 0);
  harness_.Restart();
  ASSERT_EQ(a_.Resume(), 0);
  EXPECT_TRUE(a_.must_reclaim_);
  v1::Reclaim reclaim;
  reclaim.add_opens(inode);
  ASSERT_EQ(a_.Reclaim(reclaim), 0);
  --a_.sequences_[1];
  EXPECT_EQ(a_.Do(Client::UnlinkOf("file"), true), 0);  // done once; not ENOENT
  EXPECT_EQ(a_.Do(Client::UnlinkOf("file"), true), ENOENT);
}

TEST_F(CoreRepliesTest, AnOpenThatCameWithACreateIsMadeAnewForItsRepetition) {
  a_.Register();
  harness_.hold_syncs_ = true;
  const std::uint64_t id = a_.SendIn(1, Client::CreateOf("file", /*open=*/true));
  harness_.Run();
  EXPECT_FALSE(a_.Answered(id));  // the controller dies before it answers
  harness_.Restart();
  ASSERT_EQ(a_.Resume(), 0);
  ASSERT_EQ(a_.Reclaim(), 0);
  --a_.sequences_[1];
  const std::uint64_t inode = a_.Create("file", /*open=*/true);
  ASSERT_EQ(a_.Do(Client::UnlinkOf("file"), true), 0);
  harness_.Pass(500, {&a_});
  EXPECT_EQ(a_.Do(Client::GetAttrOf(inode)), 0);  // still open
}

TEST_F(CoreRepliesTest,
       ARemovalThatWaitsForTheEndOfGraceIsNotQuickerThanARepeatedCreateWithItsOpen) {
  a_.Register();
  b_.Register();
  harness_.hold_syncs_ = true;
  (void)a_.SendIn(1, Client::CreateOf("file", /*open=*/true));
  harness_.Run();
  harness_.Restart();
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  const std::uint64_t removal = b_.SendIn(1, Client::UnlinkOf("file"));
  ASSERT_EQ(a_.Resume(), 0);
  ASSERT_EQ(a_.Reclaim(), 0);  // the last one
  harness_.Pass(100, {&a_, &b_});
  EXPECT_TRUE(b_.Answered(removal));
  --a_.sequences_[1];
  const std::uint64_t inode = a_.Create("file", /*open=*/true);
  harness_.Pass(1000, {&a_, &b_});
  EXPECT_EQ(a_.Do(Client::GetAttrOf(inode)), 0);  // still open
}

TEST_F(CoreRepliesTest, AFailedMutationIsRepeatedWithItsError) {
  a_.Register();
  EXPECT_EQ(a_.Do(Client::UnlinkOf("none"), true), ENOENT);
  b_.Register();
  b_.Create("none");
  --a_.sequences_[1];
  EXPECT_EQ(a_.Do(Client::UnlinkOf("none"), true), ENOENT);
  EXPECT_EQ(a_.Do(Client::UnlinkOf("none"), true), 0);
}

TEST_F(CoreRepliesTest, SlotsAndSequencesThatNoClientSendsEndTheStream) {
  const auto refused = [&](std::uint32_t slot, std::uint64_t sequence) {
    a_.Register();
    a_.sequences_.clear();
    a_.Create(absl::StrCat("file", slot, ".", sequence));
    v1::Request request = Client::CreateOf("other");
    request.set_slot(slot);
    request.set_slot_sequence(sequence);
    return a_.Do(request) == EPROTO && a_.ended_;
  };
  EXPECT_TRUE(refused(0, 0));   // none
  EXPECT_TRUE(refused(65, 1));  // beyond what was given
  EXPECT_TRUE(refused(1, 3));   // jumps
  EXPECT_TRUE(refused(2, 2));   // does not begin with 1
  EXPECT_TRUE(refused(2, 0));
  a_.Register();
  a_.sequences_.clear();
  a_.Create("x1");
  a_.Create("x2");
  --a_.sequences_[1], --a_.sequences_[1];
  EXPECT_EQ(a_.Do(Client::CreateOf("x1"), true), EPROTO);  // goes back
}

TEST_F(CoreRepliesTest, AnUnknownOperationIsAnErrorOfItsOwn) {
  a_.Register();
  EXPECT_EQ(a_.Do(v1::Request()), EOPNOTSUPP);
  EXPECT_EQ(a_.Do(Client::GetAttrOf(1)), 0);
}

TEST_F(CoreRepliesTest, RepliesWaitForTheChangesThatTheySawOnly) {
  a_.Register();
  const std::uint64_t old = a_.Create("old");
  harness_.hold_syncs_ = true;
  const std::uint64_t create = a_.SendIn(1, Client::CreateOf("new"));
  const std::uint64_t untouched = a_.Send(Client::GetAttrOf(old));
  const std::uint64_t changed = a_.Send(Client::GetAttrOf(1));
  harness_.Run();
  EXPECT_FALSE(a_.Answered(create));
  EXPECT_TRUE(a_.Answered(untouched));
  EXPECT_FALSE(a_.Answered(changed));  // it shows the directory's new times
  harness_.hold_syncs_ = false;
  harness_.Run();
  EXPECT_TRUE(a_.Answered(create));
  EXPECT_TRUE(a_.Answered(changed));
}

TEST_F(CoreRepliesTest, ARecallNeverOvertakesItsGrant) {
  a_.Register();
  b_.Register();
  const std::uint64_t inode = a_.Create("file");
  a_.log_.clear();
  harness_.hold_syncs_ = true;
  const std::uint64_t grant =
      a_.SendIn(2, Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE, /*allocate=*/true));
  b_.Send(Client::LayoutOf(inode, v1::TOKEN_SHARED));
  harness_.Run();
  EXPECT_TRUE(a_.log_.empty());
  harness_.hold_syncs_ = false;
  harness_.Run();
  EXPECT_THAT(a_.log_, ElementsAre(absl::StrCat("reply ", grant), absl::StrCat("recall ", inode)));
}

TEST_F(CoreRepliesTest, NorThoseOfAListing) {
  for (Client* client : {&a_, &b_, &c_}) client->Register();
  c_.Create("first");
  const std::uint64_t second = c_.Create("second");
  a_.log_.clear();
  harness_.hold_syncs_ = true;
  c_.SendIn(1, Client::CreateOf("new"));
  const std::uint64_t listing = a_.Send(Client::ListAheadOf());
  b_.Send(Client::LayoutOf(second, v1::TOKEN_EXCLUSIVE));
  harness_.Run();
  EXPECT_TRUE(a_.log_.empty()) << "it saw the new name";
  harness_.hold_syncs_ = false;
  harness_.Run();
  EXPECT_THAT(a_.log_,
              ElementsAre(absl::StrCat("reply ", listing), absl::StrCat("recall ", second)));
}

}  // namespace
}  // namespace reel::mdc
