// What a session is told before it is durable: to whom, what waits for it, and how it is made good
// when the epoch ends before.
#include <gtest/gtest.h>

#include <cerrno>

#include "mdc/testing/core_harness.h"

namespace reel::mdc {
namespace {

class EarlyRepliesTest : public testing::Test {
 protected:
  EarlyRepliesTest() {
    harness_.options_.names = NameReplies::kEarly;
    harness_.Restart();
    for (Client* client : {&a_, &b_}) {
      client->features_ = v1::FEATURE_EARLY_REPLY;
      client->Register();
    }
    harness_.Run();
  }
  // With syncs held up: what is told now is not durable.
  const v1::Reply& ReplyEarly(Client& client, std::uint32_t slot, v1::Request request) {
    harness_.hold_syncs_ = true;
    const std::uint64_t id = client.SendIn(slot, std::move(request));
    harness_.Run();
    EXPECT_TRUE(client.Answered(id));
    return client.replies_[id];
  }
  static v1::Request SyncRequest() {
    v1::Request request;
    request.mutable_sync();
    return request;
  }
  static v1::Request ReplayOf(v1::Request request, std::uint64_t inode, std::int64_t seconds) {
    request.mutable_replay()->set_inode(inode);
    request.mutable_replay()->set_generation(77);
    request.mutable_replay()->mutable_time()->set_seconds(seconds);
    return request;
  }
  CoreHarness harness_;
  Client a_{harness_, 1}, b_{harness_, 2};
};

TEST_F(EarlyRepliesTest, OnlyItsOwnSessionGetsAnEarlyReply) {
  const v1::Reply reply = ReplyEarly(a_, 1, Client::CreateOf("file"));
  ASSERT_TRUE(reply.has_early());
  EXPECT_GT(reply.sequence(), reply.early().durable());
  EXPECT_EQ(a_.Do(Client::LookupOf("file")), 0);  // it knows already
  EXPECT_FALSE(a_.last_.has_early());
  const std::uint64_t other = b_.Send(Client::LookupOf("file"));
  const std::uint64_t gone = b_.Send(Client::LookupOf("never"));
  harness_.Run();
  EXPECT_FALSE(b_.Answered(other));
  EXPECT_FALSE(b_.Answered(gone));  // the directory is not what it was
  harness_.hold_syncs_ = false;
  harness_.Run();
  EXPECT_EQ(b_.Answer(other).error(), 0);
  EXPECT_EQ(b_.Answer(gone).error(), ENOENT);
}

TEST_F(EarlyRepliesTest, AReplyThatSawAnothersChangeWaitsForIt) {
  ReplyEarly(a_, 1, Client::CreateOf("one"));
  const std::uint64_t late = b_.SendIn(1, Client::CreateOf("two"));  // in the same directory
  harness_.Run();
  EXPECT_FALSE(b_.Answered(late));
  // … and so does the first one, as soon as it builds on that.
  const std::uint64_t later = a_.SendIn(2, Client::CreateOf("three"));
  harness_.Run();
  EXPECT_FALSE(a_.Answered(later));
  harness_.hold_syncs_ = false;
  harness_.Run();
  EXPECT_TRUE(b_.Answered(late) && a_.Answered(later));
  EXPECT_FALSE(a_.Answer(later).has_early());
}

TEST_F(EarlyRepliesTest, NoReplyIsOvertakenByAnEarlyOne) {
  v1::Request mkdir = Client::CreateOf("dir");
  mkdir.mutable_create()->set_mode(S_IFDIR | 0755);
  ASSERT_EQ(a_.Do(std::move(mkdir), true), 0);
  v1::Request change = Client::CreateOf("file");
  change.mutable_create()->set_parent(a_.last_.entry().attr().inode());
  ReplyEarly(b_, 1, Client::CreateOf("one"));
  const std::uint64_t look = a_.Send(Client::LookupOf("one"));
  const std::uint64_t changed = a_.SendIn(2, std::move(change));
  harness_.Run();
  EXPECT_FALSE(a_.Answered(look) || a_.Answered(changed));
}

TEST_F(EarlyRepliesTest, VolumeCountersDelayNoEarlyReply) {
  ASSERT_EQ(b_.Do(Client::CreateOf("below"), true), 0);
  v1::Request below = Client::CreateOf("file");
  v1::Request mkdir = Client::CreateOf("dir");
  mkdir.mutable_create()->set_mode(S_IFDIR | 0755);
  ASSERT_EQ(b_.Do(std::move(mkdir), true), 0);
  below.mutable_create()->set_parent(b_.last_.entry().attr().inode());
  EXPECT_TRUE(ReplyEarly(a_, 1, Client::CreateOf("one")).has_early());
  EXPECT_TRUE(ReplyEarly(b_, 2, std::move(below)).has_early());  // inodes are counted by both
}

TEST_F(EarlyRepliesTest, SyncWaitsForAllEarlyReplies) {
  ReplyEarly(a_, 1, Client::CreateOf("file"));
  const std::uint64_t sync = a_.Send(SyncRequest());
  const std::uint64_t repeated = a_.Send(SyncRequest());
  harness_.Run();
  EXPECT_FALSE(a_.Answered(sync) || a_.Answered(repeated));
  harness_.hold_syncs_ = false;
  harness_.Run();
  EXPECT_TRUE(a_.Answered(sync) && a_.Answered(repeated));
  EXPECT_EQ(a_.Do(SyncRequest()), 0);
}

TEST_F(EarlyRepliesTest, AnEarlyReplyAsksForNoSync) {
  a_.SendIn(1, Client::CreateOf("file"));
  EXPECT_FALSE(harness_.core_->TakeOutputs().wants_sync);
  harness_.core_->OnTick();
  EXPECT_TRUE(harness_.core_->TakeOutputs().wants_sync);
  a_.SendIn(2, Client::CreateOf("other"));
  EXPECT_FALSE(harness_.core_->TakeOutputs().wants_sync);
  b_.Send(Client::LookupOf("file"));
  EXPECT_TRUE(harness_.core_->TakeOutputs().wants_sync);
}

TEST_F(EarlyRepliesTest, SizesAreAnsweredWhenTheyAreDurable) {
  const std::uint64_t inode = a_.Create("file");
  v1::Request truncate;
  truncate.mutable_set_attr()->set_inode(inode);
  truncate.mutable_set_attr()->set_fields(v1::SetAttr::SIZE);
  truncate.mutable_set_attr()->set_size_bytes(5);
  harness_.hold_syncs_ = true;
  const std::uint64_t id = a_.SendIn(1, std::move(truncate));
  harness_.Run();
  EXPECT_FALSE(a_.Answered(id));
}

TEST_F(EarlyRepliesTest, EarlyRepliesNeedTheConfiguration) {
  harness_.options_.names = NameReplies::kDurable;
  harness_.Restart();
  ASSERT_EQ(a_.Resume(), 0);
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(a_.Reclaim(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  harness_.hold_syncs_ = true;
  const std::uint64_t id = a_.SendIn(1, Client::CreateOf("file"));
  harness_.Run();
  EXPECT_FALSE(a_.Answered(id));
}

TEST_F(EarlyRepliesTest, ClientsWithoutTheFeatureWait) {
  Client old(harness_, 3);
  old.Register();
  harness_.hold_syncs_ = true;
  const std::uint64_t id = old.SendIn(1, Client::CreateOf("file"));
  harness_.Run();
  EXPECT_FALSE(old.Answered(id));
}

TEST_F(EarlyRepliesTest, AReplayHasTheEarlyReplysOutcome) {
  const std::uint64_t inode = a_.Create("before") + 10;
  harness_.Restart();
  ASSERT_EQ(a_.Resume(), 0);
  ASSERT_EQ(b_.Resume(), 0);
  // In the way of the replay, if it came first.
  ASSERT_EQ(b_.Reclaim(), 0);
  const std::uint64_t other = b_.SendIn(1, Client::CreateOf("file"));
  const std::uint64_t replay = a_.SendIn(2, ReplayOf(Client::CreateOf("file"), inode, 1234));
  harness_.Run();
  ASSERT_TRUE(a_.Answered(replay));
  EXPECT_TRUE(a_.Answer(replay).replayed());
  EXPECT_FALSE(a_.Answer(replay).has_early());
  const v1::Attr attr = a_.Answer(replay).entry().attr();
  EXPECT_EQ(attr.inode(), inode);
  EXPECT_EQ(attr.generation(), 77u);
  EXPECT_EQ(attr.ctime().seconds(), 1234);
  EXPECT_FALSE(b_.Answered(other)) << "grace is not over";
  ASSERT_EQ(a_.Reclaim(), 0);
  EXPECT_EQ(b_.Answer(other).error(), EEXIST);
  EXPECT_GT(b_.Create("new"), inode);
}

// Who holds the file in the new epoch is not known yet.
TEST_F(EarlyRepliesTest, AReplayedRemovalFreesNoReclaimedBlocks) {
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(b_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE, true)), 0);
  const std::uint64_t free_blocks = harness_.FreeBlocks();
  harness_.Restart();  // a was told of the removal, and that was not durable
  ASSERT_EQ(a_.Resume(), 0);
  ASSERT_EQ(a_.Do(ReplayOf(Client::UnlinkOf("file"), 0, 1234), true), 0);
  ASSERT_EQ(a_.Reclaim(), 0);
  ASSERT_EQ(b_.Resume(), 0);
  v1::Reclaim claims;
  claims.add_tokens()->set_inode(inode);
  claims.mutable_tokens(0)->set_mode(v1::TOKEN_EXCLUSIVE);
  ASSERT_EQ(b_.Reclaim(claims), 0);
  EXPECT_EQ(b_.Do(Client::GetAttrOf(inode)), 0) << "it keeps the inode";
  EXPECT_EQ(a_.Do(Client::LookupOf("file")), ENOENT);
  EXPECT_EQ(harness_.FreeBlocks(), free_blocks);
  ASSERT_EQ(b_.Do(Client::ReturnOf(inode), true), 0);
  EXPECT_GT(harness_.FreeBlocks(), free_blocks);
}

// … or who asks once more would write to the blocks that it was told of first.
TEST_F(EarlyRepliesTest, ARepeatedReplyStillSaysReplayed) {
  const std::uint64_t inode = a_.Create("before") + 10;
  harness_.Restart();
  ASSERT_EQ(a_.Resume(), 0);
  const v1::Request replay = ReplayOf(Client::CreateOf("file", /*open=*/true), inode, 1234);
  ASSERT_EQ(a_.Do(replay, true), 0);
  ASSERT_TRUE(a_.last_.replayed());
  harness_.Restart();
  ASSERT_EQ(a_.Resume(), 0);
  --a_.sequences_[1];
  ASSERT_EQ(a_.Do(replay, true), 0);
  EXPECT_TRUE(a_.last_.replayed());
  EXPECT_EQ(harness_.Counter("operation.repetitions"), 1u);
  // What is still open is claimed, and this is not.
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(a_.Reclaim(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  ASSERT_EQ(b_.Do(Client::UnlinkOf("file"), true), 0);
  harness_.Pass(1000, {&a_, &b_});
  EXPECT_EQ(harness_.Counter("orphans.now"), 0u);
}

TEST_F(EarlyRepliesTest, AnUnnamedFileGetsNoEarlyReply) {
  v1::Request unnamed = Client::CreateOf("", /*open=*/true);
  unnamed.mutable_create()->set_unnamed(true);
  harness_.hold_syncs_ = true;
  const std::uint64_t id = a_.SendIn(1, std::move(unnamed));
  harness_.Run();
  EXPECT_FALSE(a_.Answered(id));
  harness_.hold_syncs_ = false;
  harness_.Run();
  EXPECT_EQ(a_.Answer(id).error(), 0);
}

TEST_F(EarlyRepliesTest, ADurableChangeIsNotReplayed) {
  const v1::Request create = Client::CreateOf("file");
  const std::uint64_t inode = a_.Create("file");
  harness_.Restart();
  ASSERT_EQ(a_.Resume(), 0);
  --a_.sequences_[1];
  const std::uint64_t replay = a_.SendIn(1, ReplayOf(create, inode, 1234));
  harness_.Run();
  EXPECT_EQ(a_.Answer(replay).entry().attr().inode(), inode);
  EXPECT_FALSE(a_.Answer(replay).replayed());
  EXPECT_EQ(harness_.Counter("operation.repetitions"), 1u);
}

TEST_F(EarlyRepliesTest, AReplayIsForGraceAndForOldInodeNumbers) {
  a_.SendIn(1, ReplayOf(Client::CreateOf("file"), 100, 1));
  harness_.Run();
  EXPECT_TRUE(a_.ended_) << "nothing was lost";
  harness_.Restart();
  ASSERT_EQ(b_.Resume(), 0);
  EXPECT_EQ(b_.Do(ReplayOf(Client::CreateOf("file"), std::uint64_t{1} << 40, 1), true), EPROTO);
  EXPECT_EQ(b_.Do(ReplayOf(Client::CreateOf("root"), 1, 1), true), EPROTO);
  ASSERT_EQ(b_.Reclaim(), 0);
  b_.SendIn(3, ReplayOf(Client::CreateOf("late"), 100, 1));
  harness_.Run();
  EXPECT_TRUE(b_.ended_);
}

}  // namespace
}  // namespace reel::mdc
