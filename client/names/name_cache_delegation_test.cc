// Names made and removed here before the controller knows.
#include "client/testing/delegated_directory_fixture.h"

namespace reel::client {
namespace {

TEST_F(NameCacheDelegationTest, WhatIsChargedToOneOwnerIsNoOthersFile) {
  v1::Request request = CreateOf("stocked");
  request.mutable_create()->set_reserved_inodes(4);
  v1::Reply reply;
  v1::ReservedInode& reserved = *reply.add_reserved_inodes();
  reserved.set_inode(kFirst);
  reserved.set_owned(true);
  reserved.set_uid(1000);
  reserved.set_gid(1000);
  Reply(std::move(request), 50, std::move(reply));
  v1::Credentials owner;
  owner.set_uid(1001);
  owner.set_gid(1000);
  EXPECT_EQ(Create("a", true, owner), std::nullopt);
  owner.set_uid(1000);
  EXPECT_TRUE(Create("a", true, owner));
}

TEST_F(NameCacheDelegationTest, ADelegatedFileExistsAtOnce) {
  EXPECT_EQ(Create("a"), std::nullopt);  // of what?
  Reserved(2);
  now_.set_seconds(9);
  const Attributes before = *cache_.GetAttr(kDirectory);
  const auto attr = Create("a");
  ASSERT_TRUE(attr);
  EXPECT_EQ(attr->inode(), kFirst);
  EXPECT_EQ(attr->mode(), S_IFREG | 0644u);
  EXPECT_EQ(attr->mtime().seconds(), 9);
  EXPECT_EQ(Found("a"), kFirst);
  const Attributes directory = *cache_.GetAttr(kDirectory);
  EXPECT_EQ(directory.size_bytes, before.size_bytes + 32);
  EXPECT_EQ(directory.change, before.change + 1);
  EXPECT_EQ(directory.mtime.seconds, 9);
  EXPECT_EQ(Create("a"), std::nullopt);  // it exists
  EXPECT_TRUE(Create("b"));
  EXPECT_EQ(Create("c"), std::nullopt);  // there is none left
}

TEST_F(NameCacheDelegationTest, TimesGoOnWhereClocksDifferALittle) {
  Reserved(3);
  now_.set_seconds(100);
  ASSERT_TRUE(Create("a"));
  now_.set_seconds(95);
  EXPECT_EQ(Create("b")->mtime().seconds(), 100);
  EXPECT_EQ(cache_.GetAttr(kDirectory)->mtime.nanoseconds, 1u);
  now_.set_seconds(50);
  EXPECT_EQ(Create("c")->mtime().seconds(), 50);
}

TEST_F(NameCacheDelegationTest, AChangeThatCannotBeSentIsNotMade) {
  Reserved(1);
  EXPECT_EQ(Create("a", /*sends=*/false), std::nullopt);
  EXPECT_EQ(Found("a"), 0u);
  EXPECT_TRUE(Create("a"));
}

TEST_F(NameCacheDelegationTest, OnlyFilesCreatedHereAreRemovedHere) {
  Reserved(2);
  ASSERT_TRUE(Create("a"));
  EXPECT_TRUE(Unlink("a"));
  EXPECT_EQ(Found("a"), 0u);
  EXPECT_EQ(cache_.GetAttr(kFirst)->nlink, 0u);
  EXPECT_FALSE(Unlink("a"));
  ASSERT_TRUE(Create("b"));
  v1::Request link;
  link.mutable_link()->set_inode(kFirst + 1);
  link.mutable_link()->set_parent(kDirectory);
  link.mutable_link()->set_name("other");
  v1::Reply linked;
  *linked.add_changed() = cache_.GetAttr(kDirectory)->ToProto();
  cache_.OnReply(link, linked);
  EXPECT_FALSE(Unlink("b"));
}

TEST_F(NameCacheDelegationTest, ADirectoryMadeHereIsEmptyAndItsParentHasALinkMore) {
  Reserved(1);
  const std::uint32_t links = cache_.GetAttr(kDirectory)->nlink;
  v1::Request request = CreateOf("d");
  request.mutable_create()->set_mode(S_IFDIR | 0777);
  const auto made = cache_.CreateDelegated(*request.mutable_create(), {}, now_,
                                           [&](const v1::EntryReply&, const v1::Replay& decided) {
                                             *request.mutable_delegated() = decided;
                                             sent_.push_back(request);
                                             return sent_.size();
                                           });
  ASSERT_TRUE(made);
  EXPECT_EQ(made->mode(), S_IFDIR | 0755u);
  EXPECT_EQ(cache_.GetAttr(kDirectory)->nlink, links + 1);
  const auto found = cache_.Lookup(kFirst, "anything");
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->absent);
  // It goes as it has come, once it is delegated, too, and while it is empty.
  EXPECT_FALSE(Unlink("d", /*directory=*/true));
  v1::Reply reply;
  reply.add_cacheable(kFirst);
  reply.add_exclusive(kFirst);
  *reply.add_changed() = cache_.GetAttr(kDirectory)->ToProto();
  cache_.OnReply(sent_[0], reply);
  EXPECT_FALSE(Unlink("d"));
  v1::Reply within;
  v1::Attr grown = cache_.GetAttr(kFirst)->ToProto();
  grown.set_size_bytes(32);
  grown.set_change(2);
  *within.mutable_entry()->mutable_attr() = grown;
  v1::Request lookup;
  lookup.mutable_lookup()->set_parent(kDirectory);
  lookup.mutable_lookup()->set_name("d");
  cache_.OnReply(lookup, within);
  EXPECT_FALSE(Unlink("d", /*directory=*/true));
  grown.set_size_bytes(0);
  grown.set_change(3);
  *within.mutable_entry()->mutable_attr() = grown;
  cache_.OnReply(lookup, within);
  EXPECT_TRUE(Unlink("d", /*directory=*/true));
  EXPECT_EQ(Found("d"), 0u);
  EXPECT_EQ(cache_.GetAttr(kDirectory)->nlink, links);
}

TEST_F(NameCacheDelegationTest, ASymbolicLinkMadeHereIsReadHere) {
  Reserved(2);
  v1::Request request = CreateOf("l");
  v1::Create& create = *request.mutable_create();
  create.set_mode(S_IFLNK | 0777);
  const auto make = [&] {
    return cache_.CreateDelegated(create, {}, now_,
                                  [](const v1::EntryReply&, const v1::Replay&) { return 1; });
  };
  EXPECT_FALSE(make());  // the controller says what is wrong with it
  create.set_symlink("target");
  ASSERT_TRUE(make());
  EXPECT_EQ(cache_.ReadLink(kFirst), "target");
  EXPECT_TRUE(Rename("l", "m"));
  EXPECT_TRUE(Unlink("m"));
}

TEST_F(NameCacheDelegationTest, TheLastReplyUpdatesTheDirectory) {
  Reserved(2);
  ASSERT_TRUE(Create("a"));
  ASSERT_TRUE(Create("b"));
  DelegatedAnswered(0);
  EXPECT_NE(cache_.GetAttr(kDirectory)->nlink, 77u);
  // Nor what was read before: a lookup that was given up, a commit on its way.
  v1::Request lookup;
  lookup.mutable_lookup()->set_parent(kDirectory);
  lookup.mutable_lookup()->set_name("b");
  v1::Reply absent;
  absent.set_error(ENOENT);
  cache_.OnReply(lookup, absent);
  EXPECT_EQ(Found("b"), kFirst + 1);
  DelegatedAnswered(1);
  EXPECT_EQ(cache_.GetAttr(kDirectory)->nlink, 77u);
}

TEST_F(NameCacheDelegationTest, ACommitThatCrossesARemovalDoesNotUndoIt) {
  Reserved(1);
  ASSERT_TRUE(Create("a"));
  ASSERT_TRUE(Unlink("a"));
  v1::Request commit;
  commit.mutable_layout_commit()->set_inode(kFirst);
  v1::Reply reply;
  v1::Attr& attr = *reply.mutable_attr()->mutable_attr();
  attr.set_inode(kFirst);
  attr.set_mode(S_IFREG | 0644);
  attr.set_nlink(1);
  attr.set_change(9);
  cache_.OnReply(commit, reply);
  EXPECT_EQ(cache_.GetAttr(kFirst)->nlink, 0u);
}

TEST_F(NameCacheDelegationTest, WhereAFilesDataLieIsNoMatterOfItsName) {
  Reserved(1);
  ASSERT_TRUE(Create("a"));
  v1::Request commit;
  commit.mutable_layout_commit()->set_inode(kFirst);
  v1::Reply reply;
  v1::Attr& attr = *reply.mutable_attr()->mutable_attr();
  attr = cache_.GetAttr(kFirst)->ToProto();
  attr.set_change(attr.change() + 1);
  attr.set_flags(v1::INODE_FLAG_INLINE | v1::INODE_FLAG_IMMUTABLE);
  cache_.OnReply(commit, reply);
  EXPECT_FALSE(Unlink("a"));
  attr.set_change(attr.change() + 1);
  attr.set_flags(v1::INODE_FLAG_INLINE);
  cache_.OnReply(commit, reply);
  EXPECT_TRUE(Rename("a", "b"));
  EXPECT_TRUE(Unlink("b"));
}

TEST_F(NameCacheDelegationTest, ARecallEndsTheDelegation) {
  Reserved(2);
  ASSERT_TRUE(Create("a"));
  EXPECT_EQ(cache_.OnShare(kDirectory), NameCache::RecallStep::kReturn);
  EXPECT_EQ(Found("a"), kFirst);  // it still knows what is there
  EXPECT_EQ(Create("b"), std::nullopt);
  EXPECT_FALSE(Unlink("a"));
}

TEST_F(NameCacheDelegationTest, TheKernelKeepsChangingNamesOnlyUnderADelegation) {
  Reserved(1);
  ASSERT_TRUE(Create("a"));
  EXPECT_TRUE(cache_.ShowName(kDirectory, "a", kFirst, /*quiet=*/false));
  EXPECT_EQ(cache_.OnShare(kDirectory),
            NameCache::RecallStep::kForgetNamesFirst);  // "a" has no answer yet
  EXPECT_FALSE(cache_.ShowName(kDirectory, "a", kFirst, /*quiet=*/false));
  EXPECT_TRUE(cache_.ShowName(kDirectory, "a", kFirst, /*quiet=*/true));
}

// Others may see it from now on, before the kernel has an answer.
TEST_F(NameCacheDelegationTest, TheKernelForgetsChangingNamesBeforeADirectoryIsShared) {
  Reserved(1);
  EXPECT_TRUE(cache_.ShowName(kDirectory, "stocked", 50, /*quiet=*/false));
  NameCache::KernelForgets to_forget;
  const PendingChanges::Change change = cache_.BeginChange(CreateOf("late"), to_forget);
  EXPECT_FALSE(to_forget.names);  // it is alone
  EXPECT_EQ(cache_.OnShare(kDirectory), NameCache::RecallStep::kForgetNamesFirst);
  cache_.EndChange(change);
  EXPECT_EQ(cache_.OnShare(kDirectory), NameCache::RecallStep::kReturn);
}

// Its stored reply comes again, behind what was read on the new stream.
TEST_F(NameCacheDelegationTest, AChangeFromALostStreamIsNotAppliedTwice) {
  Reply(CreateOf("a"), 10);
  Reply(CreateOf("b"), 20);
  v1::Request exchange;
  v1::Rename& rename = *exchange.mutable_rename();
  rename.set_parent(kDirectory);
  rename.set_name("a");
  rename.set_new_parent(kDirectory);
  rename.set_new_name("b");
  rename.set_flags(2 /* RENAME_EXCHANGE */);
  cache_.OnReply(exchange, {});
  const auto found = cache_.Lookup(kDirectory, "a");
  EXPECT_TRUE(!found || found->attr.inode == 10);
  Reply(CreateOf("c"), 30);
  v1::Request unlink;
  unlink.mutable_unlink()->set_parent(kDirectory);
  unlink.mutable_unlink()->set_name("c");
  cache_.OnReply(unlink, {});
  const auto left = cache_.Lookup(kDirectory, "c");
  EXPECT_TRUE(!left || !left->absent);
}

TEST_F(NameCacheDelegationTest, ADelegatedCreateWaitsForPendingChanges) {
  Reserved(2);
  v1::Request rename;
  rename.mutable_rename()->set_parent(kDirectory);
  rename.mutable_rename()->set_name("x");
  rename.mutable_rename()->set_new_parent(kDirectory);
  rename.mutable_rename()->set_new_name("y");
  NameCache::KernelForgets to_forget;
  const PendingChanges::Change change = cache_.BeginChange(rename, to_forget);
  EXPECT_EQ(Create("a"), std::nullopt);
  cache_.EndChange(change);
  EXPECT_TRUE(Create("a"));
}

TEST_F(NameCacheDelegationTest, ALossMakesTheDirectoryUnknown) {
  Reserved(1);
  ASSERT_TRUE(Create("a"));
  DelegatedAnswered(0, EIO);
  EXPECT_FALSE(cache_.Holds(kDirectory));
  EXPECT_EQ(cache_.TakeDropped().inodes, std::vector<std::uint64_t>{kDirectory});
}

TEST_F(NameCacheDelegationTest, ARequestForReservedInodesDropsTheOldOnes) {
  Reserved(2);
  v1::Request request = CreateOf("late");
  request.mutable_create()->set_reserved_inodes(4);
  v1::Reply reply;
  reply.add_reserved_inodes()->set_inode(900);
  Reply(std::move(request), 60, std::move(reply));
  EXPECT_EQ(Create("a")->inode(), 900u);
  EXPECT_EQ(cache_.ReservedInodesWanted(kDirectory), 32u);
}

}  // namespace
}  // namespace reel::client
