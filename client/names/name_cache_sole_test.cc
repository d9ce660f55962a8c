// Older names that are removed and moved here before the controller knows: of sole files.
#include "client/testing/delegated_directory_fixture.h"

namespace reel::client {
namespace {

TEST_F(NameCacheDelegationTest, AnOlderFileIsRemovedHereOnceItIsKnownToBeSole) {
  Older("old", 70);
  EXPECT_FALSE(Unlink("old"));
  EXPECT_EQ(AskAndLearn(), std::vector<std::uint64_t>{70});
  EXPECT_TRUE(Unlink("old"));
  EXPECT_EQ(Found("old"), 0u);
  EXPECT_EQ(cache_.GetAttr(70)->nlink, 0u);
}

TEST_F(NameCacheDelegationTest, WhatASecondNameOrAnotherDirectoryShowsIsNotSole) {
  Older("elsewhere", 71, /*directory=*/9);  // others wait for that one's delegation
  EXPECT_TRUE(AskAndLearn().empty());
  Older("old", 70);
  AskAndLearn();
  v1::Request link;
  link.mutable_link()->set_inode(70);
  link.mutable_link()->set_parent(9);
  link.mutable_link()->set_name("other");
  cache_.OnReply(link, {});
  EXPECT_FALSE(Unlink("old"));
}

TEST_F(NameCacheDelegationTest, WhatWasSoleIsNotUnderTheNextDelegation) {
  Older("old", 70);
  AskAndLearn();
  cache_.OnShare(kDirectory);
  v1::Reply again;
  again.add_exclusive(kDirectory);
  Reply(CreateOf("new"), 51, again);
  EXPECT_FALSE(Unlink("old"));
  EXPECT_EQ(AskAndLearn(), std::vector<std::uint64_t>{70});
  EXPECT_TRUE(Unlink("old"));
}

TEST_F(NameCacheDelegationTest, OnlyWhatWasMadeUnderItMayBeOpenNowhereElse) {
  Older("old", 70);
  Older("older", 71);
  AskAndLearn();
  Reserved(2);
  ASSERT_TRUE(Create("a"));
  ASSERT_TRUE(Create("b"));
  ASSERT_TRUE(Unlink("a"));
  EXPECT_TRUE(only_here_);
  ASSERT_TRUE(Unlink("old"));
  EXPECT_FALSE(only_here_) << "another host may have had it open before";
  ASSERT_TRUE(Rename("b", "older"));
  EXPECT_EQ(replaced_, 71u);
  EXPECT_FALSE(only_here_);
}

TEST_F(NameCacheDelegationTest, WhatHadAnotherNameMeanwhileMayBeOpenElsewhere) {
  Older("old", 70);
  AskAndLearn();
  Reserved(1);
  ASSERT_TRUE(Create("a"));
  v1::Request link;
  link.mutable_link()->set_inode(kFirst);
  link.mutable_link()->set_parent(9);
  link.mutable_link()->set_name("other");
  cache_.OnReply(link, {});
  v1::Request ask = RenameOf("x", "y");
  ask.add_siblings(kFirst);
  v1::Reply sole;
  sole.add_sole(kFirst);
  cache_.OnReply(ask, sole);
  ASSERT_TRUE(Unlink("a"));
  EXPECT_FALSE(only_here_);
}

TEST_F(NameCacheDelegationTest, AFileThatOthersLookedAtIsNotSole) {
  Older("old", 70);
  AskAndLearn();
  cache_.OnRecall(70);
  Older("old", 70);
  EXPECT_FALSE(Unlink("old"));
}

TEST_F(NameCacheDelegationTest, ASoleFileMovesAtOnce) {
  Reserved(1);
  ASSERT_TRUE(Create("a"));
  now_.set_seconds(7);
  const Attributes before = *cache_.GetAttr(kDirectory);
  ASSERT_TRUE(Rename("a", "b"));
  EXPECT_EQ(replaced_, 0u);
  EXPECT_EQ(Found("a"), 0u);
  EXPECT_EQ(Found("b"), kFirst);
  EXPECT_EQ(cache_.GetAttr(kFirst)->ctime.seconds, 7);
  const Attributes directory = *cache_.GetAttr(kDirectory);
  EXPECT_EQ(directory.size_bytes, before.size_bytes);
  EXPECT_EQ(directory.change, before.change + 2);
  EXPECT_EQ(directory.mtime.seconds, 7);
  EXPECT_TRUE(Rename("b", "c"));  // it is sole still
  EXPECT_TRUE(Unlink("c"));
}

TEST_F(NameCacheDelegationTest, ASoleFileTakesThePlaceOfAnother) {
  Older("old", 70);
  Reserved(2);
  ASSERT_TRUE(Create("a"));
  ASSERT_TRUE(Create("b"));
  const Attributes before = *cache_.GetAttr(kDirectory);
  EXPECT_FALSE(Rename("a", "b", RENAME_NOREPLACE));
  EXPECT_FALSE(Rename("a", "b", RENAME_EXCHANGE));
  ASSERT_TRUE(Rename("a", "b"));
  EXPECT_EQ(replaced_, kFirst + 1);
  EXPECT_EQ(Found("b"), kFirst);
  EXPECT_EQ(cache_.GetAttr(kFirst + 1)->nlink, 0u);
  EXPECT_EQ(cache_.GetAttr(kDirectory)->size_bytes, before.size_bytes - 32);
  EXPECT_FALSE(Rename("b", "old"));
  EXPECT_FALSE(Rename("old", "new"));
  EXPECT_FALSE(Rename("none", "new"));
}

TEST_F(NameCacheDelegationTest, AFileWhoseAttributesAreBeingChangedIsNotReplaced) {
  Older("a", 61);
  Older("b", 62);
  EXPECT_EQ(AskAndLearn().size(), 2u);
  may_replace_ = false;
  EXPECT_FALSE(Rename("a", "b"));
  EXPECT_TRUE(Rename("a", "c"));
  may_replace_ = true;
  EXPECT_TRUE(Rename("c", "b"));
  EXPECT_EQ(replaced_, 62u);
}

TEST_F(NameCacheDelegationTest, ARefusedRequestHasAskedNothing) {
  Older("a", 61);
  v1::Request request;
  request.mutable_unlink()->set_parent(kDirectory);
  request.mutable_unlink()->set_name("gone");
  cache_.AskWhichAreSole(request);
  EXPECT_EQ(request.siblings_size(), 1);
  v1::Reply refused;
  refused.set_error(EPERM);
  cache_.OnReply(request, refused);
  EXPECT_EQ(AskAndLearn().size(), 1u);
}

// A commit that was answered before the controller had the rename knows an older ctime.
TEST_F(NameCacheDelegationTest, ACommitThatCrossesARenameDoesNotTurnTimeBack) {
  Reserved(1);
  ASSERT_TRUE(Create("a"));
  now_.set_seconds(7);
  ASSERT_TRUE(Rename("a", "b"));
  v1::Request commit;
  commit.mutable_layout_commit()->set_inode(kFirst);
  v1::Reply reply;
  v1::Attr& attr = *reply.mutable_attr()->mutable_attr();
  attr = cache_.GetAttr(kFirst)->ToProto();
  attr.mutable_ctime()->set_seconds(3);
  cache_.OnReply(commit, reply);
  EXPECT_EQ(cache_.GetAttr(kFirst)->ctime.seconds, 7);
  DelegatedAnswered(1);
  cache_.OnReply(commit, reply);
  EXPECT_EQ(cache_.GetAttr(kFirst)->ctime.seconds, 3);
}

}  // namespace
}  // namespace reel::client
