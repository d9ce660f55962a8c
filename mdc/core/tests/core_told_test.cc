// What a session is told before it is durable: to whom, what waits for it, and how it is made good
// when the epoch ends before.
#include <gtest/gtest.h>

#include <cerrno>

#include "mdc/testing/core_world.h"

namespace reel::mdc {
namespace {

class ToldTest : public testing::Test {
 protected:
  ToldTest() {
    world_.options_.names = NamesTold::kEarly;
    world_.Restart();
    for (Client* client : {&a_, &b_}) {
      client->features_ = v1::FEATURE_PROVISIONAL;
      client->Register();
    }
    world_.Run();
  }
  // With syncs held up: what is told now is not durable.
  const v1::Reply& Tell(Client& client, std::uint32_t slot, v1::Request request) {
    world_.hold_syncs_ = true;
    const std::uint64_t id = client.SendIn(slot, std::move(request));
    world_.Run();
    EXPECT_TRUE(client.Answered(id));
    return client.replies_[id];
  }
  static v1::Request SyncRequest() {
    v1::Request request;
    request.mutable_sync();
    return request;
  }
  static v1::Request RedoOf(v1::Request request, std::uint64_t inode, std::int64_t seconds) {
    request.mutable_redo()->set_inode(inode);
    request.mutable_redo()->set_generation(77);
    request.mutable_redo()->mutable_time()->set_seconds(seconds);
    return request;
  }
  World world_;
  Client a_{world_, 1}, b_{world_, 2};
};

TEST_F(ToldTest, ItsOwnSessionAloneIsTold) {
  const v1::Reply told = Tell(a_, 1, Client::CreateOf("file"));
  ASSERT_TRUE(told.has_provisional());
  EXPECT_GT(told.sequence(), told.provisional().durable());
  EXPECT_EQ(a_.Do(Client::LookupOf("file")), 0);  // it knows already
  EXPECT_FALSE(a_.last_.has_provisional());
  const std::uint64_t other = b_.Send(Client::LookupOf("file"));
  const std::uint64_t gone = b_.Send(Client::LookupOf("never"));
  world_.Run();
  EXPECT_FALSE(b_.Answered(other));
  EXPECT_FALSE(b_.Answered(gone));  // the directory is not what it was
  world_.hold_syncs_ = false;
  world_.Run();
  EXPECT_EQ(b_.Answer(other).error(), 0);
  EXPECT_EQ(b_.Answer(gone).error(), ENOENT);
}

TEST_F(ToldTest, WhoSawAnothersChangeIsToldWhenThatIsDurable) {
  Tell(a_, 1, Client::CreateOf("one"));
  const std::uint64_t late = b_.SendIn(1, Client::CreateOf("two"));  // in the same directory
  world_.Run();
  EXPECT_FALSE(b_.Answered(late));
  // … and so does the first one, as soon as it builds on that.
  const std::uint64_t later = a_.SendIn(2, Client::CreateOf("three"));
  world_.Run();
  EXPECT_FALSE(a_.Answered(later));
  world_.hold_syncs_ = false;
  world_.Run();
  EXPECT_TRUE(b_.Answered(late) && a_.Answered(later));
  EXPECT_FALSE(a_.Answer(later).has_provisional());
}

TEST_F(ToldTest, NoAnswerIsOvertakenByALaterChange) {
  v1::Request mkdir = Client::CreateOf("dir");
  mkdir.mutable_create()->set_mode(S_IFDIR | 0755);
  ASSERT_EQ(a_.Do(std::move(mkdir), true), 0);
  v1::Request change = Client::CreateOf("file");
  change.mutable_create()->set_parent(a_.last_.entry().attr().inode());
  Tell(b_, 1, Client::CreateOf("one"));
  const std::uint64_t look = a_.Send(Client::LookupOf("one"));
  const std::uint64_t changed = a_.SendIn(2, std::move(change));
  world_.Run();
  EXPECT_FALSE(a_.Answered(look) || a_.Answered(changed));
}

TEST_F(ToldTest, CountersAreNobodysSecret) {
  ASSERT_EQ(b_.Do(Client::CreateOf("below"), true), 0);
  v1::Request below = Client::CreateOf("file");
  v1::Request mkdir = Client::CreateOf("dir");
  mkdir.mutable_create()->set_mode(S_IFDIR | 0755);
  ASSERT_EQ(b_.Do(std::move(mkdir), true), 0);
  below.mutable_create()->set_parent(b_.last_.entry().attr().inode());
  EXPECT_TRUE(Tell(a_, 1, Client::CreateOf("one")).has_provisional());
  EXPECT_TRUE(Tell(b_, 2, std::move(below)).has_provisional());  // inodes are counted by both
}

TEST_F(ToldTest, SyncWaitsForAllOfIt) {
  Tell(a_, 1, Client::CreateOf("file"));
  const std::uint64_t sync = a_.Send(SyncRequest());
  const std::uint64_t repeated = a_.Send(SyncRequest());
  world_.Run();
  EXPECT_FALSE(a_.Answered(sync) || a_.Answered(repeated));
  world_.hold_syncs_ = false;
  world_.Run();
  EXPECT_TRUE(a_.Answered(sync) && a_.Answered(repeated));
  EXPECT_EQ(a_.Do(SyncRequest()), 0);
}

TEST_F(ToldTest, NobodyHurriesForWhatNobodyWaitsFor) {
  a_.SendIn(1, Client::CreateOf("file"));
  EXPECT_FALSE(world_.core_->TakeOutputs().wants_sync);
  world_.core_->OnTick();
  EXPECT_TRUE(world_.core_->TakeOutputs().wants_sync);
  a_.SendIn(2, Client::CreateOf("other"));
  EXPECT_FALSE(world_.core_->TakeOutputs().wants_sync);
  b_.Send(Client::LookupOf("file"));
  EXPECT_TRUE(world_.core_->TakeOutputs().wants_sync);
}

TEST_F(ToldTest, SizesAreAnsweredWhenTheyAreDurable) {
  const std::uint64_t inode = a_.Create("file");
  v1::Request truncate;
  truncate.mutable_set_attr()->set_inode(inode);
  truncate.mutable_set_attr()->set_fields(v1::SetAttr::SIZE);
  truncate.mutable_set_attr()->set_size_bytes(5);
  world_.hold_syncs_ = true;
  const std::uint64_t id = a_.SendIn(1, std::move(truncate));
  world_.Run();
  EXPECT_FALSE(a_.Answered(id));
}

TEST_F(ToldTest, OnlyWhereTheAdministratorWantsIt) {
  world_.options_.names = NamesTold::kDurable;
  world_.Restart();
  ASSERT_EQ(a_.Resume(), 0);
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(a_.Reclaim(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  world_.hold_syncs_ = true;
  const std::uint64_t id = a_.SendIn(1, Client::CreateOf("file"));
  world_.Run();
  EXPECT_FALSE(a_.Answered(id));
}

TEST_F(ToldTest, ClientsThatDoNotKnowTheWordWait) {
  Client old(world_, 3);
  old.Register();
  world_.hold_syncs_ = true;
  const std::uint64_t id = old.SendIn(1, Client::CreateOf("file"));
  world_.Run();
  EXPECT_FALSE(old.Answered(id));
}

TEST_F(ToldTest, WhatWasLostComesOutAsItWasTold) {
  const std::uint64_t inode = a_.Create("before") + 10;
  world_.Restart();
  ASSERT_EQ(a_.Resume(), 0);
  ASSERT_EQ(b_.Resume(), 0);
  // In the way of the redo, if it came first.
  ASSERT_EQ(b_.Reclaim(), 0);
  const std::uint64_t other = b_.SendIn(1, Client::CreateOf("file"));
  const std::uint64_t redo = a_.SendIn(2, RedoOf(Client::CreateOf("file"), inode, 1234));
  world_.Run();
  ASSERT_TRUE(a_.Answered(redo));
  EXPECT_TRUE(a_.Answer(redo).redone());
  EXPECT_FALSE(a_.Answer(redo).has_provisional());
  const v1::Attr attr = a_.Answer(redo).entry().attr();
  EXPECT_EQ(attr.inode(), inode);
  EXPECT_EQ(attr.generation(), 77u);
  EXPECT_EQ(attr.ctime().seconds(), 1234);
  EXPECT_FALSE(b_.Answered(other)) << "grace is not over";
  ASSERT_EQ(a_.Reclaim(), 0);
  EXPECT_EQ(b_.Answer(other).error(), EEXIST);
  EXPECT_GT(b_.Create("new"), inode);
}

// Who holds the file in the new epoch is not known yet.
TEST_F(ToldTest, ARemovalDoneAgainLeavesOthersTheirBlocks) {
  const std::uint64_t inode = a_.Create("file");
  ASSERT_EQ(b_.Do(Client::LayoutOf(inode, v1::TOKEN_EXCLUSIVE, true)), 0);
  const std::uint64_t free_blocks = world_.FreeBlocks();
  world_.Restart();  // a was told of the removal, and that was not durable
  ASSERT_EQ(a_.Resume(), 0);
  ASSERT_EQ(a_.Do(RedoOf(Client::UnlinkOf("file"), 0, 1234), true), 0);
  ASSERT_EQ(a_.Reclaim(), 0);
  ASSERT_EQ(b_.Resume(), 0);
  v1::Reclaim claims;
  claims.add_tokens()->set_inode(inode);
  claims.mutable_tokens(0)->set_mode(v1::TOKEN_EXCLUSIVE);
  ASSERT_EQ(b_.Reclaim(claims), 0);
  EXPECT_EQ(b_.Do(Client::GetAttrOf(inode)), 0) << "it keeps the inode";
  EXPECT_EQ(a_.Do(Client::LookupOf("file")), ENOENT);
  EXPECT_EQ(world_.FreeBlocks(), free_blocks);
  ASSERT_EQ(b_.Do(Client::ReturnOf(inode), true), 0);
  EXPECT_GT(world_.FreeBlocks(), free_blocks);
}

// … or who asks once more would write to the blocks that it was told of first.
TEST_F(ToldTest, AnAnswerThatWasLostSaysAgainThatItWasRedone) {
  const std::uint64_t inode = a_.Create("before") + 10;
  world_.Restart();
  ASSERT_EQ(a_.Resume(), 0);
  const v1::Request redo = RedoOf(Client::CreateOf("file", /*open=*/true), inode, 1234);
  ASSERT_EQ(a_.Do(redo, true), 0);
  ASSERT_TRUE(a_.last_.redone());
  world_.Restart();
  ASSERT_EQ(a_.Resume(), 0);
  --a_.sequences_[1];
  ASSERT_EQ(a_.Do(redo, true), 0);
  EXPECT_TRUE(a_.last_.redone());
  EXPECT_EQ(world_.Counter("operation.replays"), 1u);
  // What is still open is claimed, and this is not.
  ASSERT_EQ(b_.Resume(), 0);
  ASSERT_EQ(a_.Reclaim(), 0);
  ASSERT_EQ(b_.Reclaim(), 0);
  ASSERT_EQ(b_.Do(Client::UnlinkOf("file"), true), 0);
  world_.Pass(1000, {&a_, &b_});
  EXPECT_EQ(world_.Counter("orphans.now"), 0u);
}

TEST_F(ToldTest, AFileWithoutANameWaits) {
  v1::Request unnamed = Client::CreateOf("", /*open=*/true);
  unnamed.mutable_create()->set_unnamed(true);
  world_.hold_syncs_ = true;
  const std::uint64_t id = a_.SendIn(1, std::move(unnamed));
  world_.Run();
  EXPECT_FALSE(a_.Answered(id));
  world_.hold_syncs_ = false;
  world_.Run();
  EXPECT_EQ(a_.Answer(id).error(), 0);
}

TEST_F(ToldTest, WhatWasDurableIsNotDoneAgain) {
  const v1::Request create = Client::CreateOf("file");
  const std::uint64_t inode = a_.Create("file");
  world_.Restart();
  ASSERT_EQ(a_.Resume(), 0);
  --a_.sequences_[1];
  const std::uint64_t redo = a_.SendIn(1, RedoOf(create, inode, 1234));
  world_.Run();
  EXPECT_EQ(a_.Answer(redo).entry().attr().inode(), inode);
  EXPECT_FALSE(a_.Answer(redo).redone());
  EXPECT_EQ(world_.Counter("operation.replays"), 1u);
}

TEST_F(ToldTest, ARedoIsForGraceAndForNumbersThatWereGiven) {
  a_.SendIn(1, RedoOf(Client::CreateOf("file"), 100, 1));
  world_.Run();
  EXPECT_TRUE(a_.ended_) << "nothing was lost";
  world_.Restart();
  ASSERT_EQ(b_.Resume(), 0);
  EXPECT_EQ(b_.Do(RedoOf(Client::CreateOf("file"), std::uint64_t{1} << 40, 1), true), EPROTO);
  EXPECT_EQ(b_.Do(RedoOf(Client::CreateOf("root"), 1, 1), true), EPROTO);
  ASSERT_EQ(b_.Reclaim(), 0);
  b_.SendIn(3, RedoOf(Client::CreateOf("late"), 100, 1));
  world_.Run();
  EXPECT_TRUE(b_.ended_);
}

}  // namespace
}  // namespace reel::mdc
