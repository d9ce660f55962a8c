#include "client/names/name_cache.h"

#include <sys/stat.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "client/testing/name_cache_fixture.h"
#include "gtest/gtest.h"

namespace reel::client {
namespace {

using RecallStep = NameCache::RecallStep;
using Shown = NameCache::Shown;

using NameCacheTest = NameCacheFixture;

TEST_F(NameCacheTest, TheKernelIsAskedToForgetWhatItWasShown) {
  LookedUp("a", 7);
  v1::Attr other = AttrOf(7);
  other.set_change(1);
  EXPECT_EQ(cache_.Show(other, 1'000, true), Shown::kNo) << "older or newer than what is known";
  EXPECT_EQ(cache_.OnRecall(7).step, RecallStep::kReturn);
  EXPECT_EQ(cache_.Show(AttrOf(7), 1'000, true), Shown::kNo) << "without a token";
  LookedUp("a", 7);
  EXPECT_EQ(cache_.Show(AttrOf(7), 1'000, false), Shown::kMoment);
  EXPECT_EQ(cache_.OnRecall(7).step, RecallStep::kForgetAttributesFirst);
  EXPECT_EQ(cache_.OnRecall(7).step, RecallStep::kOnItsWay);
  LookedUp("a", 7);
  EXPECT_EQ(cache_.Show(AttrOf(7), 1'000, true), Shown::kNo) << "its token is on the way back";
  cache_.Returned({7});
  LookedUp("a", 7);
  EXPECT_EQ(cache_.Show(AttrOf(7), 1'000, false), Shown::kMoment);
  v1::Request chmod;
  chmod.mutable_set_attr()->set_inode(7);
  const PendingChanges::Change change = cache_.BeginChange(chmod, to_forget_);
  EXPECT_EQ(to_forget_.attributes, std::vector<std::uint64_t>{7});
  EXPECT_EQ(cache_.Show(AttrOf(7), 1'000, true), Shown::kNo);
  cache_.EndChange(change);
  EXPECT_EQ(cache_.OnRecall(7).step, RecallStep::kReturn) << "that was told already";
}

TEST_F(NameCacheTest, NamesThatTheKernelKeepsGoWithTheirDirectory) {
  LookedUp("a", 7);
  LookedUp("none", 0);
  EXPECT_TRUE(cache_.ShowName(kDir, "a", 7));
  EXPECT_TRUE(cache_.ShowName(kDir, "none", 0));
  EXPECT_FALSE(cache_.ShowName(kDir, "a", 8)) << "another inode by now";
  EXPECT_FALSE(cache_.ShowName(kDir, "a", 0));
  EXPECT_FALSE(cache_.ShowName(kDir, "b", 0)) << "perhaps there";
  EXPECT_FALSE(cache_.ShowName(5, "a", 7)) << "without a token";
  EXPECT_EQ(cache_.OnRecall(7).step, RecallStep::kForgetNamesFirst)
      << "its owner, which is not asked for";
  EXPECT_EQ(cache_.OnRecall(kDir).step, RecallStep::kForgetNamesFirst);
  NameCache::KernelForgets to_forget;
  v1::Request unlink;
  unlink.mutable_unlink()->set_parent(kDir);
  unlink.mutable_unlink()->set_name("a");
  cache_.EndChange(cache_.BeginChange(unlink, to_forget));
  EXPECT_TRUE(to_forget.names) << "the kernel may not have been told yet";
}

TEST_F(NameCacheTest, ForgottenAttributesAreNotInvalidatedAgain) {
  LookedUp("a", 7);
  EXPECT_FALSE(cache_.BeginForget()) << "it keeps nothing";
  EXPECT_FALSE(cache_.ShowName(kDir, "a", 7)) << "while it is told";
  cache_.EndForget();
  ASSERT_TRUE(cache_.ShowName(kDir, "a", 7));
  EXPECT_TRUE(cache_.BeginForget());
  cache_.EndForget();
  EXPECT_EQ(cache_.OnRecall(kDir).step, RecallStep::kReturn);
}

TEST_F(NameCacheTest, OwnChangesInvalidateTheDirectorysNames) {
  LookedUp("a", 7);
  v1::Request unlink;
  unlink.mutable_unlink()->set_parent(kDir);
  unlink.mutable_unlink()->set_name("a");
  cache_.EndChange(cache_.BeginChange(unlink, to_forget_));
  EXPECT_FALSE(to_forget_.names) << "it keeps none";
  ASSERT_TRUE(cache_.ShowName(kDir, "a", 7));
  const PendingChanges::Change change = cache_.BeginChange(unlink, to_forget_);
  EXPECT_TRUE(to_forget_.names);
  cache_.BeginForget();
  cache_.EndForget();
  EXPECT_FALSE(cache_.ShowName(kDir, "a", 7)) << "until it is answered";
  cache_.EndChange(change);
  EXPECT_TRUE(cache_.ShowName(kDir, "a", 7));
}

TEST_F(NameCacheTest, ADirectorysAttributesAreKeptForAWhile) {
  Created(kDir, "sub", 5, S_IFDIR | 0755);
  const v1::Attr sub = AttrOf(5, S_IFDIR | 0755);
  EXPECT_EQ(cache_.Show(sub, 1'000, false), Shown::kMoment);
  EXPECT_EQ(cache_.Show(sub, 1'000, true), Shown::kKept);
  v1::Request make;
  make.mutable_create()->set_parent(5);
  make.mutable_create()->set_name("file");
  const PendingChanges::Change change = cache_.BeginChange(make, to_forget_);
  EXPECT_EQ(to_forget_.attributes, std::vector<std::uint64_t>{5})
      << "its times are about to change";
  EXPECT_EQ(cache_.Show(sub, 1'000, true), Shown::kMoment);
  cache_.EndChange(change);
  EXPECT_EQ(cache_.Show(sub, 1'000, true), Shown::kKept);
  EXPECT_EQ(cache_.Clear(900).directories, std::vector<std::uint64_t>{5});
  Created(kDir, "sub", 5, S_IFDIR | 0755);
  EXPECT_EQ(cache_.Show(sub, 1'000, true), Shown::kKept);
  EXPECT_TRUE(cache_.Clear(1'000).directories.empty()) << "not any more";
}

TEST_F(NameCacheTest, AFilesAttributesAreToldBackWithoutNames) {
  LookedUp("a", 7);
  EXPECT_EQ(cache_.Show(AttrOf(7), 1'000, true), Shown::kKept);
  EXPECT_TRUE(cache_.KeepsAttributes(7, 999));
  EXPECT_FALSE(cache_.KeepsAttributes(7, 1'000));
  EXPECT_FALSE(cache_.keeps()) << "no name is";
  EXPECT_EQ(cache_.OnRecall(7).step, RecallStep::kForgetAttributesFirst);
  EXPECT_EQ(cache_.Clear(900).others.size(), 1) << "the kernel may not have been told yet";
  LookedUp("a", 7);
  EXPECT_EQ(cache_.Show(AttrOf(7), 1'000, true), Shown::kKept);
  EXPECT_EQ(cache_.Clear(900).others.size(), 1);
}

TEST_F(NameCacheTest, AttributesOfOtherInodesAreShownForAMoment) {
  Created(kDir, "link", 5, S_IFLNK | 0777);
  EXPECT_EQ(cache_.Show(AttrOf(5, S_IFLNK | 0777), 1'000, true), Shown::kMoment);
}

// The controller may have made it, and shown it to others, before its answer is here.
TEST_F(NameCacheTest, APendingChangeHidesWhatItTouches) {
  LookedUp("old", 7);
  LookedUp("new", 0);
  v1::Request rename;
  rename.mutable_rename()->set_parent(kDir);
  rename.mutable_rename()->set_name("old");
  rename.mutable_rename()->set_new_parent(kDir);
  rename.mutable_rename()->set_new_name("new");
  const PendingChanges::Change change = cache_.BeginChange(rename, to_forget_);
  EXPECT_FALSE(cache_.Lookup(kDir, "old"));
  EXPECT_FALSE(cache_.Lookup(kDir, "new"));
  EXPECT_FALSE(cache_.GetAttr(7));
  cache_.EndChange(change);
  EXPECT_TRUE(cache_.Lookup(kDir, "old"));
  EXPECT_TRUE(cache_.GetAttr(7));
}

TEST_F(NameCacheTest, ARemovalOfAnUnknownNameMayTouchAnyInode) {
  LookedUp("known", 7);
  v1::Request unlink;
  unlink.mutable_unlink()->set_parent(kDir);
  unlink.mutable_unlink()->set_name("unknown");
  const PendingChanges::Change change = cache_.BeginChange(unlink, to_forget_);
  EXPECT_FALSE(cache_.GetAttr(7));
  cache_.EndChange(change);
  EXPECT_TRUE(cache_.GetAttr(7));
}

TEST_F(NameCacheTest, TheKernelKeepsAListingOfOneTenureOfTheToken) {
  EXPECT_EQ(cache_.ShowListing(kDir).number, 0u);
  LookedUp("a", 7);
  const NameCache::Listing listing = cache_.ShowListing(kDir);
  EXPECT_NE(listing.number, 0u);
  EXPECT_FALSE(listing.kept);
  EXPECT_FALSE(cache_.ShowListing(kDir).kept) << "nobody has listed it yet";
  cache_.NoteListing(kDir, listing);
  EXPECT_TRUE(cache_.ShowListing(kDir).kept);
  EXPECT_EQ(cache_.ShowListing(kDir).number, listing.number);

  v1::Request create;
  create.mutable_create()->set_parent(kDir);
  create.mutable_create()->set_name("b");
  NameCache::KernelForgets to_forget;
  const PendingChanges::Change change = cache_.BeginChange(create, to_forget);
  EXPECT_EQ(cache_.ShowListing(kDir).number, 0u) << "a name is changing";
  v1::Reply made;
  v1::Attr& directory = *made.add_changed();
  directory = AttrOf(kDir, S_IFDIR | 0755);
  directory.set_change(7);
  cache_.OnReply(create, made);
  cache_.EndChange(change);
  EXPECT_GT(cache_.ShowListing(kDir).number, listing.number);
  EXPECT_FALSE(cache_.ShowListing(kDir).kept);
  cache_.NoteListing(kDir, cache_.ShowListing(kDir));
  EXPECT_TRUE(cache_.ShowListing(kDir).kept);

  cache_.OnRecall(kDir);
  EXPECT_EQ(cache_.ShowListing(kDir).number, 0u);
  cache_.Returned({kDir});
  LookedUp("a", 7);
  EXPECT_FALSE(cache_.ShowListing(kDir).kept);
  cache_.NoteListing(kDir, listing);  // by a handle from before
  EXPECT_FALSE(cache_.ShowListing(kDir).kept);
}

TEST_F(NameCacheTest, KeepsAListingUntilTheDirectoryChanges) {
  const auto report = [&](std::uint64_t change) {
    v1::Request request;
    request.mutable_get_attr()->set_inode(kDir);
    v1::Reply reply;
    reply.add_cacheable(kDir);
    *reply.mutable_attr()->mutable_attr() = AttrOf(kDir);
    reply.mutable_attr()->mutable_attr()->set_change(change);
    cache_.OnReply(request, reply);
  };
  Listed(0, {3}, true);
  EXPECT_EQ(cache_.Page(kDir, 0), nullptr);  // a change would not be noticed
  report(1);
  Listed(0, {3, 4}, false);
  Listed(4, {5}, true);
  report(1);
  ASSERT_NE(cache_.Page(kDir, 0), nullptr);
  EXPECT_EQ(cache_.Page(kDir, 0)->entries_size(), 2);
  EXPECT_FALSE(cache_.Page(kDir, 0)->entries(0).has_attr());
  ASSERT_NE(cache_.Page(kDir, 4), nullptr);
  EXPECT_TRUE(cache_.Page(kDir, 4)->end());
  EXPECT_EQ(cache_.Page(kDir, 3), nullptr);  // none begins there
  const std::size_t weight = cache_.weight();
  report(2);
  EXPECT_EQ(cache_.Page(kDir, 0), nullptr);
  EXPECT_LT(cache_.weight(), weight);
  Listed(0, {3}, true);
  EXPECT_NE(cache_.Page(kDir, 0), nullptr);
  cache_.OnRecall(kDir);
  EXPECT_EQ(cache_.Page(kDir, 0), nullptr);
  EXPECT_FALSE(cache_.Holds(kDir));
}

TEST_F(NameCacheTest, KeepsOnlyRepliesUnderAToken) {
  EXPECT_EQ(Find("a"), "?");
  LookedUp("a", 10);
  LookedUp("b", 0);
  EXPECT_EQ(Find("a"), "10");
  EXPECT_EQ(Find("b"), "-");
  EXPECT_EQ(Find("c"), "?");
  EXPECT_TRUE(cache_.GetAttr(10));
  cache_.Clear(0);
  LookedUp("a", 10, /*cacheable=*/false);
  EXPECT_EQ(Find("a"), "?");
}

TEST_F(NameCacheTest, ARecallOfADirectoryTakesItsNames) {
  LookedUp("a", 10);
  cache_.OnRecall(kDir);
  EXPECT_EQ(Find("a"), "?");
  EXPECT_TRUE(cache_.GetAttr(10));
  cache_.OnRecall(10);
  EXPECT_FALSE(cache_.GetAttr(10));
  EXPECT_EQ(cache_.weight(), 0u);
}

TEST_F(NameCacheTest, FollowsThisClientsOwnChanges) {
  LookedUp("a", 0);
  Created(kDir, "a", 10);
  EXPECT_EQ(Find("a"), "10");
  v1::Request unlink;
  unlink.mutable_unlink()->set_parent(kDir);
  unlink.mutable_unlink()->set_name("a");
  v1::Reply failed;
  failed.set_error(EPERM);
  cache_.OnReply(unlink, failed);
  EXPECT_EQ(Find("a"), "10");
  v1::Reply done;
  *done.add_changed() = AttrOf(10);
  done.mutable_changed(0)->set_nlink(0);
  *done.add_changed() = AttrOf(kDir, S_IFDIR | 0755);
  cache_.OnReply(unlink, done);
  EXPECT_EQ(Find("a"), "-");
  EXPECT_EQ(cache_.GetAttr(10)->nlink, 0u);
}

TEST_F(NameCacheTest, RenamesMoveExchangeAndReplace) {
  LookedUp("a", 10);
  LookedUp("b", 20);
  Renamed("a", "b", 2 /* RENAME_EXCHANGE */);
  EXPECT_EQ(Find("a"), "20");
  EXPECT_EQ(Find("b"), "10");
  Renamed("a", "b");
  EXPECT_EQ(Find("a"), "-");
  EXPECT_EQ(Find("b"), "20");
  LookedUp("a", 30);
  Renamed("a", "b", 4 /* RENAME_WHITEOUT */, 40);
  EXPECT_EQ(Find("a"), "40");
  EXPECT_EQ(Find("b"), "30");
  Renamed("b", "unknown");  // what it replaced is not known, nor whether it was the same inode
  EXPECT_EQ(Find("b"), "?");
  EXPECT_EQ(Find("unknown"), "?");
}

TEST_F(NameCacheTest, TwoNamesOfOneInodeBothStay) {
  LookedUp("a", 10);
  LookedUp("b", 10);
  Renamed("a", "b");
  EXPECT_EQ(Find("a"), "10");
  EXPECT_EQ(Find("b"), "10");
}

TEST_F(NameCacheTest, ANewDirectoryIsKnownWhole) {
  LookedUp("dir", 0);
  Created(kDir, "dir", 30, S_IFDIR | 0755);
  EXPECT_EQ(Find("x", 30), "-");
  Created(30, "x", 31);
  EXPECT_EQ(Find("x", 30), "31");
  EXPECT_EQ(Find(".", 30), "?");
  cache_.OnRecall(30);
  EXPECT_EQ(Find("y", 30), "?");
}

TEST_F(NameCacheTest, AWholeListingTellsWhatIsAbsent) {
  Listed(0, {1, 2, 3, 4}, false);
  EXPECT_EQ(Find("name4"), "104");
  EXPECT_EQ(Find("other"), "?");
  Listed(4, {5}, true);
  EXPECT_EQ(Find("name5"), "105");
  EXPECT_EQ(Find("other"), "?") << "it may be another spelling of one that is there";
  Described();
  EXPECT_EQ(Find("other"), "-");
  EXPECT_EQ(Find("name1"), "-");  // "." and "..", whatever they are called here, are no names
}

TEST_F(NameCacheTest, AListingWithAGapTellsNothingOfAbsence) {
  Listed(0, {3, 4}, false);
  cache_.OnRecall(kDir);
  Listed(4, {5}, true);
  EXPECT_EQ(Find("other"), "?");
}

TEST_F(NameCacheTest, IsBoundedAndGivesTokensBack) {
  NameCache small(4 * NameCache::kNodeWeight);
  for (std::uint64_t inode = 10; inode < 20; ++inode) {
    v1::Request request;
    request.mutable_get_attr()->set_inode(inode);
    v1::Reply reply;
    reply.add_cacheable(inode);
    *reply.mutable_attr()->mutable_attr() = AttrOf(inode);
    small.OnReply(request, reply);
    EXPECT_TRUE(small.GetAttr(inode));
  }
  EXPECT_EQ(small.weight(), 4 * NameCache::kNodeWeight);
  const std::vector<std::uint64_t> dropped = small.TakeDropped().inodes;
  ASSERT_EQ(dropped.size(), 6u);
  EXPECT_EQ(dropped[0], 10u);
  // On its way back it is not taken again: the controller may have made the grant before.
  v1::Request request;
  v1::Reply reply;
  reply.add_cacheable(10);
  *reply.mutable_attr()->mutable_attr() = AttrOf(10);
  small.OnReply(request, reply);
  EXPECT_FALSE(small.GetAttr(10));
  // Nor is it sent again: the second one could come after another grant.
  EXPECT_EQ(small.OnRecall(10).step, RecallStep::kOnItsWay);
  small.Returned(dropped);
  small.OnReply(request, reply);
  EXPECT_TRUE(small.GetAttr(10));
}

// While a client fills a directory, the files that it is done with make room, not the directory:
// else each further create would ask the controller whether its name is free.
TEST_F(NameCacheTest, ALargeDirectoryStaysCompleteAndGivesTokensBackInLumps) {
  constexpr std::uint64_t kFiles = 8'000;
  NameCache cache(10'000);
  v1::Request request;
  request.mutable_create()->set_parent(kDir);
  request.mutable_create()->set_mode(S_IFDIR | 0755);
  request.mutable_create()->set_name("dir");
  v1::Reply reply;
  const auto create = [&](std::uint64_t inode, std::uint32_t mode) {
    reply.clear_cacheable();
    reply.add_cacheable(inode);
    *reply.mutable_entry()->mutable_attr() = AttrOf(inode, mode);
    reply.clear_changed();
    *reply.add_changed() = AttrOf(request.create().parent(), S_IFDIR | 0755);
    cache.OnReply(request, reply);
  };
  create(2, S_IFDIR | 0755);
  request.mutable_create()->set_parent(2);
  std::size_t messages = 0, dropped = 0;
  for (std::uint64_t file = 0; file < kFiles; ++file) {
    const std::string name = absl::StrCat("file", file);
    const auto found = cache.Lookup(2, name);  // what the kernel asks before it creates
    ASSERT_TRUE(found && found->absent) << name;
    request.mutable_create()->set_name(name);
    create(10 + file, S_IFREG | 0644);
    const std::vector<std::uint64_t> back = cache.TakeDropped().inodes;
    messages += back.empty() ? 0 : 1;
    dropped += back.size();
  }
  EXPECT_GE(dropped, kFiles - 2'000);
  EXPECT_LE(messages, dropped / 10);
  EXPECT_LE(cache.weight(), 10'000u);
  EXPECT_FALSE(cache.Lookup(2, "file0"));  // its attributes are asked for again
}

TEST_F(NameCacheTest, AListingOfALargeDirectoryFillsOnlyAPartOfTheCache) {
  NameCache cache(1'000);
  v1::Request request;
  request.mutable_read_dir()->set_inode(kDir);
  for (std::uint64_t cookie = 3; cookie < 5'000; ++cookie) {
    v1::Reply reply;
    reply.add_cacheable(kDir);
    v1::ReadDirReply::Entry& entry = *reply.mutable_read_dir()->add_entries();
    entry.set_name(absl::StrCat("name", cookie));
    entry.set_inode(100 + cookie);
    entry.set_cookie(cookie);
    reply.mutable_read_dir()->set_end(cookie == 4'999);
    cache.OnReply(request, reply);
    request.mutable_read_dir()->set_cookie(cookie);
  }
  EXPECT_LE(cache.weight(), 150u);
  EXPECT_FALSE(cache.Lookup(kDir, "name4999"));  // not all is known
}

TEST_F(NameCacheTest, ARemovedNameOfACompleteDirectoryTakesNoRoom) {
  Listed(0, {1, 2, 3, 4}, true);
  const std::size_t before = cache_.weight();
  v1::Request request;
  request.mutable_unlink()->set_parent(kDir);
  request.mutable_unlink()->set_name("name4");
  v1::Reply reply;
  *reply.add_changed() = AttrOf(kDir, S_IFDIR | 0755);
  cache_.OnReply(request, reply);
  EXPECT_EQ(Find("name4"), "-");
  EXPECT_EQ(cache_.weight(), before - NameCache::WeightOf("name4"));
}

}  // namespace
}  // namespace reel::client
