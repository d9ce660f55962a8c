#include "client/vfs/vfs.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/fs.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "client/testing/vfs_fixture.h"
#include "proto/status.h"

namespace reel::client {
namespace {

TEST_F(VfsTest, AttributesComeOverlaidAndCredentialsGoAlong) {
  ReplyEntry(7);
  const auto attr = vfs_.Lookup({1, "a"}, caller_);
  ASSERT_TRUE(attr.ok());
  EXPECT_EQ(attr->inode, 7u);
  EXPECT_EQ(attr->size_bytes, 4711u);
  EXPECT_EQ(LastRequest().lookup().name(), "a");
  EXPECT_EQ(session_.uid, 1000u);
}

// EINTR would be a lie: nobody interrupted anything. (A shell opens again at once, for ever.)
TEST_F(VfsTest, TheFirstLookAtTheRootWaitsForAController) {
  session_.away = true;
  EXPECT_EQ(ErrnoOf(vfs_.GetAttr(1, caller_).status()), ETIMEDOUT);
  EXPECT_EQ(ErrnoOf(vfs_.StatFs(1, caller_).status()), ETIMEDOUT);
  EXPECT_TRUE(absl::IsUnavailable(vfs_.LookAtRoot())) << "nothing is mounted then";
}

TEST_F(VfsTest, TheRootIsStillThereWhenNoControllerIs) {
  ReplyAttr(1);
  session_.replies.emplace_back().mutable_stat_fs()->set_block_bytes(4096);
  ASSERT_TRUE(vfs_.LookAtRoot().ok());
  session_.away = true;
  EXPECT_EQ(vfs_.GetAttr(1, caller_)->inode, 1u);
  EXPECT_EQ(vfs_.StatFs(1, caller_)->block_bytes(), 4096u);
}

TEST_F(VfsTest, SpaceIsAskedForWithOneMessageWhereTheControllerKnowsHow) {
  v1::StatFsReply& space = *session_.replies.emplace_back().mutable_stat_fs();
  space.set_block_bytes(4096);
  space.set_free_blocks(7);
  space.set_of_inode(true);
  EXPECT_EQ(vfs_.StatFs(5, caller_)->free_blocks(), 7u);
  EXPECT_EQ(LastRequest().stat_fs().inode(), 5u);
  session_.replies.emplace_back().mutable_stat_fs()->set_block_bytes(4096);
  session_.replies.emplace_back().mutable_data()->set_data("40960 8192");
  EXPECT_EQ(vfs_.StatFs(6, caller_)->free_blocks(), 2u);
  EXPECT_EQ(LastRequest().get_xattr().name(), "reelfs.space");
}

// Another host may see the change before this one hears that it is made.
TEST_F(VfsTest, TheKernelForgetsNamesBeforeAChangeIsSent) {
  std::vector<std::size_t> forgotten;  // how many requests had been sent
  ASSERT_TRUE(kernel_names_.Start({.forget =
                                       [&] {
                                         forgotten.push_back(session_.requests.size());
                                         return true;
                                       },
                                   .is_mounted_upon = [] { return false; }}));
  forgotten.clear();
  v1::Request lookup;
  lookup.mutable_lookup()->set_parent(1);
  lookup.mutable_lookup()->set_name("name");
  v1::Reply absent;
  absent.add_cacheable(1);
  absent.set_error(ENOENT);
  names_.OnReply(lookup, absent);
  EXPECT_EQ(vfs_.ShowName({1, "name"}, 0), KernelNames::kKeptMs * 1'000'000);
  EXPECT_EQ(vfs_.ShowName({1, "name"}, 7), 0) << "not there, as far as is known";
  ReplyEntry(7);
  EXPECT_TRUE(vfs_.Make({1, "name"}, S_IFDIR | 0755, 0, caller_).ok());
  EXPECT_EQ(forgotten, std::vector<std::size_t>{0});
  ReplyEntry(8);
  EXPECT_TRUE(vfs_.Make({1, "other"}, S_IFDIR | 0755, 0, caller_).ok());
  EXPECT_EQ(forgotten.size(), 1) << "it keeps nothing";
}

TEST_F(VfsTest, TheKernelKeepsAttributesOfAFileThatNobodyHereChanges) {
  constexpr std::uint64_t kMomentNs = 1'000;
  Know(7, "file", S_IFREG | 0644);
  Know(8, "link", S_IFLNK | 0777);
  EXPECT_GT(vfs_.ShowAttr(*vfs_.GetAttr(7, caller_), /*knows_inode=*/false), kMomentNs);
  EXPECT_EQ(vfs_.ShowAttr(*vfs_.GetAttr(8, caller_), /*knows_inode=*/true), kMomentNs);
  ASSERT_TRUE(vfs_.Open(7, O_RDONLY, caller_).ok());
  EXPECT_TRUE(forgotten_.empty());
  ASSERT_TRUE(vfs_.Open(7, O_WRONLY, caller_).ok());
  EXPECT_EQ(forgotten_, std::vector<std::uint64_t>{7});
  data_.settled = false;
  Know(9, "other", S_IFREG | 0644);
  EXPECT_EQ(vfs_.ShowAttr(*vfs_.GetAttr(9, caller_), /*knows_inode=*/true), kMomentNs);
  ASSERT_TRUE(vfs_.Open(9, O_WRONLY, caller_).ok());
  EXPECT_EQ(forgotten_.size(), 1) << "a moment is over by itself";
}

TEST_F(VfsTest, ErrnosPassThrough) {
  for (const int error : {ENOENT, ENOTEMPTY, ELOOP, EDQUOT, ENAMETOOLONG, ESTALE}) {
    ReplyError(error);
    EXPECT_EQ(ErrnoOf(vfs_.Lookup({1, "a"}, caller_).status()), error);
    ReplyError(error);
    EXPECT_EQ(ErrnoOf(vfs_.Unlink({1, "a"}, true, caller_)), error);
    ReplyError(error);
    EXPECT_EQ(ErrnoOf(vfs_.GetXattr(1, "user.a", caller_).status()), error);
  }
}

TEST_F(VfsTest, AReplyOfAnotherKindIsAnIoError) {
  EXPECT_EQ(ErrnoOf(vfs_.Lookup({1, "a"}, caller_).status()), EIO);
  EXPECT_EQ(ErrnoOf(vfs_.GetAttr(1, caller_).status()), EIO);
  EXPECT_EQ(ErrnoOf(vfs_.ReadLink(1, caller_).status()), EIO);
  EXPECT_EQ(ErrnoOf(vfs_.StatFs(1, caller_).status()), EIO);
}

TEST_F(VfsTest, ARemovedFileThatIsOpenIsGoneWithItsSession) {
  Know(7, "f", S_IFREG | 0644);
  ASSERT_TRUE(vfs_.Unlink({1, "f"}, false, caller_).ok());
  names_.OnRecall(7);

  ReplyError(ESTALE);
  EXPECT_EQ(vfs_.GetAttr(7, caller_)->nlink, 0u);
  data_.open = 7;  // the controller would have kept it
  ReplyError(ESTALE);
  EXPECT_EQ(ErrnoOf(vfs_.GetAttr(7, caller_).status()), ESTALE);
}

TEST_F(VfsTest, ARemovedDirectoryHasAttributesUntilTheKernelForgetsIt) {
  Know(7, "d", S_IFDIR | 0755);
  ASSERT_TRUE(vfs_.Unlink({1, "d"}, true, caller_).ok());
  names_.OnRecall(7);

  ReplyError(ESTALE);
  EXPECT_EQ(vfs_.GetAttr(7, caller_)->nlink, 0u);
  v1::SetAttr set;
  set.set_inode(7);
  set.set_fields(v1::SetAttr::MODE);
  set.set_mode(0700);
  ReplyError(ESTALE);
  EXPECT_EQ(vfs_.SetAttr(set, caller_)->mode(), S_IFDIR | 0700u);
  ReplyError(ESTALE);
  EXPECT_EQ(ErrnoOf(vfs_.GetXattr(7, kAclName, caller_).status()), ENODATA);
  ReplyError(ESTALE);
  EXPECT_EQ(*vfs_.ListXattr(7, caller_), "");
  ReplyError(ESTALE);
  EXPECT_EQ(ErrnoOf(vfs_.CreateUnnamed(7, 0600, O_RDWR, caller_).status()), EPERM);
  vfs_.Forget(7);
  ReplyError(ESTALE);
  EXPECT_EQ(ErrnoOf(vfs_.GetAttr(7, caller_).status()), ESTALE);
}

TEST_F(VfsTest, AWriteRemovesCapabilities) {
  constexpr char kName[] = "security.capability";
  const auto reply_with = [&](std::string data) {
    session_.replies.emplace_back().mutable_data()->set_data(std::move(data));
  };
  reply_with("x");
  EXPECT_EQ(*vfs_.GetXattr(7, kName, caller_), "x");
  data_.wrote = true;
  reply_with("x");
  EXPECT_EQ(ErrnoOf(vfs_.GetXattr(7, kName, caller_).status()), ENODATA);
  reply_with(std::string("user.a\0security.capability\0user.b\0", 34));
  EXPECT_EQ(*vfs_.ListXattr(7, caller_), std::string("user.a\0user.b\0", 14));
}

TEST_F(VfsTest, CreateOpensForTheSession) {
  ReplyEntry(9);
  ASSERT_TRUE(vfs_.Create({1, "f"}, S_IFREG | 0644, O_WRONLY | O_CREAT, caller_).ok());
  EXPECT_TRUE(LastRequest().create().open());
  EXPECT_EQ(LastRequest().create().mode(), static_cast<std::uint32_t>(S_IFREG | 0644));
  EXPECT_EQ(LastRequest().create().token(), v1::TOKEN_EXCLUSIVE);
  EXPECT_EQ(LastRequest().create().allocate_bytes(), 5'000u);
  EXPECT_EQ(data_.opened, 9u);
  EXPECT_EQ(data_.closed, 0u);
}

TEST_F(VfsTest, AFileWhoseCreatorWasInterruptedIsClosedAgain) {
  ReplyEntry(9);
  session_.interrupted = true;
  EXPECT_EQ(ErrnoOf(vfs_.Create({1, "f"}, 0644, O_WRONLY | O_CREAT, caller_).status()), EINTR);
  EXPECT_EQ(data_.opened, 9u);
  EXPECT_EQ(data_.closed, 9u);
}

TEST_F(VfsTest, ANameThatAnotherHostMadeIsLookedUpAgain) {
  ReplyError(EEXIST);
  EXPECT_EQ(ErrnoOf(vfs_.Create({1, "f"}, 0644, O_CREAT, caller_).status()), ESTALE);
  ReplyError(EEXIST);
  EXPECT_EQ(ErrnoOf(vfs_.Create({1, "f"}, 0644, O_CREAT | O_EXCL, caller_).status()), EEXIST);
  EXPECT_EQ(data_.opened, 0u);
}

TEST_F(VfsTest, AListingBringsAttributesWhileTheyAreUsed) {
  v1::Request made;
  made.mutable_read_dir()->set_inode(1);
  v1::Reply held;
  held.add_cacheable(1);
  names_.OnReply(made, held);
  DirHandle handle(1);
  ReplyListing({3, 4}, false);
  ReplyListing({5, 6}, false);
  ASSERT_EQ(ErrnoOf(vfs_.NextEntry(handle, 0, caller_).status()), 0);
  EXPECT_TRUE(LastRequest().read_dir().attributes());
  ASSERT_EQ(ErrnoOf(vfs_.NextEntry(handle, 4, caller_).status()), 0);
  EXPECT_FALSE(LastRequest().read_dir().attributes());
  ReplyEntry(9);
  ASSERT_TRUE(vfs_.Lookup({1, "n6"}, caller_).ok());
  ReplyListing({7}, true);
  ASSERT_EQ(ErrnoOf(vfs_.NextEntry(handle, 6, caller_).status()), 0);
  EXPECT_TRUE(LastRequest().read_dir().attributes());
}

TEST_F(VfsTest, AnOpenSaysWhetherItWrites) {
  ASSERT_TRUE(vfs_.Open(5, O_RDWR, caller_).ok());
  EXPECT_TRUE(data_.opened_for_write);
  ASSERT_TRUE(vfs_.Open(5, O_RDONLY, caller_).ok());
  EXPECT_FALSE(data_.opened_for_write);
}

TEST_F(VfsTest, FileDataDecidesSizeAndTimes) {
  v1::SetAttr set;
  set.set_fields(v1::SetAttr::SIZE | v1::SetAttr::MODE);
  ASSERT_TRUE(vfs_.SetAttr(set, caller_).ok());
  EXPECT_EQ(data_.set_fields, set.fields());
  EXPECT_TRUE(session_.requests.empty());

  set.set_fields(v1::SetAttr::MODE | v1::SetAttr::UID);
  ReplyAttr(3);
  caller_.groups = &groups_;
  ASSERT_TRUE(vfs_.SetAttr(set, caller_).ok());
  EXPECT_EQ(LastRequest().set_attr().fields(), set.fields());
  EXPECT_EQ(session_.groups, 2) << "whether set-group-id may stay is asked with chown(2)";
}

TEST_F(VfsTest, RenameFlags) {
  EXPECT_TRUE(vfs_.Rename({1, "a"}, {2, "b"}, RENAME_EXCHANGE, caller_).ok());
  EXPECT_EQ(LastRequest().rename().flags(), static_cast<std::uint32_t>(RENAME_EXCHANGE));
  EXPECT_TRUE(vfs_.Rename({1, "a"}, {2, "b"}, RENAME_WHITEOUT, caller_).ok());
  EXPECT_EQ(LastRequest().rename().flags(), static_cast<std::uint32_t>(RENAME_WHITEOUT));
  EXPECT_EQ(ErrnoOf(vfs_.Rename({1, "a"}, {2, "b"}, 8, caller_)), EINVAL);
  EXPECT_EQ(session_.requests.size(), 2u);
}

TEST_F(VfsTest, NoAclIsAskedForWhereNoneIsKnown) {
  v1::Request request;
  request.mutable_get_attr()->set_inode(5);
  v1::Reply reply;
  reply.add_cacheable(5);
  reply.mutable_attr()->mutable_attr()->set_inode(5);
  reply.mutable_attr()->mutable_attr()->set_mode(S_IFDIR | 0755);
  names_.OnReply(request, reply);
  EXPECT_EQ(ErrnoOf(vfs_.GetXattr(5, kAclName, caller_).status()), ENODATA);
  EXPECT_TRUE(session_.requests.empty());
  EXPECT_EQ(ErrnoOf(vfs_.GetXattr(6, kAclName, caller_).status()), EIO) << "it was asked for";
  reply.mutable_attr()->mutable_attr()->set_xattrs(true);
  names_.OnReply(request, reply);
  EXPECT_EQ(ErrnoOf(vfs_.GetXattr(5, kAclName, caller_).status()), EIO);
  EXPECT_EQ(session_.requests.size(), 2u);
}

TEST_F(VfsTest, AclsAreSetWithTheGroups) {
  v1::SetXattr set;
  set.set_name(kAclName);
  caller_.groups = &groups_;
  ASSERT_TRUE(vfs_.SetXattr(set, caller_).ok());
  EXPECT_EQ(session_.groups, 2) << "whether set-group-id may stay depends on them";
}

TEST_F(VfsTest, GroupsGoAlongWhereTheyMatter) {
  caller_.groups = &groups_;
  caller_.umask = 027;
  ReplyEntry(9);
  ASSERT_TRUE(vfs_.Create({1, "f"}, 0666, O_CREAT, caller_).ok());
  EXPECT_EQ(session_.groups, 0);
  EXPECT_EQ(LastRequest().create().umask(), 027u);
  ReplyEntry(9);
  ASSERT_TRUE(vfs_.Make({1, "f"}, S_IFREG | 02755, 0, caller_).ok());
  EXPECT_EQ(session_.groups, 2);
}

TEST_F(VfsTest, ReadsThatAreDueAreNoted) {
  v1::Reply reply;
  reply.mutable_data()->set_data("target");
  session_.replies.push_back(reply);
  ASSERT_TRUE(vfs_.ReadLink(5, caller_).ok());
  EXPECT_TRUE(data_.accessed.empty());
  reply.mutable_data()->set_atime_due(true);
  session_.replies.push_back(reply);
  ASSERT_TRUE(vfs_.ReadLink(5, caller_).ok());
  EXPECT_EQ(data_.accessed, (std::vector<std::uint64_t>{5}));
  reply.mutable_read_dir()->set_end(true);
  reply.mutable_read_dir()->set_atime_due(true);
  session_.replies = {reply, reply};
  std::vector<std::uint64_t> cookies;
  DirHandle quiet(6, /*no_atime=*/true), handle(6);
  EXPECT_EQ(ReadAll(quiet, 0, &cookies), 0);
  EXPECT_EQ(data_.accessed.size(), 1u);
  EXPECT_EQ(ReadAll(handle, 0, &cookies), 0);
  EXPECT_EQ(data_.accessed, (std::vector<std::uint64_t>{5, 6}));
}

TEST_F(VfsTest, OpenFlagsReachTheWrite) {
  const std::byte data[1] = {};
  ASSERT_TRUE(
      vfs_.Write(1, 0, data, O_WRONLY | O_APPEND | O_DSYNC, PageCacheWrite::kNone, caller_).ok());
  EXPECT_TRUE(data_.last.append && data_.last.sync && !data_.last.page_cache);
  ASSERT_TRUE(vfs_.Write(1, 0, data, 0, PageCacheWrite::kThrough, caller_).ok());
  EXPECT_TRUE(!data_.last.append && !data_.last.sync && data_.last.page_cache);
  EXPECT_FALSE(data_.last.write_back);
  ASSERT_TRUE(vfs_.Write(1, 0, data, 0, PageCacheWrite::kBack, caller_).ok());
  EXPECT_TRUE(data_.last.page_cache && data_.last.write_back);
  EXPECT_FALSE(data_.last.direct);
  caller_.handle = 7;
  ASSERT_TRUE(vfs_.Write(1, 0, data, O_RDWR | O_DIRECT, PageCacheWrite::kNone, caller_).ok());
  EXPECT_TRUE(data_.last.direct);
  EXPECT_EQ(data_.last.handle, 7u);
}

TEST_F(VfsTest, SeekIsForDataAndHoles) {
  EXPECT_EQ(*vfs_.Seek(1, 0, SEEK_DATA, caller_), 1u);
  EXPECT_EQ(*vfs_.Seek(1, 0, SEEK_HOLE, caller_), 2u);
  EXPECT_EQ(ErrnoOf(vfs_.Seek(1, 0, SEEK_END, caller_).status()), EINVAL);
}

TEST_F(VfsTest, DirectoriesAreReadByPagesFromAnyCookie) {
  DirHandle handle(1);
  std::vector<std::uint64_t> cookies;
  ReplyListing({1, 2, 3}, false);
  ReplyListing({7, 8}, true);
  EXPECT_EQ(ReadAll(handle, 0, &cookies), 0);
  EXPECT_EQ(cookies, (std::vector<std::uint64_t>{1, 2, 3, 7, 8}));
  EXPECT_EQ(session_.requests.size(), 2u);
  EXPECT_EQ(LastRequest().read_dir().cookie(), 3u);

  cookies.clear();  // seekdir to what the handle no longer holds
  ReplyListing({2, 3, 7, 8}, true);
  EXPECT_EQ(ReadAll(handle, 1, &cookies), 0);
  EXPECT_EQ(cookies, (std::vector<std::uint64_t>{2, 3, 7, 8}));
  EXPECT_EQ(LastRequest().read_dir().cookie(), 1u);

  cookies.clear();  // rewinddir sees what is new
  ReplyListing({1, 9}, true);
  EXPECT_EQ(ReadAll(handle, 0, &cookies), 0);
  EXPECT_EQ(cookies, (std::vector<std::uint64_t>{1, 9}));
}

TEST_F(VfsTest, AnOpenDirectoryIsRegisteredUnlessATokenKeepsIt) {
  vfs_.OpenDirectory(7);
  EXPECT_EQ(data_.registered, (std::vector<std::uint64_t>{7}));
  v1::Request request;
  request.mutable_get_attr()->set_inode(7);
  v1::Reply reply;
  reply.add_cacheable(7);
  reply.mutable_attr()->mutable_attr()->set_inode(7);
  reply.mutable_attr()->mutable_attr()->set_mode(S_IFDIR);
  names_.OnReply(request, reply);
  vfs_.OpenDirectory(7);
  EXPECT_EQ(data_.registered.size(), 1u);
}

TEST_F(VfsTest, AListingThatGoesInCirclesEnds) {
  DirHandle handle(1);
  std::vector<std::uint64_t> cookies;
  ReplyListing({1, 2}, false);
  ReplyListing({1, 2}, false);
  EXPECT_EQ(ReadAll(handle, 0, &cookies), EIO);
  ReplyListing({}, true);
  EXPECT_EQ(ReadAll(handle, 0, &cookies), 0);
}

}  // namespace
}  // namespace reel::client
